//! Which prepared statements of a connection were rewritten.

use super::rewrite::Rewrite;
use chain::Command;
use std::{collections::HashMap, sync::Arc};
use wire::command::statement::{LAST_PREPARED, statement_id};

/// Prepared statements that were rewritten, by the server's ids.
#[derive(Default)]
pub(super) struct Prepared {
    statements: HashMap<u32, Arc<Rewrite>>,
    /// Bytes of all their texts, at most [`Prepared::LIMIT`].
    size: usize,
    /// Which one was prepared last, if it is one of these.
    pub(super) last: Option<u32>,
}

impl Prepared {
    /// What a connection keeps of texts, in bytes. A statement beyond it is not rewritten.
    const LIMIT: usize = 1 << 20;

    pub(super) fn has_room(&self, text: &[u8]) -> bool {
        self.size + text.len() <= Self::LIMIT
    }

    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    pub(super) fn insert(&mut self, id: u32, rewrite: Arc<Rewrite>) {
        self.last = Some(id);
        self.size += rewrite.ours.len();
        if let Some(before) = self.statements.insert(id, rewrite) {
            self.size -= before.ours.len();
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        if let Some(rewrite) = self.statements.remove(&id) {
            self.size -= rewrite.ours.len();
        }
    }

    /// The statement that a command is about.
    pub(super) fn of(&self, command: &Command) -> Option<&Arc<Rewrite>> {
        let id = statement_id(command.whole())?;
        self.statements.get(if id == LAST_PREPARED { self.last.as_ref()? } else { &id })
    }
}

#[cfg(test)]
mod tests {
    use super::{Prepared, Rewrite};
    use crate::backend::connect::Vendor;
    use std::sync::Arc;

    #[test]
    fn what_is_kept_is_bounded_and_given_back() {
        let long = vec![b'x'; Prepared::LIMIT / 2];
        let rewrite = Arc::new(Rewrite::new(long.clone().into(), &[], Vendor::MySql, 1 << 31));
        let mut prepared = Prepared::default();
        prepared.insert(1, rewrite.clone());
        assert!(prepared.has_room(&long));
        prepared.insert(2, rewrite.clone());
        assert!(!prepared.has_room(b"x"));
        // An id that the server gives again.
        prepared.insert(2, rewrite);
        prepared.remove(1);
        prepared.remove(1);
        assert!(prepared.has_room(&long) && !prepared.is_empty());
        prepared.remove(2);
        assert!(prepared.is_empty());
        assert_eq!(prepared.size, 0);
    }
}
