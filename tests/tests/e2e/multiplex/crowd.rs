//! Many sessions and few connections.

use super::{login, metric, same, start_with, value};
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, client::Statement};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

on_both_vendors!(
    few_connections_are_enough_for_many_sessions,
    throughput_beside_direct_connections,
);

/// Connections to the server.
const CONNECTIONS: u32 = 20;

/// What one session does, by a generator of its own that is the same in each run.
struct Walker {
    client: Client,
    number: u64,
    seed: u64,
    statement: Statement,
    charset: &'static str,
    variable: u64,
    mode: &'static str,
}

fn sessions() -> u64 {
    match std::env::var("TOWPATH_TEST_SCALE").as_deref() {
        Ok("full") => 1000,
        _ => 100,
    }
}

/// A client with the statements of a transaction as sysbench's `oltp_read_write` has them.
struct Worker {
    client: Client,
    point: Statement,
    range: Statement,
    update: Statement,
    delete: Statement,
    insert: Statement,
}

impl Worker {
    fn new(address: &str, login: &Login) -> Result<Self> {
        let mut client = Client::connect(address, login)?;
        let mut prepare = |text: &str| client.prepare(text);
        Ok(Self {
            point: prepare("SELECT b FROM t WHERE a = ?")?,
            range: prepare("SELECT b FROM t WHERE a BETWEEN ? AND ? ORDER BY b")?,
            update: prepare("UPDATE t SET b = b + 1 WHERE a = ?")?,
            delete: prepare("DELETE FROM t WHERE a = ?")?,
            insert: prepare("INSERT INTO t (a, b) VALUES (?, 0)")?,
            client,
        })
    }

    /// On rows that no other thread touches.
    fn transaction(&mut self, thread: u64, turn: u64) -> Result<()> {
        let row = (1000 * thread + turn % 50).to_string();
        let row = Some(row.as_bytes());
        let Self { client, .. } = self;
        client.must("BEGIN")?;
        for statement in [&self.point; 6] {
            ensure!(client.execute(statement, 0, &[row])?.error().is_none());
        }
        ensure!(client.execute(&self.range, 0, &[row, row])?.error().is_none());
        for statement in [&self.update, &self.delete, &self.insert] {
            let reply = client.execute(statement, 0, &[row])?;
            ensure!(reply.error().is_none(), "{:?}", reply.error());
        }
        client.must("COMMIT")
    }
}

