//! What may go from a log because nobody can tell that it was ever there.

use super::{About, Log};
use sql::session::Cell;
use std::collections::BTreeSet;

/// What later entries do, as long as nothing between reads it.
#[derive(Debug, Default)]
struct Later {
    /// They set it.
    set: BTreeSet<Cell>,
    /// They set its value, but perhaps not its type.
    valued: BTreeSet<Cell>,
    /// They make it, if it was not there.
    touched: BTreeSet<Cell>,
}

impl Log {
    /// An entry goes if everything that it sets is set again later and nothing between reads it:
    /// what compilers do to dead stores, from the last entry to the first.
    pub(super) fn compact(&mut self) {
        let mut later = Later::default();
        for at in (0..self.about.len()).rev() {
            if later.hides(&self.about[at]) {
                self.remove(at);
            } else {
                later.add(&self.about[at]);
            }
        }
    }
}

impl Later {
    fn hides(&self, about: &About) -> bool {
        let is_null = |cell: &Cell| about.null(cell) == Some(true);
        let hidden =
            |cell: &Cell| self.set.contains(cell) || self.valued.contains(cell) && is_null(cell);
        let made = |cell: &Cell| self.set.contains(cell) || self.touched.contains(cell);
        !about.writes().is_empty()
            && about.writes().iter().all(hidden)
            && about.touches().iter().all(made)
    }

    fn add(&mut self, about: &About) {
        for cell in about.writes().iter().filter(|cell| **cell != Cell::Anything) {
            let whole = about.null(cell).is_none();
            let known = if whole { &mut self.set } else { &mut self.valued };
            known.insert(cell.clone());
        }
        for read in about.reads.iter() {
            let keeps = |cell: &Cell| !is_read(cell, read);
            self.set.retain(keeps);
            self.valued.retain(keeps);
            self.touched.retain(keeps);
        }
        // That it asks whether a variable is there, when it makes it, is of no account.
        self.touched.extend(about.touches().iter().cloned());
    }
}

/// Whether what reads `read` reads this cell.
pub(super) fn is_read(cell: &Cell, read: &Cell) -> bool {
    match read {
        Cell::Anything => true,
        Cell::AnyUser => matches!(cell, Cell::User(_)),
        read => read == cell,
    }
}
