//! The log of one session: what every connection must have executed, and no more than that.

use crate::cell::{self, Cell};
use bytes::Bytes;
use chain::facts::{Expected, LogEntry, Lsn};
use std::{collections::BTreeSet, sync::Arc};
use wire::command::CommandCode;

/// A session command that has succeeded, on its way into the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) code: CommandCode,
    pub(crate) payload: Bytes,
    pub(crate) expected: Expected,
    pub(crate) reads: Vec<Cell>,
    pub(crate) writes: Vec<Cell>,
}

/// The entries of a session, in their order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Arc<Vec<Arc<LogEntry>>>,
    /// What each of them reads and writes.
    cells: Vec<(Vec<Cell>, Vec<Cell>)>,
    last: Lsn,
    /// Bytes of statements that COM_STMT_PREPARE has prepared, and of all else.
    pub(crate) prepared_bytes: usize,
    pub(crate) bytes: usize,
    /// Entries that are not such statements.
    pub(crate) plain: usize,
}

impl Log {
    /// The entries as they are; later changes do not show in it.
    pub(crate) fn snapshot(&self) -> Arc<Vec<Arc<LogEntry>>> {
        self.entries.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A place for an entry that may come.
    pub(crate) fn reserve(&mut self) -> Lsn {
        self.last += 1;
        self.last
    }

    /// Adds an entry in its place, which is behind all others, and drops those that nobody can
    /// tell were ever there.
    pub(crate) fn append(&mut self, lsn: Lsn, entry: Entry) {
        let Entry { code, payload, expected, reads, writes } = entry;
        let entry = Arc::new(LogEntry::new(lsn, code, payload, expected));
        self.count(&entry, true);
        Arc::make_mut(&mut self.entries).push(entry);
        let overwrites = !writes.is_empty();
        self.cells.push((reads, writes));
        if overwrites {
            self.compact();
        }
    }

    /// Drops the entry that prepared a statement.
    pub(crate) fn close(&mut self, id: u32) {
        let is_it = |entry: &LogEntry| matches!(entry.expected, Expected::Statement { id: known, .. } if known == id);
        if let Some(at) = self.entries.iter().position(|entry| is_it(entry)) {
            self.remove(at);
        }
    }

    /// Drops the entries that set this cell and nothing else.
    pub(crate) fn forget(&mut self, cell: &str) {
        for at in (0..self.cells.len()).rev() {
            if matches!(&self.cells[at].1[..], [only] if &**only == cell) {
                self.remove(at);
            }
        }
    }

    /// Drops the oldest entry that is no prepared statement. False if there is none.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let plain = |entry: &Arc<LogEntry>| !matches!(entry.expected, Expected::Statement { .. });
        let oldest = self.entries.iter().position(plain);
        oldest.map(|at| self.remove(at)).is_some()
    }

    /// Whether an entry sets this cell.
    pub(crate) fn sets(&self, cell: &str) -> bool {
        self.cells.iter().any(|(_, writes)| writes.iter().any(|known| &**known == cell))
    }

    /// Drops all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }

    /// An entry goes if everything that it sets is set again later and nothing between reads it:
    /// what compilers do to dead stores, from the last entry to the first.
    fn compact(&mut self) {
        let mut dead: BTreeSet<Cell> = BTreeSet::new();
        for at in (0..self.cells.len()).rev() {
            let (reads, writes) = &self.cells[at];
            let unseen = !writes.is_empty() && writes.iter().all(|cell| dead.contains(cell));
            if unseen {
                self.remove(at);
                continue;
            }
            dead.extend(writes.iter().filter(|cell| &***cell != cell::ANYTHING).cloned());
            if reads.iter().any(|cell| &**cell == cell::ANYTHING) {
                dead.clear();
            }
            reads.iter().for_each(|cell| {
                dead.remove(cell);
            });
        }
    }

    fn remove(&mut self, at: usize) {
        self.cells.remove(at);
        let entry = Arc::make_mut(&mut self.entries).remove(at);
        self.count(&entry, false);
    }

