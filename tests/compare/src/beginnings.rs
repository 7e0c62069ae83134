//! How sessions begin: a login, what the application sets, its first statement.
//!
//! What is compared is measured in turn, so that what slows the machine slows all of it.

use crate::client::{Account, Connection};
use anyhow::Result;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use wire::CommandCode;

/// What applications set first.
const SETS: [&str; 5] = [
    "SET NAMES utf8mb4",
    "SET autocommit=1",
    "SET time_zone='+00:00'",
    "SET SESSION wait_timeout=28800",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
];
/// Beginnings after which everybody knows what there is to know, and connections are open.
const WARM: usize = 20;
/// What an application prepares.
const PREPARED: &str = "SELECT 1, ?, 'known'";

/// Beginnings with `sql` as the first statement, for `seconds`: how many round trips to `far`, where
/// the server is, they take beyond the statement's own. The login and five SETs are part of it.
pub fn begins(account: &Account, far: SocketAddr, sql: &str, seconds: f64) -> Result<Value> {
    let begin = || -> Result<Duration> {
        let start = Instant::now();
        let mut session = Connection::open(account, None)?;
        for set in SETS {
            session.query(set.as_bytes(), None)?;
        }
        session.query(sql.as_bytes(), None)?;
        let took = start.elapsed();
        session.quit()?;
        Ok(took)
    };
    for _ in 0..WARM {
        begin()?;
    }
    let direct = Account { address: far, ..account.clone() };
    let (mut there, mut open) =
        (Connection::open(&direct, None)?, Connection::open(account, None)?);
    let mut alone = || -> Result<Duration> {
        let start = Instant::now();
        open.query(sql.as_bytes(), None)?;
        Ok(start.elapsed())
    };
    let mut trip = || -> Result<Duration> {
        let start = Instant::now();
        there.command(CommandCode::PING, b"")?;
        Ok(start.elapsed())
    };
    alone()?;
    let start = Instant::now();
    let [mut begun, mut alones, mut trips] = [const { Vec::new() }; 3];
    while begun.is_empty() || start.elapsed().as_secs_f64() < seconds {
        trips.push(trip()?);
        alones.push(alone()?);
        begun.push(begin()?);
    }
    let (count, seconds) = (begun.len(), start.elapsed().as_secs_f64());
    let micros = |times: &mut Vec<Duration>| percentile(times, 50).as_secs_f64() * 1e6;
    let p99 = percentile(&mut begun, 99).as_micros();
    let [begun, alone, trip] = [&mut begun, &mut alones, &mut trips].map(micros);
    Ok(json!({
        "count": count, "seconds": seconds, "p50_us": begun, "p99_us": p99 as u64,
        "alone_us": alone, "round_trip_us": trip, "round_trips": (begun - alone) / trip,
    }))
}

/// How long a PREPARE takes whose reply is known: one session that prepares the same text, and
/// closes it, for `seconds`.
pub fn prepares(account: &Account, seconds: f64) -> Result<Value> {
    for _ in 0..WARM {
        let mut session = Connection::open(account, None)?;
        session.prepare(PREPARED)?;
        session.quit()?;
    }
    let mut session = Connection::open(account, None)?;
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || start.elapsed().as_secs_f64() < seconds {
        let begin = Instant::now();
        let id = session.prepare(PREPARED)?;
        times.push(begin.elapsed());
        session.close_statement(id)?;
    }
    let (count, seconds) = (times.len(), start.elapsed().as_secs_f64());
    let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    Ok(json!({ "count": count, "seconds": seconds, "p50_us": micros(p50), "p99_us": micros(p99) }))
}

/// The text of one of the statements that each session of an application prepares.
pub fn statement(number: usize) -> String {
    format!(
        "SELECT a.id, a.name, a.created_at FROM (SELECT {number} AS id, 'name' AS name, NOW() AS created_at) AS a WHERE a.id = ?"
    )
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}
