//! sysbench's `oltp_read_write` through Towpath: the same data as directly, and no error under load.

use anyhow::{Context, Result, bail};
use e2e::{Client, Cluster, Proxy, Scale, Schema, Setup, program, skip};
use std::{os::unix::fs::symlink, path::PathBuf, process::Command};
use tempfile::TempDir;

const TABLES: usize = 4;
const ROWS: usize = 10_000;

on_both_vendors!(
    the_same_checksums_text,
    the_same_checksums_prepared,
    sixteen_threads_text,
    sixteen_threads_prepared,
    sixteen_threads_tls,
);

/// A schema of sysbench's and how to call it.
pub(crate) struct Bench<'a> {
    program: PathBuf,
    cluster: &'a Cluster,
    schema: Schema,
    /// sysbench looks for its TLS files in the current folder, under fixed names.
    folder: TempDir,
}

impl<'a> Bench<'a> {
    /// `None` after a report when sysbench is not installed or load is not wanted.
    pub(crate) fn new(cluster: &'a Cluster) -> Result<Option<Self>> {
        let Some(program) = program::sysbench() else {
            skip::report("sysbench is not installed");
            return Ok(None);
        };
        if !Scale::is_for_load() {
            return Ok(None);
        }
        let folder = TempDir::with_prefix("towpath-sysbench-")?;
        let files = &cluster.certificates;
        symlink(&files.ca, folder.path().join("cacert.pem"))?;
        symlink(&files.certificate, folder.path().join("client-cert.pem"))?;
        symlink(&files.key, folder.path().join("client-key.pem"))?;
        let schema = cluster.schema()?;
        Ok(Some(Self { program, cluster, schema, folder }))
    }

    /// Fills the tables, directly, and keeps a copy: the seed does not determine what is filled in.
    pub(crate) fn prepare(&self) -> Result<()> {
        self.call(&self.cluster.addresses[0], &["prepare"])?;
        self.copy("sbtest", "kept")
    }

    /// Puts the tables back to what they were at first.
    fn restore(&self) -> Result<()> {
        self.copy("kept", "sbtest")
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        let mut client = Client::connect(
            &self.cluster.addresses[0],
            &self.cluster.admin().schema(&self.schema.name),
        )?;
        for n in 1..=TABLES {
            client.must(&format!("DROP TABLE IF EXISTS {to}{n}"))?;
            client.must(&format!("CREATE TABLE {to}{n} LIKE {from}{n}"))?;
            client.must(&format!("INSERT INTO {to}{n} SELECT * FROM {from}{n}"))?;
        }
        client.quit()
    }

    pub(crate) fn call(&self, address: &str, arguments: &[&str]) -> Result<String> {
        let (host, port) = address.split_once(':').context("address")?;
        let admin = self.cluster.admin();
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.folder.path())
            .args(["oltp_read_write", "--db-driver=mysql", "--rand-seed=20240229"])
            .arg(format!("--mysql-host={host}"))
            .arg(format!("--mysql-port={port}"))
            .arg(format!("--mysql-user={}", admin.user))
            .arg(format!("--mysql-password={}", admin.password))
            .arg(format!("--mysql-db={}", self.schema.name))
            .args([format!("--tables={TABLES}"), format!("--table-size={ROWS}")])
            .args(arguments);
        Ok(program::run(&mut command, "")?.good()?.stdout)
    }

    /// Checksum and row count of each table.
    fn tables(&self) -> Result<Vec<Vec<Option<String>>>> {
        let mut client = self.cluster.direct()?;
        let mut found = Vec::new();
        for table in 1..=TABLES {
            let name = format!("{}.sbtest{table}", self.schema.name);
            found.extend(client.rows(&format!("CHECKSUM TABLE {name}"))?);
            found.extend(client.rows(&format!("SELECT COUNT(*) FROM {name}"))?);
        }
        client.quit()?;
        Ok(found)
    }
}