impl Walker {
    fn new(proxy: &Proxy, cluster: &Cluster, schema: &str, number: u64) -> Result<Self> {
        let mut client = proxy.connect(&login(cluster, schema))?;
        client.must("SET NAMES utf8mb4")?;
        let text = format!("SELECT a, {number} FROM t WHERE a = ?");
        // Half of them have a statement in common.
        let text = if number.is_multiple_of(2) { "SELECT a, 7 FROM t WHERE a = ?" } else { &text };
        let statement = client.prepare(text)?;
        let seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        client.must("SET @mine = 0")?;
        client.must("SET sql_mode = ''")?;
        let (charset, variable, mode) = ("utf8mb4", 0, "");
        Ok(Self { client, number, seed, statement, charset, variable, mode })
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    fn step(&mut self) -> Result<()> {
        let what = self.random(14);
        let number = self.number;
        let client = &mut self.client;
        match what {
            0 => {
                self.variable += 1;
                client.must(&format!("SET @mine = {}", self.variable))
            }
            1 => same(client, "SELECT @mine", &self.variable.to_string()),
            2 => {
                self.charset = if self.charset == "latin1" { "utf8mb4" } else { "latin1" };
                client.must(&format!("SET NAMES {}", self.charset))
            }
            3 => same(client, "SELECT @@character_set_client", self.charset),
            4 => {
                self.mode = if self.mode.is_empty() { "ANSI_QUOTES" } else { "" };
                client.must(&format!("SET sql_mode = '{}'", self.mode))
            }
            5 => same(client, "SELECT @@sql_mode", self.mode),
            6 => {
                client.must("BEGIN")?;
                client.must(&format!("UPDATE t SET b = b + 1 WHERE a = {}", number % 50))?;
                client.must(if number.is_multiple_of(3) { "ROLLBACK" } else { "COMMIT" })
            }
            7 => {
                client.must(&format!("CREATE TEMPORARY TABLE scratch AS SELECT {number} AS n"))?;
                same(client, "SELECT n FROM scratch", &number.to_string())?;
                client.must("DROP TEMPORARY TABLE scratch")
            }
            8 => {
                client.must(&format!("INSERT INTO log (session) VALUES ({number})"))?;
                let id = value(client, "SELECT LAST_INSERT_ID()")?.context("an id")?;
                same(
                    client,
                    &format!("SELECT session FROM log WHERE id = {id}"),
                    &number.to_string(),
                )
            }
            9 => {
                let id = client.greeting.thread_id.to_string();
                same(client, "SELECT CONNECTION_ID()", &id)
            }
            10 => {
                let missing = client.query("SELECT * FROM scratch")?.error_code();
                ensure!(missing == Some(1146), "another's temporary table: {missing:?}");
                client.must("SELECT COUNT(*) FROM t")
            }
            _ => {
                let reply = client.execute(&self.statement, 0, &[Some(b"5")])?;
                ensure!(reply.error().is_none(), "{:?}", reply.error());
                Ok(())
            }
        }
    }
}

fn few_connections_are_enough_for_many_sessions(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut direct = cluster.direct()?;
    direct.must(&format!("USE {}", schema.name))?;
    direct.must("CREATE TABLE t (a INT PRIMARY KEY, b INT)")?;
    direct.must("CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, session INT)")?;
    for a in 0..50 {
        direct.must(&format!("INSERT INTO t VALUES ({a}, 0)"))?;
    }
    let proxy = start_with(cluster, CONNECTIONS, "[backend]\nconnect_budget = \"30s\"")?;
    let count = sessions();
    let (most, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| -> Result<()> {
        let watcher = scope.spawn(|| -> Result<()> {
            while !done.load(Relaxed) {
                let sql = format!(
                    "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '{}'",
                    schema.name
                );
                most.fetch_max(cluster.ask(&sql)?.parse()?, Relaxed);
            }
            Ok(())
        });
        // Each thread has several sessions, which think while the others have their turn.
        let threads: Vec<_> = (0..20)
            .map(|thread| {
                let (proxy, schema) = (&proxy, &schema.name);
                scope.spawn(move || -> Result<()> {
                    let mut walkers = (thread..count)
                        .step_by(20)
                        .map(|number| Walker::new(proxy, cluster, schema, number))
                        .collect::<Result<Vec<_>>>()?;
                    for turn in 0..30 {
                        for walker in &mut walkers {
                            let number = walker.number;
                            walker
                                .step()
                                .with_context(|| format!("session {number}, step {turn}"))?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let mut results: Vec<Result<()>> = Vec::new();
        for thread in threads {
            results.push(thread.join().expect("a session's thread does not panic"));
        }
        done.store(true, Relaxed);
        watcher.join().expect("the watcher does not panic")?;
        results.into_iter().collect()
    })?;
    // The connection that watches has no schema.
    let most = most.into_inner();
    ensure!(most <= u64::from(CONNECTIONS) + 1, "{most} connections");
    ensure!(metric(&proxy, "towpath_backend_shared_total{fit=\"equal\"}")? > 0);
    Ok(())
}

/// What so many sessions get done over 20 connections, and 20 clients without a proxy: said, and not
/// judged, because all of it shares one machine with other tests.
fn throughput_beside_direct_connections(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let login = login(cluster, &schema.name);
    let mut direct = Client::connect(&cluster.addresses[0], &login)?;
    direct.must("CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)")?;
    for thread in 1..=u64::from(CONNECTIONS) {
        let rows: Vec<_> = (0..50).map(|row| format!("({}, 0)", 1000 * thread + row)).collect();
        direct.must(&format!("INSERT INTO t VALUES {}", rows.join(", ")))?;
    }
    let proxy = start_with(cluster, CONNECTIONS, "[backend]\nconnect_budget = \"30s\"")?;
    let alone = work(&cluster.addresses[0], &login, u64::from(CONNECTIONS))?;
    let shared = work(&proxy.address, &login, sessions())?;
    let share = alone.as_secs_f64() / shared.as_secs_f64();
    eprintln!(
        "{}: {} sessions over {CONNECTIONS} connections: {share:.2} of {CONNECTIONS} direct ones \
         ({alone:?}, {shared:?})",
        cluster.vendor,
        sessions()
    );
    Ok(())
}

/// How long 20 threads take for their transactions, each by its share of so many sessions in turn.
fn work(address: &str, login: &Login, sessions: u64) -> Result<Duration> {
    const TURNS: u64 = 50;
    let threads = u64::from(CONNECTIONS);
    let ready = std::sync::Barrier::new(CONNECTIONS as usize + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=threads)
            .map(|thread| {
                let ready = &ready;
                scope.spawn(move || -> Result<()> {
                    let workers: Result<Vec<_>> =
                        (0..sessions / threads).map(|_| Worker::new(address, login)).collect();
                    ready.wait();
                    let mut workers = workers?;
                    for turn in 0..TURNS {
                        let at = turn as usize % workers.len();
                        workers[at].transaction(thread, turn)?;
                    }
                    Ok(())
                })
            })
            .collect();
        ready.wait();
        let began = Instant::now();
        for thread in threads {
            thread.join().expect("a worker's thread does not panic")?;
        }
        Ok(began.elapsed())
    })
}
