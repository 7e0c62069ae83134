//! The log of one session: what every connection must have executed, and no more than that.

mod compact;
mod entry;
mod lasting;
#[cfg(test)]
mod tests;
mod volume;

use entry::About;
pub(crate) use {
    entry::{Entry, Nullable},
    volume::Volumes,
};

use crate::state::Gather;
use bytes::Bytes;
use chain::facts::{Expected, LogEntry, Lsn, StateId};
use sql::session::{Cell, Class};
use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};
use wire::command::CommandCode;

/// What the client has allowed in one text: COM_SET_OPTION. No system variable is written so.
pub(crate) const MULTI_STATEMENTS: Cell = Cell::System(Cow::Borrowed("(option)"));

/// The entries of a session, in their order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Arc<Vec<Arc<LogEntry>>>,
    /// The same entries, as nobody else needs them.
    about: Vec<About>,
    last: Lsn,
    /// The schema that connections are in before the first entry.
    base: Option<Bytes>,
    /// Cells that something has written of which no entry says what.
    lost: BTreeSet<Cell>,
    /// What [`Self::state`] and [`Self::shape`] have found, until the next change. A statement of
    /// COM_STMT_PREPARE changes neither.
    state: Option<Option<StateId>>,
    shape: OnceLock<Option<StateId>>,
    /// Bytes of statements that COM_STMT_PREPARE has prepared, and of all else.
    pub(crate) prepared_bytes: usize,
    pub(crate) bytes: usize,
    /// Entries that are not such statements.
    pub(crate) plain: usize,
    volume: volume::Volume,
}

impl Log {
    /// Counts it among these from now on.
    pub(crate) fn count_among(&mut self, volumes: Arc<Volumes>) {
        self.volume.count_among(volumes);
    }

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

    /// Says where connections are before the first entry.
    pub(crate) fn begin_in(&mut self, schema: Option<&Bytes>) {
        if self.base.as_ref() != schema {
            self.base = schema.cloned();
            self.changed();
        }
    }

    /// Adds an entry in its place, which is behind all others, and drops those that nobody can
    /// tell were ever there.
    pub(crate) fn append(&mut self, lsn: Lsn, entry: Entry) {
        let about = About::of(&entry);
        if about.is(Class::OneShot) {
            // What it sets again needs no setting before.
            let same = |known: &About| known.is(Class::OneShot) && known.digest() == about.digest();
            if let Some(at) = self.about.iter().position(same) {
                self.remove(at);
            }
        }
        let context = self.context(&entry);
        let Entry { code, payload, expected, witness, .. } = entry;
        let entry = LogEntry { context, witness, ..LogEntry::new(lsn, code, payload, expected) };
        let entry = Arc::new(entry);
        self.count(&entry, true);
        Arc::make_mut(&mut self.entries).push(entry);
        self.follow(&about);
        let overwrites = !about.writes().is_empty();
        let prepares = about.prepares();
        self.about.push(about);
        if overwrites {
            self.compact();
        }
        if !prepares {
            self.changed();
        }
    }

    /// The place of the last entry, there or to come.
    pub(crate) fn last(&self) -> Lsn {
        self.last
    }

    /// Drops the entry that prepared a statement. The place that it had.
    pub(crate) fn close(&mut self, id: u32) -> Option<Lsn> {
        let is_it = |entry: &LogEntry| matches!(entry.expected, Expected::Statement { id: known, .. } if known == id);
        let at = self.entries.iter().rposition(|entry| is_it(entry))?;
        let lsn = self.entries[at].lsn;
        self.remove(at);
        Some(lsn)
    }

    /// Drops the entries that set one of these cells and nothing else.
    pub(crate) fn forget(&mut self, cells: &[Cell]) {
        for at in (0..self.about.len()).rev() {
            let writes = self.about[at].writes();
            if !writes.is_empty() && writes.iter().all(|cell| cells.contains(cell)) {
                self.remove(at);
            }
        }
    }

