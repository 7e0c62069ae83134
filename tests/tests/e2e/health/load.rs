//! sysbench goes on when its primary is killed and a replica is promoted.

use super::Bed;
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Scale, program, skip, wait};
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

on_both_vendors!(sysbench_over_a_failover);

const THREADS: usize = 32;

/// A running sysbench, and what it has said each second.
struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    reader: JoinHandle<()>,
}

fn command(bed: &Bed, address: &str) -> Result<Option<Command>> {
    let Some(program) = program::sysbench() else {
        skip::report("sysbench is not installed");
        return Ok(None);
    };
    let (host, port) = address.split_once(':').context("address")?;
    let login = bed.login();
    let mut command = Command::new(program);
    command
        .args(["oltp_read_write", "--db-driver=mysql", "--mysql-db=app", "--mysql-ssl=off"])
        .arg(format!("--mysql-host={host}"))
        .arg(format!("--mysql-port={port}"))
        .arg(format!("--mysql-user={}", login.user))
        .arg(format!("--mysql-password={}", login.password))
        .args(["--tables=2", "--table-size=2000"]);
    Ok(Some(command))
}

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        command
            .args(["--mysql-ignore-errors=all", "--report-interval=1", "--time=0"])
            .arg(format!("--threads={THREADS}"))
            .arg("run")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let out = BufReader::new(child.stdout.take().context("it is piped")?);
        let lines = Arc::<Mutex<Vec<_>>>::default();
        let kept = lines.clone();
        let reader = thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                kept.lock().expect("no reader panics").push((Instant::now(), line));
            }
        });
        Ok(Self { child, lines, reader })
    }

    /// Transactions a second, as each report since then says.
    fn rates(&self, since: Instant) -> Vec<(Duration, f64)> {
        let lines = self.lines.lock().expect("no reader panics");
        let rate = |line: &str| line.split_once("tps: ")?.1.split(' ').next()?.parse().ok();
        let told = lines.iter().filter(|(at, _)| *at > since);
        told.filter_map(|(at, line)| Some((*at - since, rate(line)?))).collect()
    }

    fn until_it_works(&self, since: Instant) -> Result<Duration> {
        wait::until("transactions", || {
            Ok(self.rates(since).into_iter().find(|(_, rate)| *rate > 0.0).map(|(after, _)| after))
        })
    }

    fn end(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))
    }
}

#[allow(clippy::print_stderr)]
fn sysbench_over_a_failover(cluster: &Cluster) -> Result<()> {
    if Scale::of_this_run() != Scale::Full {
        return Ok(());
    }
    let bed = Bed::new(cluster.vendor)?;
    let Some(mut prepare) = command(&bed, &bed.cluster().addresses[0])? else { return Ok(()) };
    program::run(prepare.arg("prepare"), "")?.good()?;
    let load = Running::start(command(&bed, &bed.proxy.address)?.context("it was there")?)?;
    load.until_it_works(Instant::now())?;
    bed.servers.kill()?;
    bed.until_state(0, "shunned")?;
    let promoting = Instant::now();
    bed.promote(1)?;
    // a report covers the second before it
    let resumed = load.until_it_works(Instant::now() + Duration::from_secs(1))?;
    let rates: Vec<_> = load.rates(promoting).into_iter().map(|(_, rate)| rate).collect();
    eprintln!("{}: transactions again in the report {resumed:?} after; {rates:?}", bed.vendor);
    load.end()?;
    let mut client = bed.connect()?;
    let rows = client.rows("SELECT @@server_id")?;
    ensure!(rows == [[Some("2".to_owned())]], "{rows:?}");
    client.quit()
}
