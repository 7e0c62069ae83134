//! The prepared statements of a session, by the ids that its client knows.

use crate::types;
use bytes::Bytes;
use chain::Command;
use std::collections::HashMap;

/// Ids of sessions begin here, so that one that ever reaches a server untranslated hits nobody.
const FIRST: u32 = 1 << 31;

/// What is known of a session's statements.
#[derive(Debug)]
pub(crate) struct Statements {
    next: u32,
    known: HashMap<u32, Known>,
}

#[derive(Debug)]
struct Known {
    parameters: u16,
    /// As the client has sent them last.
    types: Option<Bytes>,
}

impl Default for Statements {
    fn default() -> Self {
        Self { next: FIRST, known: HashMap::new() }
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
        self.known.insert(id, Known { parameters, types: None });
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.known.contains_key(&id)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.known.remove(&id);
    }

    /// All are gone; ids are not used again soon.
    pub(crate) fn clear(&mut self) {
        self.known = HashMap::new();
    }

    /// Remembers the types that an EXECUTE brings, or gives it those that it leaves out.
    pub(crate) fn complete(&mut self, id: u32, command: &mut Command) {
        let Some(known) = self.known.get_mut(&id) else { return };
        if let Some(types) = types::of(command, known.parameters) {
            if known.types.as_ref() != Some(&types) {
                known.types = Some(types);
            }
        } else if let Some(types) = &known.types
            && let Some(payload) = types::with(command, known.parameters, types)
        {
            command.rewrite(payload);
        }
    }
}