    fn count(&mut self, entry: &LogEntry, comes: bool) {
        let change = |number: &mut usize, by: usize| {
            *number = if comes { *number + by } else { number.saturating_sub(by) };
        };
        if matches!(entry.expected, Expected::Statement { .. }) {
            change(&mut self.prepared_bytes, entry.payload.len());
        } else {
            change(&mut self.bytes, entry.payload.len());
            change(&mut self.plain, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Log};
    use chain::facts::{Expected, LogEntry, Lsn};
    use proptest::{collection::vec, prelude::*};
    use std::collections::BTreeMap;
    use wire::command::CommandCode;

    /// A command of the model: what it writes becomes a function of what it reads and of itself.
    fn entry(number: usize, reads: &[u8], writes: &[u8]) -> Entry {
        let cell = |n: &u8| format!("@{n}").into();
        Entry {
            code: CommandCode::QUERY,
            payload: format!("{number}|{reads:?}|{writes:?}").into(),
            expected: Expected::Success,
            reads: reads.iter().map(cell).collect(),
            writes: writes.iter().map(cell).collect(),
        }
    }

    /// A connection of the model: what its cells hold is the whole story of their values.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Connection {
        applied: Lsn,
        cells: BTreeMap<u8, u64>,
    }

    impl Connection {
        fn execute(&mut self, lsn: Lsn, reads: &[u8], writes: &[u8]) {
            let read = reads.iter().map(|cell| self.cells.get(cell).copied().unwrap_or_default());
            let value = read.fold(lsn, |value, read| value.wrapping_mul(31).wrapping_add(read));
            self.cells.extend(writes.iter().map(|cell| (*cell, value)));
            self.applied = lsn;
        }

        fn catch_up(
            &mut self,
            script: &[(Vec<u8>, Vec<u8>)],
            entries: &[std::sync::Arc<LogEntry>],
        ) {
            for entry in
                entries.iter().filter(|entry| entry.lsn > self.applied).cloned().collect::<Vec<_>>()
            {
                let (reads, writes) = &script[entry.lsn as usize - 1];
                self.execute(entry.lsn, reads, writes);
            }
        }
    }

    proptest! {
        /// Whatever goes from the log, whenever a connection catches up: its state is the one of
        /// the connection that has executed everything.
        #[test]
        fn what_goes_cannot_be_told(
            script in vec((vec(0..5_u8, 0..3), vec(0..5_u8, 1..3)), 1..40),
            lags in vec(0..40_usize, 3),
        ) {
            let (mut log, mut first) = (Log::default(), Connection::default());
            let mut others = vec![Connection::default(); lags.len()];
            for (number, (reads, writes)) in script.iter().enumerate() {
                let lsn = log.reserve();
                log.append(lsn, entry(number, reads, writes));
                first.execute(lsn, reads, writes);
                for (other, lag) in others.iter_mut().zip(&lags) {
                    if number % (lag + 1) == 0 {
                        other.catch_up(&script, &log.snapshot());
                    }
                }
            }
            others.push(Connection::default());
            for other in &mut others {
                other.catch_up(&script, &log.snapshot());
                prop_assert_eq!(&other.cells, &first.cells);
            }
            prop_assert!(log.snapshot().len() <= script.len());
        }
    }

    #[test]
    fn what_is_set_again_is_kept_once() {
        let mut log = Log::default();
        for number in 0..10_000 {
            let lsn = log.reserve();
            log.append(lsn, entry(number, &[], &[1]));
        }
        assert_eq!((log.snapshot().len(), log.plain), (1, 1));
        // H7: the first is read by the second.
        for (number, (reads, writes)) in
            [(vec![], vec![1]), (vec![1], vec![2]), (vec![], vec![1])].iter().enumerate()
        {
            let lsn = log.reserve();
            log.append(lsn, entry(number, reads, writes));
        }
        assert_eq!(log.snapshot().len(), 3);
    }

    #[test]
    fn a_statement_goes_when_it_is_closed() {
        let mut log = Log::default();
        for id in [1, 2] {
            let lsn = log.reserve();
            let expected = Expected::Statement { id, parameters: 0 };
            log.append(lsn, Entry { expected, writes: Vec::new(), ..entry(0, &[1], &[]) });
        }
        log.close(1);
        log.close(7);
        assert_eq!(log.snapshot().len(), 1);
        assert!(log.prepared_bytes > 0 && log.bytes == 0);
        log.close(2);
        assert!(log.is_empty() && log.prepared_bytes == 0);
    }
}
