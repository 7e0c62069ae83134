//! `towpath demo` with real servers: whatever ends it, nothing remains.
//!
//! Without MariaDB's programs the tests that need them say so on standard error and pass.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::{env, fs};

/// A demo that runs in a directory of its own.
struct Demo {
    child: Child,
    stdout: BufReader<ChildStdout>,
    dir: PathBuf,
    /// What has been read of standard output.
    said: String,
    _parent: tempfile::TempDir,
}

impl Demo {
    /// None, loudly, where MariaDB is not installed.
    fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_with(arguments, "")
    }

    /// As `start`, with programs that are found in `first` before all others.
    fn start_with(arguments: &[&str], first: &str) -> Option<Self> {
        let path = format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default());
        let there = |program: &str| env::split_paths(&path).any(|dir| dir.join(program).exists());
        if !["mariadbd", "mariadb-install-db", "mariadb", "openssl"].into_iter().all(there) {
            eprintln!("SKIPPED: MariaDB's programs are not installed");
            return None;
        }
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("demo");
        let mut child = towpath()
            .arg("demo")
            .args(arguments)
            .arg("--dir")
            .arg(&dir)
            .env("PATH", format!("{first}:{path}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, stdout, dir, said: String::new(), _parent: parent })
    }

    /// Reads until a line holds `part`, and returns that line.
    fn await_line(&mut self, part: &str) -> String {
        loop {
            let from = self.said.len();
            let read = self.stdout.read_line(&mut self.said).unwrap();
            assert!(read > 0, "ended before it said {part:?}:\n{}", self.said);
            if self.said[from..].contains(part) {
                return self.said[from..].trim().to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end and looks for what it has left behind. What it said includes its errors.
    fn end(mut self) -> (ExitStatus, String) {
        self.stdout.read_to_string(&mut self.said).unwrap();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut self.said).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(processes(&self.dir), Vec::<String>::new(), "still running:\n{}", self.said);
        assert!(!self.dir.exists(), "the directory is still there:\n{}", self.said);
        (status, self.said)
    }
}

fn towpath() -> Command {
    Command::new(env!("CARGO_BIN_EXE_towpath"))
}

/// Command lines of processes that have to do with `dir`: every server's and client's names it.
fn processes(dir: &Path) -> Vec<String> {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(dir.to_str().unwrap())).collect()
}

#[test]
fn tour_is_as_it_should_be() {
    let Some(demo) = Demo::start(&["--yes", "--once"]) else { return };
    let (status, said) = demo.end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("server that ran it"), "{said}");
    assert!(said.contains("replica1") && said.contains("replica2"), "{said}");
    assert!(!said.contains("BAD"), "{said}");
}

#[test]
fn interrupted_during_set_up_leaves_nothing() {
    for moment in ["certificates", "three servers", "until the replicas follow"] {
        let Some(mut demo) = Demo::start(&["--yes"]) else { return };
        demo.await_line(moment);
        assert_ne!(processes(&demo.dir), Vec::<String>::new());
        demo.signal(Signal::INT);
        let (status, said) = demo.end();
        assert_eq!(status.code(), Some(130), "at {moment:?}:\n{said}");
        assert!(!said.contains("Ctrl-C"), "{said}");
    }
}

#[test]
fn interrupted_while_running_is_a_good_end_and_the_connect_line_works() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(mut demo) = Demo::start(&["--yes"]) else { return };
        let connect = demo.await_line("mariadb -h 127.0.0.1");
        demo.await_line("Ctrl-C stops");
        let line = format!("{connect} --batch --skip-column-names -e 'SELECT @@server_id'");
        let answer = Command::new("bash").arg("-c").arg(line).output().unwrap();
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert_eq!((answer.stdout.as_slice(), said.as_str()), (b"1\n".as_slice(), ""));
        // A session that is open does not keep it from ending.
        let mut idle = Command::new("bash");
        let idle = idle.arg("-c").arg(format!("exec {connect}")).stdin(Stdio::piped());
        let mut idle = idle.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        demo.signal(signal);
        let (status, said) = demo.end();
        assert_eq!(status.code(), Some(0), "{said}");
        drop(idle.stdin.take());
        idle.wait().unwrap();
    }
}

#[test]
fn directory_is_kept_when_asked() {
    let Some(mut demo) = Demo::start(&["--yes", "--keep"]) else { return };
    demo.await_line("Ctrl-C stops");
    demo.signal(Signal::INT);
    demo.stdout.read_to_string(&mut demo.said).unwrap();
    assert!(demo.child.wait().unwrap().success(), "{}", demo.said);
    assert_eq!(processes(&demo.dir), Vec::<String>::new());
    assert!(demo.dir.join("n1/data").is_dir() && demo.dir.join("towpath.toml").is_file());
    let log = fs::read_to_string(demo.dir.join("n1/err.log")).unwrap();
    assert!(log.contains("Shutdown complete"), "not stopped gently:\n{log}");
}

#[test]
fn set_up_that_fails_half_way_leaves_nothing() {
    let fake = tempfile::tempdir().unwrap();
    // The databases are made, the servers start, and then a replica's set-up fails.
    let script = "#!/bin/bash\n[[ \"$*\" == */n2/s.sock* && \"$*\" != *DO* ]] && \
                  { echo 'no such luck' >&2; exit 1; }\nexec /usr/bin/mariadb \"$@\"\n";
    fs::write(fake.path().join("mariadb"), script).unwrap();
    fs::set_permissions(fake.path().join("mariadb"), fs::Permissions::from_mode(0o755)).unwrap();
    let Some(demo) = Demo::start_with(&["--yes"], fake.path().to_str().unwrap()) else {
        return;
    };
    let (status, said) = demo.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("three servers") && said.contains("no such luck"), "{said}");
}

#[test]
fn port_that_is_taken_is_refused() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let Some(demo) = Demo::start(&["--yes", "--port", &port]) else { return };
    let (status, said) = demo.end();
    assert_eq!(status.code(), Some(1), "{said}");
}

#[test]
fn directory_that_exists_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine"), "").unwrap();
    let output = towpath().args(["demo", "--dir"]).arg(dir.path()).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(dir.path().join("mine").exists());
}

#[test]
fn missing_programs_are_named_and_nothing_is_installed() {
    let empty = tempfile::tempdir().unwrap();
    let output = towpath().args(["demo", "--yes"]).env("PATH", empty.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("mariadb-client-core") && said.contains("not installed"), "{said}");
}
