//! A command of which somebody wants to know what filters do with it.

use super::Fact;
use serde_json::Value;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// Asks filters to say what they do with the command. Clones share the notes. Writer:
/// `towpath explain`; a command of a client's never has it.
#[derive(Clone, Default)]
pub struct Explain(Arc<Mutex<Vec<Note>>>);

/// What one filter says.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Its name.
    pub filter: &'static str,
    /// What it has done, an object of its own making.
    pub what: Value,
}

impl Explain {
    /// Adds a note behind those that are there.
    pub fn note(&self, filter: &'static str, what: Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Note { filter, what });
    }

    /// All notes, in the order in which they were made.
    pub fn notes(&self) -> Vec<Note> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Notes may quote statements, so only their number is shown.
impl fmt::Debug for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Explain({} notes)", self.notes().len())
    }
}

impl Fact for Explain {
    const NAME: &'static str = "explain";
}
