//! The same with sysbench as the load.

use super::{Bed, TABLE, Verdict, WRITERS};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Scale, program, skip, wait};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

on_both_vendors!(killed_under_sysbench);

/// How long sysbench runs at most, in seconds: it is stopped by a file before.
const LONGEST: u32 = 110;

/// A sysbench that runs, and what it has written down.
struct Load {
    folder: TempDir,
    child: Child,
}

/// What its threads have written down until now.
#[derive(Default)]
struct Notes {
    acknowledged: Vec<String>,
    errors: Vec<String>,
}

impl Load {
    fn start(program: &Path, bed: &Bed) -> Result<Self> {
        let folder = TempDir::with_prefix("towpath-failover-")?;
        let (host, port) = bed.proxy.address.split_once(':').context("host and port")?;
        let (login, path) =
            (bed.login(), |name: &str| folder.path().join(name).display().to_string());
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/health/failover/writers.lua");
        let child = Command::new(program)
            .arg(script)
            .args(["--db-driver=mysql", "--db-ps-mode=disable", "--mysql-db=app"])
            .arg(format!("--mysql-host={host}"))
            .arg(format!("--mysql-port={port}"))
            .arg(format!("--mysql-user={}", login.user))
            .arg(format!("--mysql-password={}", login.password))
            .arg(format!("--threads={WRITERS}"))
            .arg(format!("--time={LONGEST}"))
            .arg(format!("--notes={}", path("notes-")))
            .arg(format!("--stop={}", path("stop")))
            .arg("run")
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.path().join("output"))?)
            .stderr(fs::File::create(folder.path().join("errors"))?)
            .spawn()?;
        Ok(Self { folder, child })
    }

    fn notes(&self) -> Result<Notes> {
        let mut notes = Notes::default();
        for number in 0..WRITERS {
            let path: PathBuf = self.folder.path().join(format!("notes-{number}"));
            let Ok(text) = fs::read_to_string(path) else { continue };
            // the last line may be half of one
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            for line in whole.lines() {
                match line.split_once(' ').context("a word and more")? {
                    ("done", mark) => notes.acknowledged.push(mark.to_owned()),
                    (_, text) => notes.errors.push(text.to_owned()),
                }
            }
        }
        Ok(notes)
    }

    fn until(&mut self, transactions: usize) -> Result<()> {
        wait::until("transactions", || {
            if let Some(status) = self.child.try_wait()? {
                let errors = fs::read_to_string(self.folder.path().join("errors"))?;
                anyhow::bail!("sysbench has ended, {status}: {errors}");
            }
            Ok((self.notes()?.acknowledged.len() >= transactions).then_some(()))
        })
    }

    /// No transaction begins from here on, and those that are under way end.
    fn stop(&mut self) -> Result<Notes> {
        fs::write(self.folder.path().join("stop"), "")?;
        let mut before = 0;
        wait::until("the last transactions to end", || {
            let notes = self.notes()?;
            let now = notes.acknowledged.len() + notes.errors.len();
            let idle = std::mem::replace(&mut before, now) == now;
            Ok(idle.then_some(()))
        })?;
        self.child.kill()?;
        self.child.wait()?;
        self.notes()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[allow(clippy::print_stderr)]
fn killed_under_sysbench(cluster: &Cluster) -> Result<()> {
    let Some(program) = program::sysbench() else {
        skip::report("sysbench is not installed");
        return Ok(());
    };
    if !Scale::is_for_load() {
        return Ok(());
    }
    let bed = Bed::new(cluster.vendor)?;
    bed.on(0, &[TABLE])?;
    let mut load = Load::start(&program, &bed)?;
    load.until(500)?;
    bed.servers.kill()?;
    bed.until_state(0, "shunned")?;
    let before = load.notes()?.acknowledged.len();
    bed.promote(1)?;
    load.until(before + 500)?;
    let Notes { acknowledged, errors } = load.stop()?;
    bed.servers.start_node(1)?;
    let verdict = Verdict::of(&bed, &acknowledged)?;
    // between two statements of a transaction the connection is closed, as a server would
    let (in_flight, other): (Vec<_>, Vec<_>) = errors.into_iter().partition(|text| {
        let lost = text.contains("errno = 2013") && text.contains("in a transaction");
        lost || text.contains("errno = 9007")
    });
    eprintln!(
        "failover of {} under sysbench: {} transactions acknowledged ({before} before the kill), \
         {} errors of what was under way, {} other errors; {verdict}",
        bed.vendor,
        acknowledged.len(),
        in_flight.len(),
        other.len(),
    );
    verdict.is_good()?;
    ensure!(other.is_empty(), "errors of what was not under way: {:?}", other.first());
    ensure!(in_flight.len() <= WRITERS * 2, "{} errors", in_flight.len());
    Ok(())
}
