//! What a command does to the session, decided before it is sent, true if its reply is no error.

mod statement;
#[cfg(test)]
mod tests;
mod variables;

use crate::{
    log::Entry,
    predict::Evidence,
    ties::{Cause, Change},
};
use bytes::Bytes;
use chain::facts::Tied;
use sql::session::{Cell, Class};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

pub(crate) use variables::Variables;

/// What a command does to the session.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) entries: Vec<Entry>,
    /// Cells that hold something of this connection alone afterwards: user variables and statements
    /// with names.
    pub(crate) local: Vec<Cell>,
    /// Any cells that it writes without an entry that says what.
    pub(crate) unlogged: Vec<Cell>,
    pub(crate) ties: Vec<Change>,
    /// Texts that are prepared under names, or no longer (`None`).
    pub(crate) texts: Vec<(Cell, Option<Bytes>)>,
    /// Names that a failure drops all the same.
    pub(crate) fragile: Vec<(Cell, Bytes)>,
    /// It goes where local cells are.
    pub(crate) names_local: bool,
    /// The session's id of the statement that it prepares, and its text.
    pub(crate) prepares: Option<(u32, Bytes)>,
    /// What that takes from its session.
    pub(crate) takes: Cow<'static, [Cell]>,
    /// It names a statement of COM_STMT_PREPARE that the session does not have.
    pub(crate) names_nothing: bool,
    /// It closes a statement that no server has seen.
    pub(crate) closes_unseen: bool,
    pub(crate) resets: bool,
    /// No server knows it: some close behind the error that says so, which is the session's end.
    pub(crate) is_unknown: bool,
    pub(crate) sets_last_insert_id: bool,
    /// It has several statements: after an error, some of them may have been executed.
    pub(crate) several: bool,
    /// Of one of its statements a part is logged.
    cut: bool,
    /// It may have used up what was set for the next transaction.
    pub(crate) consumes: bool,
    /// It may use that up, or may have.
    pub(crate) may_use: bool,
    /// The statement whose cursor it reads.
    pub(crate) fetches: Option<u32>,
    /// The statement that it gives a cursor, if the server does.
    pub(crate) opens_cursor: Option<u32>,
    /// Of the one entry that it becomes.
    pub(crate) witness: Option<Arc<Evidence>>,
}

/// What earlier commands have left, for reading the next.
pub(crate) struct Known<'a> {
    pub(crate) local: &'a [Cell],
    pub(crate) texts: &'a HashMap<Cell, Option<Bytes>>,
    /// The current schema.
    pub(crate) schema: Option<&'a Bytes>,
    pub(crate) variables: &'a Variables,
    /// Whether a user variable is surely not NULL.
    pub(crate) is_set: &'a dyn Fn(&Cell) -> bool,
}

impl Plan {
    /// Whether nothing of the reply is of interest.
    pub(crate) fn is_nothing(&self) -> bool {
        self.entries.is_empty()
            && self.local.is_empty()
            && self.unlogged.is_empty()
            && self.ties.is_empty()
            && self.texts.is_empty()
            && self.fragile.is_empty()
            && self.prepares.is_none()
            && self.fetches.is_none()
            && self.opens_cursor.is_none()
            && !self.resets
            && !self.sets_last_insert_id
    }

    /// Whether all that it does is in the log if it succeeds.
    pub(crate) fn is_logged(&self) -> bool {
        let logged = self.prepares.is_some() || !self.entries.is_empty();
        logged && self.unlogged.is_empty() && self.ties.is_empty() && !self.several
    }

    /// What kind of session command it is; `None` for what is none.
    pub(crate) fn class(&self) -> Option<Class> {
        match self.entries.first() {
            _ if self.resets => Some(Class::Lifecycle),
            Some(entry) => Some(entry.class),
            None => self.prepares.as_ref().map(|_| Class::Environment),
        }
    }

    /// What the connection that runs it has afterwards that no other has, for people.
    pub(crate) fn ties(&self) -> Option<&'static str> {
        let tie = |change: &Change| match change {
            Change::Tie(cause, _) => Some(cause.name()),
            _ => None,
        };
        let cursor = self.opens_cursor.map(|_| Cause::Cursor.name());
        let local = (!self.local.is_empty()).then_some(Tied::USER_VARIABLE);
        self.ties.iter().find_map(tie).or(cursor).or(local)
    }

    /// What it sets is on this connection alone: a user variable is found there, for anything else
    /// the session stays, for this cause.
    fn keep_here(&mut self, cell: &Cell, cause: Cause) {
        match cell {
            Cell::User(_) | Cell::Prepared(_) => self.local.push(cell.clone()),
            _ => self.ties.push(Change::tie(cause)),
        }
        self.unlogged.push(cell.clone());
    }

    fn merge(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.local.extend(other.local);
        self.unlogged.extend(other.unlogged);
        self.ties.extend(other.ties);
        self.texts.extend(other.texts);
        self.names_local |= other.names_local;
        self.sets_last_insert_id |= other.sets_last_insert_id;
    }

    /// Whether only one connection has what is in the cell, or will have by then.
    fn is_local(&self, cell: &Cell, known: &Known<'_>) -> bool {
        let own = Known { local: &self.local, ..*known };
        own.is_local(cell) || known.is_local(cell)
    }
}

impl Known<'_> {
    /// Whether only one connection has what is in the cell.
    fn is_local(&self, cell: &Cell) -> bool {
        is_among(cell, self.local)
    }
}

/// Whether a cell is one of those that one connection has.
pub(crate) fn is_among(cell: &Cell, local: &[Cell]) -> bool {
    let user = |cell: &Cell| matches!(cell, Cell::User(_));
    local.iter().any(|local| match (cell, local) {
        (Cell::AnyUser, local) => user(local) || *local == Cell::Anything,
        (cell, Cell::Anything) => user(cell),
        (cell, local) => cell == local,
    })
}
