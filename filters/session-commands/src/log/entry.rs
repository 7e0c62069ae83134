//! One entry of a session's log, and what it does.

use crate::state::Gather;
use bytes::Bytes;
use chain::facts::{Expected, StateId, Witness};
use sql::session::{Cell, Class};
use std::{borrow::Cow, fmt, sync::Arc};
use wire::command::CommandCode;

/// A session command that has succeeded, on its way into the log.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) code: CommandCode,
    pub(crate) payload: Bytes,
    pub(crate) expected: Expected,
    pub(crate) class: Class,
    pub(crate) reads: Cow<'static, [Cell]>,
    pub(crate) writes: Vec<Cell>,
    /// Of what it writes.
    pub(crate) nulls: Vec<Nullable>,
    pub(crate) witness: Option<Arc<dyn Witness>>,
}

/// A user variable to which an entry assigns NULL, or perhaps does: it keeps the type that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nullable {
    pub(crate) cell: Cell,
    pub(crate) surely: bool,
}

/// What an entry does.
#[derive(Debug)]
pub(super) struct About {
    pub(super) class: Class,
    pub(super) reads: Cow<'static, [Cell]>,
    pub(super) writes: Vec<Cell>,
    pub(super) nulls: Vec<Nullable>,
    /// Of its command.
    pub(super) digest: StateId,
}

impl Entry {
    /// A text that is executed as it stands.
    pub(crate) fn text(text: Bytes, class: Class, reads: Vec<Cell>, writes: Vec<Cell>) -> Self {
        let named = writes.iter().any(|cell| matches!(cell, Cell::Prepared(_)));
        let expected = if named { Expected::Anything } else { Expected::Success };
        let reads = Cow::Owned(reads);
        Self { expected, reads, writes, ..Self::new(CommandCode::QUERY, text, class) }
    }

    /// One that reads and writes nothing and must succeed.
    pub(crate) fn new(code: CommandCode, payload: Bytes, class: Class) -> Self {
        let (reads, writes, nulls) = (Cow::Borrowed(&[][..]), Vec::new(), Vec::new());
        let expected = Expected::Success;
        Self { code, payload, expected, class, reads, writes, nulls, witness: None }
    }

    fn digest(&self) -> StateId {
        let mut gather = Gather::new(2);
        gather.add(&[self.code.0]);
        gather.add(&self.payload);
        gather.finish()
    }
}

impl About {
    pub(super) fn of(entry: &Entry) -> Self {
        let Entry { class, reads, writes, nulls, .. } = entry.clone();
        Self { class, reads, writes, nulls, digest: entry.digest() }
    }

    /// Whether it makes a user variable NULL: `Some(false)` where it may.
    pub(super) fn null(&self, cell: &Cell) -> Option<bool> {
        self.nulls.iter().find(|null| null.cell == *cell).map(|null| null.surely)
    }

    pub(super) fn resets(&self) -> bool {
        self.class == Class::Lifecycle && self.writes.is_empty()
    }
}

/// An entry may hold secrets: its text is not shown.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, payload, class, .. } = self;
        write!(f, "Entry({}, {} bytes, {})", code.name(), payload.len(), class.as_str())
    }
}