    /// Drops the oldest entry that is no prepared statement. False if there is none.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let plain = |entry: &Arc<LogEntry>| !matches!(entry.expected, Expected::Statement { .. });
        let oldest = self.entries.iter().position(plain);
        if oldest.is_some() {
            self.lose(&[Cell::Anything]);
        }
        oldest.map(|at| self.remove(at)).is_some()
    }

    /// Whether an entry sets this cell.
    pub(crate) fn sets(&self, cell: &Cell) -> bool {
        self.about.iter().any(|about| about.writes().contains(cell))
    }

    /// Whether nobody can say what the session has set.
    pub(crate) fn is_unclear(&self) -> bool {
        self.lost.contains(&Cell::Anything)
    }

    /// Notes that something else than an entry has written these cells.
    pub(crate) fn lose(&mut self, cells: &[Cell]) {
        self.lost.extend(cells.iter().cloned());
        if !cells.is_empty() {
            self.changed();
        }
    }

    /// Notes an entry that there is no room for. What outlives a reset is told apart.
    pub(crate) fn lose_entry(&mut self, entry: &Entry) {
        self.lost.extend(entry.writes.iter().filter(|cell| lasting::outlives_reset(cell)).cloned());
        self.lose(&[Cell::Anything]);
    }

    /// What the entries make of a connection that has just logged in, statements of
    /// COM_STMT_PREPARE left out. `None` if it cannot be said, until the session is reset.
    pub(crate) fn state(&mut self) -> Option<StateId> {
        if let Some(state) = self.state {
            return state;
        }
        let state = (!self.lost.contains(&Cell::Anything)).then(|| {
            let plain = self.entries.iter().zip(&self.about);
            let plain = plain.filter(|(entry, _)| is_plain(entry));
            self.gather(plain.map(|(_, about)| about))
        });
        self.state = Some(state);
        state
    }

    /// What the entries have made of the `relevant` cells. Two sessions that began alike and have
    /// the same number have the same in these cells: the same commands have written them, and what
    /// those read, in the same order. `None` if it cannot be said.
    ///
    /// Goes through the log.
    pub(crate) fn fingerprint(&self, relevant: impl Fn(&Cell) -> bool) -> Option<StateId> {
        let mut read = BTreeSet::new();
        let mut chosen = Vec::new();
        for about in self.about.iter().rev() {
            let counts = |cell: &Cell| relevant(cell) || reads(&read, cell);
            if about.resets() || about.writes().iter().any(counts) {
                read.extend(about.reads.iter().cloned());
                chosen.push(about);
            }
        }
        let lost = |cell: &Cell| *cell == Cell::Anything || relevant(cell) || reads(&read, cell);
        let known = !self.lost.iter().any(lost);
        known.then(|| self.gather(chosen.into_iter().rev()))
    }

    /// Whether the last entry that sets a user variable surely makes it something else than NULL, and
    /// nothing else has written it since.
    pub(crate) fn is_set(&self, cell: &Cell) -> bool {
        let last = self.since_reset().iter().rev().find(|about| about.writes().contains(cell));
        last.is_some_and(|about| about.null(cell).is_none())
            && !self.lost.contains(cell)
            && !self.lost.contains(&Cell::Anything)
    }

    /// The fingerprint of all that a server makes of a statement that it prepares, unless that names a
    /// user variable.
    fn shape(&self) -> Option<StateId> {
        *self.shape.get_or_init(|| self.fingerprint(shapes_statement))
    }

    fn gather<'a>(&self, entries: impl Iterator<Item = &'a About>) -> StateId {
        let mut gather = Gather::new(0);
        gather.schema(self.base.as_ref());
        entries.filter_map(About::digest).for_each(|digest| gather.add_state(digest));
        gather.finish()
    }

    /// What a statement that is prepared now is to a server.
    fn context(&self, entry: &Entry) -> Option<StateId> {
        if entry.code != CommandCode::STMT_PREPARE {
            return None;
        }
        let state = self.prepared_in(&entry.payload)?;
        let mut gather = Gather::new(1);
        gather.add(&entry.payload);
        gather.add_state(state);
        Some(gather.finish())
    }

    /// What the session has made of what a server may look at when it prepares this text.
    pub(crate) fn prepared_in(&self, text: &[u8]) -> Option<StateId> {
        // Servers may ask a user variable for its type already then.
        if !text.contains(&b'@') {
            return self.shape();
        }
        self.fingerprint(|cell| shapes_statement(cell) || matches!(cell, Cell::User(_)))
    }

    /// Keeps up with what an entry writes, and with what it depends on.
    fn follow(&mut self, about: &About) {
        if about.writes().contains(&Cell::Anything) {
            self.lost.insert(Cell::Anything);
        } else if about.reads.iter().any(|read| self.has_lost(read)) {
            self.lost.extend(about.writes().iter().cloned());
        } else {
            for cell in about.writes().iter().filter(|cell| about.null(cell).is_none()) {
                self.lost.remove(cell);
            }
        }
    }

    fn has_lost(&self, read: &Cell) -> bool {
        match read {
            Cell::AnyUser => self.lost.iter().any(|cell| compact::is_read(cell, read)),
            read => self.lost.contains(read),
        }
    }

    fn remove(&mut self, at: usize) {
        let about = self.about.remove(at);
        let entry = Arc::make_mut(&mut self.entries).remove(at);
        self.count(&entry, false);
        if !about.prepares() {
            self.changed();
        }
    }

    fn changed(&mut self) {
        (self.state, self.shape) = (None, OnceLock::new());
    }

    fn count(&mut self, entry: &LogEntry, comes: bool) {
        match comes {
            true => self.volume.comes(entry.payload.len()),
            false => self.volume.goes(entry.payload.len()),
        }
        let change = |number: &mut usize, by: usize| {
            *number = if comes { *number + by } else { number.saturating_sub(by) };
        };
        if is_plain(entry) {
            change(&mut self.bytes, entry.payload.len());
            change(&mut self.plain, 1);
        } else {
            change(&mut self.prepared_bytes, entry.payload.len());
        }
    }
}

/// Whether a cell is among those that are read.
fn reads(read: &BTreeSet<Cell>, cell: &Cell) -> bool {
    read.contains(cell) || matches!(cell, Cell::User(_)) && read.contains(&Cell::AnyUser)
}

fn is_plain(entry: &LogEntry) -> bool {
    !matches!(entry.expected, Expected::Statement { .. })
}

/// Whether what a cell holds can be seen in what a server makes of a statement that it prepares:
/// all but what is read when the statement is executed.
fn shapes_statement(cell: &Cell) -> bool {
    match cell {
        Cell::User(_)
        | Cell::AnyUser
        | Cell::Prepared(_)
        | Cell::NextTransaction
        | Cell::ResourceGroup => false,
        Cell::System(name) => !matches!(
            &**name,
            "autocommit"
                | "transaction_isolation"
                | "transaction_read_only"
                | "lock_wait_timeout"
                | "innodb_lock_wait_timeout"
                | "interactive_timeout"
                | "wait_timeout"
                | "net_read_timeout"
                | "net_write_timeout"
        ),
        _ => true,
    }
}
