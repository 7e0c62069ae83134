//! Results in memory.

use crate::key::Key;
use bytes::Bytes;
use chain::{Answer, End};
use quick_cache::{Weighter, sync};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// The results of all sessions of a chain.
pub(crate) struct Store(sync::Cache<Key, Arc<Kept>, Bytewise>);

/// One result.
pub(crate) struct Kept {
    answer: Answer,
    since: Instant,
}

/// Weighs a result in bytes.
#[derive(Clone)]
struct Bytewise;

/// What a result takes beyond its bytes: its place in the map, its pointers. Roughly, in bytes.
const OVERHEAD: u64 = 256;

impl Store {
    /// A store of at most `max_bytes`.
    pub(crate) fn new(max_bytes: u64) -> Self {
        // How many results that makes, for the size of the first tables.
        let expected = usize::try_from(max_bytes / 4096).unwrap_or(usize::MAX).clamp(16, 1 << 16);
        Self(sync::Cache::with_weighter(expected, max_bytes, Bytewise))
    }

    /// The result of this key, if it is younger than `ttl`.
    pub(crate) fn get(&self, key: &Key, ttl: Duration) -> Option<Answer> {
        let kept = self.0.get(key)?;
        (kept.since.elapsed() < ttl).then(|| kept.answer.clone())
    }

    /// Keeps a result that was begun at `since`.
    pub(crate) fn put(&self, key: Key, packets: Vec<u8>, end: End, since: Instant) {
        let answer = Answer { packets: Bytes::from(packets), end };
        self.0.insert(key, Arc::new(Kept { answer, since }));
    }
}

impl Weighter<Key, Arc<Kept>> for Bytewise {
    fn weight(&self, key: &Key, kept: &Arc<Kept>) -> u64 {
        let Answer { packets, end } = &kept.answer;
        (key.len() + packets.len() + end.packet.len()) as u64 + OVERHEAD
    }
}
