//! Commands whose replies took long: a line of the log for each, with no values in it.

use crate::backend::dispatch::Ran;
use bytes::Bytes;
use chain::{
    Command, Reply, Session,
    facts::{ServedBy, Statement, Target},
};
use sql::Dialect;
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use wire::command::CommandCode;

/// What is slow, and how much of it is told.
pub(crate) struct SlowLog {
    threshold: Duration,
    /// Locked by slow commands alone, for a moment.
    window: Mutex<Window>,
}

/// The lines of one second.
#[derive(Debug)]
struct Window {
    began: Instant,
    written: u32,
    /// Since the line before.
    left_out: u64,
}

/// Lines that are written in one second, of all sessions together.
const MOST: u32 = 10;

/// A command under way. Tells when it is dropped, if that is late.
pub(super) struct Watch<'a> {
    log: &'a SlowLog,
    session: Session,
    code: CommandCode,
    /// The text of a query; for others, what `parse` says it is.
    text: Option<Bytes>,
    statement: Option<Statement>,
    target: Option<Target>,
    started: Instant,
    ended: Option<Ended>,
}

/// How it has ended.
struct Ended {
    error: Option<u16>,
    /// Bytes of the reply, as they went to the client before TLS and compression.
    bytes: u64,
}

impl SlowLog {
    /// None for a threshold of 0.
    pub(crate) fn of(threshold: Duration) -> Option<Self> {
        let window = Window { began: Instant::now(), written: 0, left_out: 0 };
        (!threshold.is_zero()).then(|| Self { threshold, window: Mutex::new(window) })
    }

    pub(super) fn watch(&self, command: &Command, started: Instant) -> Watch<'_> {
        Watch {
            log: self,
            session: command.session().clone(),
            code: command.code(),
            text: command.sql(),
            statement: None,
            target: None,
            started,
            ended: None,
        }
    }
}

impl Window {
    /// Whether there is room for a line at `now`, and how many were left out before it.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.began) >= Duration::from_secs(1) {
            (self.began, self.written) = (now, 0);
        }
        if self.written >= MOST {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Watch<'_> {
    /// Notes what a reply says of its way.
    pub(super) fn served(&mut self, reply: &Reply) {
        self.target = reply.fact().map(|ServedBy(target)| target.clone());
        self.statement = reply.fact().and_then(|Ran(statement)| statement.clone());
    }

    /// Notes how the reply has ended.
    pub(super) fn ended(&mut self, error: Option<u16>, bytes: u64) {
        self.ended = Some(Ended { error, bytes });
    }

    fn tell(&self, took: Duration, left_out: u64) {
        let text = self.text.as_ref();
        let lexed = || text.map(|text| Statement::new(text.clone(), Dialect::default()));
        let statement = self.statement.clone().or_else(lexed);
        let digest = statement.as_ref().map(Statement::digest);
        let words = digest.map(|digest| String::from_utf8_lossy(digest.text.as_ref()));
        let schema = self.session.current_schema.as_ref();
        let schema = schema.map(|schema| String::from_utf8_lossy(schema));
        let ended = self.ended.as_ref();
        tracing::info!(
            target: "slow",
            session = self.session.id,
            user = &*self.session.user,
            schema = schema.as_deref(),
            client = %self.session.peer,
            command = self.code.name(),
            digest = digest.map(|digest| digest.hash.to_string()),
            digest_text = words.as_deref(),
            hostgroup = self.target.as_ref().map(|target| target.hostgroup.0),
            server = self.target.as_ref().map(|target| &*target.server.name),
            microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            bytes = ended.map(|ended| ended.bytes),
            error = ended.and_then(|ended| ended.error),
            left_out = (left_out > 0).then_some(left_out),
            "{}", if ended.is_some() { "done" } else { "abandoned" }
        );
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        if took < self.log.threshold {
            return;
        }
        let window = || self.log.window.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = window().admit(Instant::now());
        if let Some(left_out) = left_out {
            self.tell(took, left_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_second_and_the_rest_is_counted() {
        let now = Instant::now();
        let mut window = Window { began: now, written: 0, left_out: 0 };
        assert!((0..MOST).all(|_| window.admit(now) == Some(0)));
        assert!((0..3).all(|_| window.admit(now + Duration::from_millis(999)).is_none()));
        assert_eq!(window.admit(now + Duration::from_secs(1)), Some(3));
        assert_eq!(window.admit(now + Duration::from_secs(1)), Some(0));
    }

    #[test]
    fn without_a_threshold_nothing_is_watched() {
        assert!(SlowLog::of(Duration::ZERO).is_none());
        assert!(SlowLog::of(Duration::from_millis(1)).is_some());
    }
}
