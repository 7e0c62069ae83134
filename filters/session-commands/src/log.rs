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
        let entry = Arc::new(LogEntry { lsn, code, payload, expected });
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
