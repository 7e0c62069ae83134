//! The loads: each is a function that returns what it counted, as JSON.
//!
//! Times are seconds and microseconds of the client's own clock; where several sessions work at
//! once, each has a thread.

use crate::{
    beginnings::statement,
    client::{Account, Connection, File},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr},
    thread,
    time::{Duration, Instant},
};

/// Bytes of a mebibyte.
const MIB: u64 = 1 << 20;
/// Bytes of each statement of [`commands`]: below every server's default `max_allowed_packet`.
const COMMAND: u64 = 8 * MIB;
/// Logins that are under way at once in [`idle`].
pub(crate) const LOGINS: usize = 8;
/// Loopback addresses that [`idle`] connects from: one alone has too few ports for some machines.
const SOURCES: usize = 8;

/// Runs statements one by one.
pub fn sql(account: &Account, statements: &[String]) -> Result<Value> {
    let mut connection = Connection::open(account, None)?;
    for statement in statements {
        connection.query(statement.as_bytes(), None)?;
    }
    connection.quit()?;
    Ok(json!({ "count": statements.len() }))
}

/// Connects, runs one statement, and quits, for `seconds`, in `sessions` threads. Latencies are
/// about all three together.
pub fn connects(account: &Account, sql: &str, sessions: usize, seconds: f64) -> Result<Value> {
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let one = || -> Result<Vec<u64>> {
        let mut latencies = Vec::new();
        loop {
            let begin = Instant::now();
            if begin >= end && !latencies.is_empty() {
                return Ok(latencies);
            }
            let mut connection = Connection::open(account, None)?;
            connection.query(sql.as_bytes(), None)?;
            connection.quit()?;
            latencies.push(u64::try_from(begin.elapsed().as_micros())?);
        }
    };
    let mut latencies = in_threads(sessions, |_| one())?.concat();
    let seconds = start.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let percentile = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    Ok(json!({
        "count": latencies.len(), "seconds": seconds,
        "p50_us": percentile(50), "p99_us": percentile(99),
    }))
}

/// Reads one result to its end, `times` times.
pub fn result(account: &Account, sql: &str, times: usize) -> Result<Value> {
    let mut connection = Connection::open(account, None)?;
    connection.query(b"DO 1", None)?;
    let start = Instant::now();
    let mut received = 0;
    for _ in 0..times {
        received += connection.query(sql.as_bytes(), None)?.received;
    }
    let seconds = start.elapsed().as_secs_f64();
    connection.quit()?;
    Ok(volume(received, seconds))
}

/// Sends a file of 1 KiB lines with LOAD DATA LOCAL INFILE, the statement being `sql`.
pub fn upload(account: &Account, sql: &str, mebibytes: u64) -> Result<Value> {
    let mut connection = Connection::open(account, None)?;
    connection.query(b"DO 1", None)?;
    let file = File { bytes: mebibytes * MIB, line: 1024 };
    let start = Instant::now();
    let size = connection.query(sql.as_bytes(), Some(file))?;
    let seconds = start.elapsed().as_secs_f64();
    connection.quit()?;
    Ok(volume(size.sent, seconds))
}

/// Sends statements of 8 MiB, a literal each.
pub fn commands(account: &Account, mebibytes: u64) -> Result<Value> {
    let mut connection = Connection::open(account, None)?;
    let length = COMMAND.min(mebibytes * MIB);
    let mut sql = b"DO LENGTH('".to_vec();
    sql.resize(usize::try_from(length)? - 2, b'x');
    sql.extend_from_slice(b"')");
    let count = (mebibytes * MIB).div_ceil(length);
    let start = Instant::now();
    for _ in 0..count {
        connection.query(&sql, None)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    connection.quit()?;
    Ok(volume(count * length, seconds))
}

/// Opens `sessions` sessions from several loopback addresses, each of which runs `sql` if there is
/// one and prepares so many statements, the same in each, and hands them to `meanwhile`. They are closed afterwards.
pub fn idle(
    account: &Account,
    sql: Option<&str>,
    prepared: usize,
    sessions: usize,
    meanwhile: impl FnOnce(Value) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    let open = |thread: usize| -> Result<Vec<Connection>> {
        let mut opened = Vec::new();
        for session in (thread..sessions).step_by(LOGINS) {
            let mut connection = Connection::open(account, Some(source(session)))
                .with_context(|| format!("session {session} of {sessions}"))?;
            if let Some(sql) = sql {
                connection.query(sql.as_bytes(), None)?;
            }
            for number in 0..prepared {
                connection.prepare(&statement(number))?;
            }
            connection.forget();
            opened.push(connection);
        }
        Ok(opened)
    };
    let opened = in_threads(LOGINS, open)?.into_iter().flatten().collect::<Vec<_>>();
    meanwhile(json!({ "count": opened.len(), "seconds": start.elapsed().as_secs_f64() }))?;
    opened.into_iter().try_for_each(Connection::quit)
}

/// 127.0.0.2 and the following.
pub(crate) fn source(session: usize) -> IpAddr {
    let last = u8::try_from(session % SOURCES).expect("SOURCES is small");
    Ipv4Addr::new(127, 0, 0, 2 + last).into()
}

fn volume(bytes: u64, seconds: f64) -> Value {
    json!({ "count": bytes as f64 / MIB as f64, "seconds": seconds })
}

/// Runs `work` in as many threads, each with its number; the first error of any is the result.
pub(crate) fn in_threads<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
            .collect()
    })
}
