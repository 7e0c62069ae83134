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
    /// User variables that it makes, without a value: what it prepares sets them.
    pub(crate) touches: Vec<Cell>,
    pub(crate) witness: Option<Arc<dyn Witness>>,
}

/// A user variable to which an entry assigns NULL, or perhaps does: it keeps the type that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nullable {
    pub(crate) cell: Cell,
    pub(crate) surely: bool,
}

/// What an entry does. A session has many of those that only prepare a statement: they are small.
#[derive(Debug)]
pub(super) struct About {
    pub(super) reads: Cow<'static, [Cell]>,
    /// `None`: it prepares a statement.
    does: Option<Box<Does>>,
}

#[derive(Debug)]
struct Does {
    class: Class,
    writes: Vec<Cell>,
    nulls: Vec<Nullable>,
    touches: Vec<Cell>,
    /// Of its command.
    digest: StateId,
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
        let touches = Vec::new();
        Self { code, payload, expected, class, reads, writes, nulls, touches, witness: None }
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
        let Entry { class, reads, writes, nulls, touches, .. } = entry;
        let prepares = matches!(entry.expected, Expected::Statement { .. });
        let does = (!prepares).then(|| {
            let (writes, nulls) = (writes.clone(), nulls.clone());
            let (class, touches, digest) = (*class, touches.clone(), entry.digest());
            Box::new(Does { class, writes, nulls, touches, digest })
        });
        Self { reads: reads.clone(), does }
    }

    /// Whether it does no more than to prepare a statement of COM_STMT_PREPARE.
    pub(super) fn prepares(&self) -> bool {
        self.does.is_none()
    }

    pub(super) fn writes(&self) -> &[Cell] {
        self.does.as_ref().map_or(&[], |does| &does.writes)
    }

    /// Forgets all that it writes but this.
    pub(super) fn keep_writes(&mut self, keep: impl FnMut(&Cell) -> bool) {
        if let Some(does) = &mut self.does {
            does.writes.retain(keep);
        }
    }

    pub(super) fn touches(&self) -> &[Cell] {
        self.does.as_ref().map_or(&[], |does| &does.touches)
    }

    /// Of its command; `None` of one that prepares a statement.
    pub(super) fn digest(&self) -> Option<StateId> {
        self.does.as_ref().map(|does| does.digest)
    }

    /// Whether it makes a user variable NULL: `Some(false)` where it may.
    pub(super) fn null(&self, cell: &Cell) -> Option<bool> {
        let mut nulls = self.does.iter().flat_map(|does| &does.nulls);
        nulls.find(|null| null.cell == *cell).map(|null| null.surely)
    }

    pub(super) fn is(&self, class: Class) -> bool {
        self.does.as_ref().is_some_and(|does| does.class == class)
    }

    pub(super) fn resets(&self) -> bool {
        self.is(Class::Lifecycle) && self.writes().is_empty()
    }
}

/// An entry may hold secrets: its text is not shown.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, payload, class, .. } = self;
        write!(f, "Entry({}, {} bytes, {})", code.name(), payload.len(), class.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::About;
    use crate::predict::Evidence;
    use chain::facts::LogEntry;

    /// Sessions have as many of each as they have prepared statements.
    #[test]
    fn what_is_kept_of_a_statement_is_small() {
        assert!(size_of::<About>() <= 32, "{}", size_of::<About>());
        assert!(size_of::<LogEntry>() <= 96, "{}", size_of::<LogEntry>());
        assert!(size_of::<Evidence>() <= 96, "{}", size_of::<Evidence>());
    }
}
