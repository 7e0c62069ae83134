//! What a command does to the session, decided before it is sent, true if its reply is no error.

use crate::{
    cell::{self, Cell},
    log::Entry,
    reading::{self, Change, Class, Reading},
    ties::Cause,
};
use bytes::Bytes;
use chain::facts::{Expected, Tied};
use sql::{Dialect, Verb};
use std::collections::HashMap;
use wire::command::CommandCode;

/// What a command does to the session.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) entries: Vec<Entry>,
    /// Cells that hold something of this connection alone afterwards.
    pub(crate) local: Vec<Cell>,
    pub(crate) ties: Vec<Change>,
    /// Texts that are prepared under names, or no longer (`None`).
    pub(crate) texts: Vec<(Cell, Option<Bytes>)>,
    /// Names that a failure drops all the same.
    pub(crate) fragile: Vec<(Cell, Bytes)>,
    /// It goes where local cells are.
    pub(crate) names_local: bool,
    /// The session's id of the statement that it prepares, and its text.
    pub(crate) prepares: Option<(u32, Bytes)>,
    pub(crate) resets: bool,
    pub(crate) sets_last_insert_id: bool,
    /// It has several statements: after an error, some of them may have been executed.
    pub(crate) several: bool,
    /// It may have used up what was set for the next transaction.
    pub(crate) consumes: bool,
    /// The statement whose cursor it reads.
    pub(crate) fetches: Option<u32>,
    /// The statement that it gives a cursor, if the server does.
    pub(crate) opens_cursor: Option<u32>,
}

/// What earlier commands have left, for reading the next.
pub(crate) struct Known<'a> {
    pub(crate) local: &'a [Cell],
    pub(crate) texts: &'a HashMap<Cell, Option<Bytes>>,
}

