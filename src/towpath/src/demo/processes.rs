//! The processes that this one has started, their children, and theirs.
//!
//! The servers are daemons: the script that starts them ends, and nobody's list of children holds
//! them any more. [`adopt_orphans`] makes them ours (prctl(2), PR_SET_CHILD_SUBREAPER), so that
//! one walk through /proc finds them all, also when the script was stopped between two lines.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open};
use std::collections::HashMap;
use std::{fs, io};

/// Those that were there before: a shell that became this process by exec(3) leaves it children
/// that are not its own, such as the `tee` of `towpath demo > >(tee file)`.
#[derive(Debug, Default)]
pub(crate) struct Before(Vec<i32>);

/// Makes this process the parent of every descendant whose own parent ends.
pub(crate) fn adopt_orphans() -> io::Result<Before> {
    let before = living(&Before::default())?;
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(Before(before.into_iter().map(|pid| pid.as_raw_nonzero().get()).collect()))
}

/// Ends all descendants that were not there before and returns when none is left: SIGTERM first if
/// `gently`, with 15 seconds for each to follow, then SIGKILL.
pub(crate) fn end_all(before: &Before, gently: bool) -> io::Result<()> {
    if gently {
        let all = living(before)?;
        all.iter().try_for_each(|&pid| send(pid, Signal::TERM))?;
        all.iter().try_for_each(|&pid| await_end(pid, 15))?;
    }
    // One that is ended may have started another just before: again, until a walk finds none.
    for _ in 0..10 {
        let all = living(before)?;
        if all.is_empty() {
            return Ok(());
        }
        all.iter().try_for_each(|&pid| send(pid, Signal::KILL))?;
        all.iter().try_for_each(|&pid| await_end(pid, 15))?;
    }
    Err(io::Error::other("some processes outlive SIGKILL"))
}

/// Descendants that are alive. Those that have ended and wait for init to notice are not.
fn living(before: &Before) -> io::Result<Vec<Pid>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path().join("stat");
        // Not a process, or one that has just ended.
        let Ok(stat) = fs::read_to_string(path) else { continue };
        all.extend(Process::parse(&stat));
    }
    let me = getpid().as_raw_nonzero().get();
    Ok(descendants(&all, me, before).into_iter().filter_map(Pid::from_raw).collect())
}

#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    ended: bool,
}

impl Process {
    /// From a line of /proc/PID/stat: `pid (name) state ppid ...`, see proc_pid_stat(5). The name
    /// may hold blanks and parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(" (")?;
        let mut fields = rest.rsplit_once(") ")?.1.split(' ');
        let ended = matches!(fields.next()?, "Z" | "X" | "x");
        Some(Self { pid: pid.parse().ok()?, parent: fields.next()?.parse().ok()?, ended })
    }
}

fn descendants(all: &[Process], ancestor: i32, before: &Before) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in all.iter().filter(|process| !before.0.contains(&process.pid)) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![ancestor];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            open.push(child.pid);
            if !child.ended {
                found.push(child.pid);
            }
        }
    }
    found
}

fn send(pid: Pid, signal: Signal) -> io::Result<()> {
    match kill_process(pid, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until `pid` has ended, at most `seconds`: a pidfd becomes readable then.
fn await_end(pid: Pid, seconds: i64) -> io::Result<()> {
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
    loop {
        let mut one = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut one, Some(&timeout)) {
            Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid, parent, ended: false }
    }

    #[test]
    fn stat_lines_are_read_whatever_the_name() {
        let line = "4242 (a (b) c) S 17 4242 4242 0 -1 4194560 1";
        assert_eq!(Process::parse(line), Some(process(4242, 17)));
        let zombie = "9 (mariadbd) Z 1 9 9 0 -1 4194560 1";
        assert_eq!(Process::parse(zombie), Some(Process { pid: 9, parent: 1, ended: true }));
        assert_eq!(Process::parse("no such thing"), None);
        assert_eq!(Process::parse(""), None);
    }

    #[test]
    fn descendants_are_found_through_an_ended_parent_and_strangers_are_not() {
        let all = [
            process(30, 20),
            Process { pid: 20, parent: 10, ended: true },
            process(10, 1),
            process(40, 30),
            process(50, 1),
        ];
        let mut found = descendants(&all, 10, &Before::default());
        found.sort_unstable();
        assert_eq!(found, [30, 40]);
        assert!(descendants(&all, 10, &Before(vec![20])).is_empty());
    }

    #[test]
    fn end_is_noticed() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(living(&Before::default()).unwrap().contains(&pid));
        send(pid, Signal::KILL).unwrap();
        await_end(pid, 15).unwrap();
        assert!(!living(&Before::default()).unwrap().contains(&pid));
        assert!(!child.wait().unwrap().success());
        send(pid, Signal::KILL).unwrap();
        await_end(pid, 15).unwrap();
    }
}
