//! How often statements ran that differ in values only, how they ended, and how long they took.
//!
//! ```text
//! a command that is over ──▶ its digest's hash ──▶ one of 16 parts ──▶ counters
//!                                                  (locked for a moment)
//! ```
//!
//! The table has a limit. What comes when it is full is counted together, under no digest.

use crate::session::watch::Seen;
use serde::Serialize;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use utoipa::ToSchema;

/// The table.
pub(crate) struct Digests {
    parts: [Mutex<HashMap<Key, Counts>>; PARTS],
    /// How many digests one part has at most.
    limit: usize,
    rest: Mutex<Counts>,
}

/// What is told apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    hash: u64,
    hostgroup: Option<u32>,
    user: Arc<str>,
}

#[derive(Debug)]
struct Counts {
    text: Box<str>,
    calls: u64,
    errors: u64,
    abandoned: u64,
    bytes: u64,
    microseconds: u64,
    longest: u64,
    /// Calls by the position of the highest bit of their time in microseconds.
    spread: [u32; STEPS],
}

const PARTS: usize = 16;

/// Up to 2^39 us, which is six days.
const STEPS: usize = 40;

/// How much of a digest's text is kept, in bytes.
const TEXT: usize = 1024;

/// One digest, of one user's commands in one hostgroup.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct DigestReport {
    /// 64 bits in hexadecimal; empty for all those together that found no room in the table.
    pub(crate) digest: String,
    /// The statement without its values, at most 1024 bytes of it.
    text: String,
    user: Arc<str>,
    /// Where it ran; `null` if it reached no server.
    hostgroup: Option<u32>,
    /// Commands that are over.
    pub(crate) calls: u64,
    /// Of them, those that ended with an error.
    pub(crate) errors: u64,
    /// Of them, those whose client or connection went away meanwhile.
    abandoned: u64,
    /// Of all replies.
    bytes: u64,
    /// Of all calls together.
    pub(crate) seconds: f64,
    longest_seconds: f64,
    /// Half of the calls took no longer; at most twice what it was.
    p50_seconds: f64,
    /// 99 of 100 calls took no longer; at most twice what it was.
    p99_seconds: f64,
}

impl Digests {
    /// A table of at most `limit` digests; `None` for 0.
    pub(crate) fn of(limit: u32) -> Option<Arc<Self>> {
        (limit > 0).then(|| {
            Arc::new(Self {
                parts: std::array::from_fn(|_| Mutex::default()),
                limit: (limit as usize).div_ceil(PARTS),
                rest: Mutex::default(),
            })
        })
    }

    /// Counts a command that is over, if it has a statement.
    pub(crate) fn saw(&self, seen: &Seen<'_>) {
        let Some(digest) = seen.digest() else { return };
        let key = Key {
            hash: digest.hash.0,
            hostgroup: seen.target.map(|target| target.hostgroup.0),
            user: seen.session.user.clone(),
        };
        let mut part = lock(&self.parts[(key.hash >> 32) as usize % PARTS]);
        if let Some(counts) = part.get_mut(&key) {
            return counts.add(seen);
        }
        if part.len() >= self.limit {
            drop(part);
            return lock(&self.rest).add(seen);
        }
        let end = digest.text.len().min(TEXT);
        let text = String::from_utf8_lossy(&digest.text[..end]).into();
        let counts = part.entry(key).or_insert_with(|| Counts { text, ..Counts::default() });
        counts.add(seen);
    }

    /// All of them, in no order.
    pub(crate) fn all(&self) -> Vec<DigestReport> {
        let mut all = Vec::new();
        for part in &self.parts {
            let part = lock(part);
            all.extend(part.iter().map(|(key, counts)| {
                let digest = sql::DigestHash(key.hash).to_string();
                counts.report(digest, key.user.clone(), key.hostgroup)
            }));
        }
        let rest = lock(&self.rest);
        if rest.calls > 0 {
            all.push(rest.report(String::new(), "".into(), None));
        }
        all
    }

    /// Forgets all of them; says how many there were.
    pub(crate) fn clear(&self) -> usize {
        *lock(&self.rest) = Counts::default();
        self.parts.iter().map(|part| std::mem::take(&mut *lock(part)).len()).sum()
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            text: Box::default(),
            calls: 0,
            errors: 0,
            abandoned: 0,
            bytes: 0,
            microseconds: 0,
            longest: 0,
            spread: [0; STEPS],
        }
    }
}

impl Counts {
    fn add(&mut self, seen: &Seen<'_>) {
        let took = seen.microseconds();
        self.calls += 1;
        match seen.ended {
            Some(ended) => {
                self.errors += u64::from(ended.error.is_some());
                self.bytes += ended.bytes;
            }
            None => self.abandoned += 1,
        }
        self.microseconds = self.microseconds.saturating_add(took);
        self.longest = self.longest.max(took);
        let step = (u64::BITS - took.leading_zeros()) as usize;
        let step = &mut self.spread[step.min(STEPS - 1)];
        *step = step.saturating_add(1);
    }

    /// The time that this share of the calls did not exceed, in seconds.
    fn quantile(&self, share: f64) -> f64 {
        let calls: u64 = self.spread.iter().map(|count| u64::from(*count)).sum();
        let rank = (calls as f64 * share).ceil();
        let mut below = 0.0;
        let step = self.spread.iter().position(|count| {
            below += f64::from(*count);
            below >= rank
        });
        let bound = 1_u64 << step.unwrap_or(STEPS - 1);
        bound.min(self.longest) as f64 / 1e6
    }

    fn report(&self, digest: String, user: Arc<str>, hostgroup: Option<u32>) -> DigestReport {
        DigestReport {
            digest,
            text: self.text.clone().into(),
            user,
            hostgroup,
            calls: self.calls,
            errors: self.errors,
            abandoned: self.abandoned,
            bytes: self.bytes,
            seconds: self.microseconds as f64 / 1e6,
            longest_seconds: self.longest as f64 / 1e6,
            p50_seconds: self.quantile(0.5),
            p99_seconds: self.quantile(0.99),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is counted in it is whole after each step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Counts, STEPS};

    #[test]
    fn a_quantile_is_the_bound_of_its_step_or_the_longest() {
        let mut counts = Counts { longest: 900, ..Counts::default() };
        counts.spread[4] = 98;
        counts.spread[10] = 2;
        assert_eq!(counts.quantile(0.5), 16e-6);
        assert_eq!(counts.quantile(0.98), 16e-6);
        assert_eq!(counts.quantile(0.99), 900e-6);
        assert_eq!(Counts::default().quantile(0.99), 0.0);
        assert_eq!(STEPS, 40);
    }
}
