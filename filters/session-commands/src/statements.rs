//! The prepared statements of a session, by the ids that its client knows.

use crate::types;
use chain::{Command, id_map::IdMap};

/// Ids of sessions begin here, so that one that ever reaches a server untranslated hits nobody.
const FIRST: u32 = 1 << 31;

/// What is known of a session's statements.
#[derive(Debug)]
pub(crate) struct Statements {
    next: u32,
    /// How many parameters each has.
    known: IdMap<u16>,
    /// The types of the parameters, as the client has sent them last. Apart: those that were never
    /// executed have none.
    types: IdMap<Box<[u8]>>,
}

impl Default for Statements {
    fn default() -> Self {
        Self { next: FIRST, known: IdMap::default(), types: IdMap::default() }
    }
}

impl Statements {
    /// An id for a statement that is about to be prepared.
    pub(crate) fn next_id(&mut self) -> u32 {
        loop {
            let id = self.next;
            // MariaDB takes the highest for the one prepared last.
            self.next = if id >= u32::MAX - 1 { FIRST } else { id + 1 };
            if !self.known.contains_key(&id) {
                return id;
            }
        }
    }

    pub(crate) fn add(&mut self, id: u32, parameters: u16) {
        self.known.insert(id, parameters);
        self.types.remove(&id);
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.known.contains_key(&id)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.known.remove(&id);
        self.types.remove(&id);
    }

    /// All are gone; ids are not used again soon.
    pub(crate) fn clear(&mut self) {
        (self.known, self.types) = (IdMap::default(), IdMap::default());
    }

    /// Remembers the types that an EXECUTE brings, or gives it those that it leaves out.
    pub(crate) fn complete(&mut self, id: u32, command: &mut Command) {
        let Some(parameters) = self.known.get(&id).copied() else { return };
        if let Some(types) = types::of(command, parameters) {
            if self.types.get(&id).is_none_or(|known| **known != *types) {
                self.types.insert(id, types.into());
            }
        } else if let Some(types) = self.types.get(&id)
            && let Some(payload) = types::with(command, parameters, types)
        {
            command.rewrite(payload);
        }
    }
}