impl Plan {
    /// Whether nothing of the reply is of interest.
    pub(crate) fn is_nothing(&self) -> bool {
        self.entries.is_empty()
            && self.local.is_empty()
            && self.ties.is_empty()
            && self.texts.is_empty()
            && self.fragile.is_empty()
            && self.prepares.is_none()
            && self.fetches.is_none()
            && self.opens_cursor.is_none()
            && !self.resets
            && !self.sets_last_insert_id
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

    /// Adds what one statement of a text does, as COM_QUERY or by a prepared statement.
    pub(crate) fn statement(
        &mut self,
        found: &sql::Statement,
        text: &[u8],
        dialect: Dialect,
        known: &Known<'_>,
    ) {
        if found.needs.user_variables {
            self.user_variables(text, dialect, found.verb, known);
        }
        // `SET STATEMENT ... FOR SET` has no verb that is told.
        let verb = if found.verb == Verb::Unknown { sql::peek(text) } else { found.verb };
        match verb {
            Verb::Set | Verb::Use | Verb::Prepare | Verb::Deallocate | Verb::Drop => {
                let mut reading = reading::read(text, dialect);
                self.prepared_texts(found.verb, text, dialect, &reading);
                self.ties.append(&mut reading.ties);
                self.add(reading, text, known);
            }
            Verb::Execute => self.execute(text, dialect, known),
            Verb::Create
            | Verb::Handler
            | Verb::Call
            | Verb::Xa
            | Verb::Kill
            | Verb::Commit
            | Verb::Rollback => {
                let reading = reading::read(text, dialect);
                self.ties.extend(reading.ties);
                self.local.extend(reading.local);
            }
            _ => self.ties.extend(reading::locks(text)),
        }
        match found.class {
            sql::Class::Lock => self.ties.push(Change::Tie(Cause::TableLock, "".into())),
            sql::Class::Unlock => self.ties.push(Change::UntieAll(Cause::TableLock)),
            _ => {}
        }
    }

    fn user_variables(&mut self, text: &[u8], dialect: Dialect, verb: Verb, known: &Known<'_>) {
        let names = reading::user_variables(text, dialect);
        let is_local = |cell: &Cell| known.is_local(cell);
        self.names_local |= names.iter().any(is_local);
        if !matches!(verb, Verb::Set | Verb::Prepare | Verb::Execute) && reading::may_set(text) {
            self.local.extend(names);
        }
    }

    /// Adds a statement that is a session command.
    fn add(&mut self, mut reading: Reading, text: &[u8], known: &Known<'_>) {
        let local = reading.reads.iter().any(|cell| known.is_local(cell));
        if local && matches!(reading.class, Class::Replayed | Class::Verbatim) {
            self.names_local = true;
            reading.class = Class::Once;
            reading.local.clone_from(&reading.writes);
        }
        match reading.class {
            Class::Other => {}
            Class::Replayed | Class::Verbatim => {
                let text =
                    reading.text.take().map_or_else(|| Bytes::copy_from_slice(text), Bytes::from);
                let soft = reading.writes.iter().any(|cell| cell.starts_with("ps "));
                let expected = if soft { Expected::Anything } else { Expected::Success };
                let Reading { reads, writes, .. } = reading;
                let code = CommandCode::QUERY;
                self.entries.push(Entry { code, payload: text, expected, reads, writes });
            }
            Class::Once => self.once(reading),
            Class::LastInsertId => {
                self.sets_last_insert_id = true;
                self.once(reading);
            }
            Class::OneShot => {
                self.ties.push(Change::Tie(Cause::OneShot, "".into()));
                self.once(reading);
            }
            Class::Local => {
                self.ties.push(Change::Tie(Cause::Setting, "".into()));
                self.once(reading);
            }
        }
    }

    /// What it sets is on this connection alone: a user variable is found there, for anything else
    /// the session stays.
    fn once(&mut self, reading: Reading) {
        for cell in reading.writes {
            if cell.starts_with('@') && !cell.starts_with("@@") || cell.starts_with("ps ") {
                self.local.push(cell);
            } else if reading.class == Class::Once {
                self.ties.push(Change::Tie(Cause::Setting, "".into()));
            }
        }
    }

    fn prepared_texts(&mut self, verb: Verb, text: &[u8], dialect: Dialect, reading: &Reading) {
        let Some(cell) = reading.writes.iter().find(|cell| cell.starts_with("ps ")) else { return };
        match verb {
            Verb::Prepare => {
                let literal = reading::literal(text, dialect);
                self.texts.push((cell.clone(), literal.map(Bytes::from)));
                let name = reading::name_behind(text, dialect);
                self.fragile.push((cell.clone(), [b"DEALLOCATE PREPARE ", name].concat().into()));
            }
            _ => self.texts.push((cell.clone(), None)),
        }
    }

    /// `EXECUTE name [USING ...]`: does what was prepared.
    fn execute(&mut self, text: &[u8], dialect: Dialect, known: &Known<'_>) {
        let cell = cell::prepared(reading::name_behind(text, dialect));
        self.names_local |= known.is_local(&cell);
        let Some(prepared) = known.texts.get(&cell) else { return };
        let Some(prepared) = prepared else {
            self.ties.push(Change::Tie(Cause::Unknown, "".into()));
            return;
        };
        let mut inner = Self::default();
        inner.statement(&sql::statement(prepared, dialect), prepared, dialect, known);
        inner.bind(reading::has_parameters(prepared, dialect));
        for entry in &mut inner.entries {
            entry.payload = Bytes::copy_from_slice(text);
            entry.reads.push(cell.clone());
        }
        self.merge(inner);
    }

    /// Values that are not in the text: what they set is on this connection alone.
    pub(crate) fn bind(&mut self, has_parameters: bool) {
        if !has_parameters {
            return;
        }
        for entry in std::mem::take(&mut self.entries) {
            self.once(Reading { writes: entry.writes, ..Reading::of(Class::Once) });
        }
    }

    fn merge(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.local.extend(other.local);
        self.ties.extend(other.ties);
        self.texts.extend(other.texts);
        self.names_local |= other.names_local;
        self.sets_last_insert_id |= other.sets_last_insert_id;
    }
}

impl Known<'_> {
    fn is_local(&self, cell: &Cell) -> bool {
        let all = cell.starts_with('@') && !cell.starts_with("@@");
        self.local.iter().any(|local| local == cell || all && &**local == cell::ANYTHING)
    }
}
