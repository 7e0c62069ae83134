//! Many sessions that think between two transactions, and want few connections to the server.

use crate::{
    client::{Account, Connection},
    load::{LOGINS, in_threads, source},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};
use wire::CommandCode;

/// How a crowd works.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many there are.
    pub sessions: usize,
    /// For how long, in seconds, once all have logged in.
    pub seconds: f64,
    /// What each waits between two transactions, in milliseconds.
    pub think: u64,
}

/// Point queries of a transaction, of 10 statements in all.
const POINTS: usize = 6;

/// A row for each session.
const ROWS: usize = 10_000;

/// A session with its statements prepared.
struct Member {
    connection: Connection,
    row: u64,
    point: u32,
    range: u32,
    update: u32,
}

/// All sessions run transactions as sysbench's `oltp_read_write` does, on `sbtest1` of the schema,
/// with prepared statements, each on a row of its own. Counted are transactions.
pub fn crowd(account: &Account, schema: &str, crowd: Crowd) -> Result<Value> {
    let Crowd { sessions, seconds, think } = crowd;
    let open = |thread: usize| -> Result<Vec<Member>> {
        let numbers = (thread..sessions).step_by(LOGINS);
        numbers.map(|number| Member::new(account, schema, number)).collect()
    };
    let members: Vec<_> = in_threads(LOGINS, open)?.into_iter().flatten().collect();
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let counts = thread::scope(|scope| {
        let work = |mut member: Member| -> Result<usize> {
            let mut count = 0;
            while Instant::now() < end {
                member.transaction()?;
                count += 1;
                #[expect(clippy::disallowed_methods, reason = "thinking is waiting for a time")]
                thread::sleep(Duration::from_millis(think));
            }
            member.connection.quit()?;
            Ok(count)
        };
        let threads: Vec<_> =
            members.into_iter().map(|member| scope.spawn(move || work(member))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<usize>>| {
            thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let count: usize = counts.into_iter().sum();
    Ok(json!({ "count": count, "seconds": start.elapsed().as_secs_f64() }))
}

impl Member {
    fn new(account: &Account, schema: &str, number: usize) -> Result<Self> {
        let mut connection = Connection::open(account, Some(source(number)))
            .with_context(|| format!("session {number}"))?;
        for set in ["SET NAMES utf8mb4", "SET autocommit = 1", "SET time_zone = '+00:00'"] {
            connection.query(set.as_bytes(), None)?;
        }
        let table = format!("{schema}.sbtest1");
        let point = connection.prepare(&format!("SELECT c FROM {table} WHERE id = ?"))?;
        let range = format!("SELECT c FROM {table} WHERE id BETWEEN ? AND ? ORDER BY c");
        let range = connection.prepare(&range)?;
        let update = connection.prepare(&format!("UPDATE {table} SET k = k + 1 WHERE id = ?"))?;
        connection.forget();
        let row = (number % ROWS) as u64 + 1;
        Ok(Self { connection, row, point, range, update })
    }

    fn transaction(&mut self) -> Result<()> {
        let Self { row, point, range, update, .. } = *self;
        self.connection.query(b"BEGIN", None)?;
        for _ in 0..POINTS {
            self.execute(point, &[row])?;
        }
        self.execute(range, &[row, row + 9])?;
        self.execute(update, &[row])?;
        self.connection.query(b"COMMIT", None)?;
        Ok(())
    }

    /// COM_STMT_EXECUTE with integers.
    fn execute(&mut self, id: u32, values: &[u64]) -> Result<()> {
        const BIGINT: [u8; 2] = [8, 0];
        let mut payload = id.to_le_bytes().to_vec();
        // no cursor; once; no NULL; types follow
        payload.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1]);
        values.iter().for_each(|_| payload.extend_from_slice(&BIGINT));
        values.iter().for_each(|value| payload.extend_from_slice(&value.to_le_bytes()));
        self.connection.command(CommandCode::STMT_EXECUTE, &payload).map(drop)
    }
}
