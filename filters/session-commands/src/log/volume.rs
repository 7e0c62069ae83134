//! How much there is in the logs of a chain.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// What all logs hold together.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// One log's part of it, which goes with the log.
#[derive(Debug, Default)]
pub(super) struct Volume {
    all: Arc<Volumes>,
    entries: u64,
    bytes: u64,
}

impl Volumes {
    /// By name: entries, and the bytes of their commands.
    pub(crate) fn now(&self) -> Vec<(String, u64)> {
        let all = [("entries", &self.entries), ("bytes", &self.bytes)];
        all.map(|(what, number)| (what.to_owned(), number.load(Relaxed))).into()
    }
}

impl Volume {
    /// Counts with these from now on.
    pub(super) fn count_among(&mut self, all: Arc<Volumes>) {
        let Self { entries, bytes, .. } = *self;
        self.clear();
        self.all = all;
        self.add(entries, bytes);
    }

    /// An entry has come.
    pub(super) fn comes(&mut self, bytes: usize) {
        self.add(1, bytes as u64);
    }

    /// An entry has gone.
    pub(super) fn goes(&mut self, bytes: usize) {
        self.take(1, bytes as u64);
    }

    /// All entries have gone.
    pub(super) fn clear(&mut self) {
        self.take(self.entries, self.bytes);
    }

    fn add(&mut self, entries: u64, bytes: u64) {
        self.entries += entries;
        self.bytes += bytes;
        self.all.entries.fetch_add(entries, Relaxed);
        self.all.bytes.fetch_add(bytes, Relaxed);
    }

    fn take(&mut self, entries: u64, bytes: u64) {
        self.entries -= entries;
        self.bytes -= bytes;
        self.all.entries.fetch_sub(entries, Relaxed);
        self.all.bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Volumes;
    use crate::log::tests::log_of;
    use std::sync::Arc;

    #[test]
    fn what_is_in_logs_is_counted_until_they_go() {
        let all = Arc::new(Volumes::default());
        let now = || all.now().into_iter().map(|(_, number)| number).collect::<Vec<_>>();
        let mut logs = ["SET @a = 1", "SET @a = 22"].map(|text| log_of(&[text]));
        logs.iter_mut().for_each(|log| log.count_among(all.clone()));
        assert_eq!(now(), [2, 21]);
        // what is set again later is not kept
        let [one, other] = &mut logs;
        crate::log::tests::add(one, crate::log::tests::entries("SET @a = 333"));
        assert_eq!(now(), [2, 23]);
        other.clear();
        assert_eq!(now(), [1, 12]);
        let elsewhere = Arc::new(Volumes::default());
        one.count_among(elsewhere.clone());
        assert_eq!(now(), [0, 0]);
        drop(logs);
        assert!(elsewhere.now().iter().all(|(_, number)| *number == 0));
    }
}