/// One thread, a fixed number of events, a fixed seed: the data is determined.
fn the_same_checksums(cluster: &Cluster, mode: &str) -> Result<()> {
    let Some(bench) = Bench::new(cluster)? else { return Ok(()) };
    let proxy = Setup::of(cluster).listener_tls("prefer").start()?;
    let mode = format!("--db-ps-mode={mode}");
    bench.prepare()?;
    let run = |address: &str, tls: &str| -> Result<_> {
        bench.restore()?;
        let before = bench.tables()?;
        bench.call(address, &[&mode, tls, "--threads=1", "--events=300", "--time=0", "run"])?;
        let after = bench.tables()?;
        assert_ne!(before, after, "sysbench changed nothing");
        Ok(after)
    };
    let direct = run(&cluster.addresses[0], "--mysql-ssl=off")?;
    for tls in ["--mysql-ssl=off", "--mysql-ssl=on"] {
        assert_eq!(direct, run(&proxy.address, tls)?, "{mode} {tls}");
    }
    Ok(())
}

fn the_same_checksums_text(cluster: &Cluster) -> Result<()> {
    the_same_checksums(cluster, "disable")
}

fn the_same_checksums_prepared(cluster: &Cluster) -> Result<()> {
    the_same_checksums(cluster, "auto")
}

fn sixteen_threads(cluster: &Cluster, mode: &str, tls: &str) -> Result<()> {
    let Some(bench) = Bench::new(cluster)? else { return Ok(()) };
    let proxy = Setup::of(cluster).listener_tls("prefer").start()?;
    bench.prepare()?;
    let seconds = if Scale::of_this_run() == Scale::Full { 30 } else { 10 };
    let arguments =
        [&format!("--db-ps-mode={mode}"), tls, "--threads=16", &format!("--time={seconds}"), "run"];
    let report = bench.call(&proxy.address, &arguments)?;
    let figures = Figures::read(&report)?;
    assert!(figures.transactions > 100, "{report}");
    // deadlocks, which sysbench repeats and counts as ignored, are the server's business
    assert_eq!(figures.reconnects, 0, "{report}");
    for pair in bench.tables()?.chunks(2) {
        let rows = pair.get(1).and_then(|row| row.first()).cloned().flatten();
        assert_eq!(rows, Some(ROWS.to_string()), "rows of {pair:?}");
    }
    the_next_client_is_served(cluster, &proxy)
}

fn the_next_client_is_served(cluster: &Cluster, proxy: &Proxy) -> Result<()> {
    let mut client: Client = proxy.connect(&cluster.admin())?;
    assert_eq!(client.rows("SELECT 1")?, [[Some("1".to_owned())]]);
    client.quit()
}

fn sixteen_threads_text(cluster: &Cluster) -> Result<()> {
    sixteen_threads(cluster, "disable", "--mysql-ssl=off")
}

fn sixteen_threads_prepared(cluster: &Cluster) -> Result<()> {
    sixteen_threads(cluster, "auto", "--mysql-ssl=off")
}

fn sixteen_threads_tls(cluster: &Cluster) -> Result<()> {
    sixteen_threads(cluster, "auto", "--mysql-ssl=on")
}

/// What sysbench counted.
pub(crate) struct Figures {
    pub(crate) transactions: u64,
    pub(crate) reconnects: u64,
}

impl Figures {
    pub(crate) fn read(report: &str) -> Result<Self> {
        let number = |label: &str| {
            let line = report.lines().find_map(|line| line.trim().strip_prefix(label));
            let first = line.and_then(|line| line.split_whitespace().next());
            first.and_then(|first| first.parse().ok()).with_context(|| format!("{label}\n{report}"))
        };
        let found =
            Self { transactions: number("transactions:")?, reconnects: number("reconnects:")? };
        if report.contains("FATAL") {
            bail!("{report}");
        }
        Ok(found)
    }
}
