//! What a command has done to the session, once its reply has ended.

use super::{Outcome, SCHEMA, SessionCommands, init_db, name_of};
use crate::{
    log::Entry,
    plan::Plan,
    ties::{Cause, Change, Ties},
};
use bytes::Bytes;
use chain::{
    Session,
    facts::{Expected, Target, This, Witness},
};
use sql::session::{Cell, Class};
use std::sync::Arc;
use wire::{
    capability::Capabilities,
    command::{CommandCode, statement::PrepareOk},
    packet::HEADER_LEN,
    status::Status,
};

/// Names that are prepared as text, and cells of one connection, at most: beyond it the session is
/// tied.
const NAMES: usize = 1024;

impl SessionCommands {
    /// Takes in what the command before has done.
    pub(super) fn settle(&mut self, session: &Session) {
        if self.schema.is_none() {
            self.schema = Some(session.schema.clone());
            self.log.begin_in(session.schema.as_ref());
        }
        let before = self.schema.clone().flatten();
        let mut moves = false;
        if let Some(pending) = self.pending.take()
            && let Some(outcome) = pending.outcome.get()
        {
            moves = match &pending.target {
                _ if pending.assumed => self.assumed(&pending.plan, pending.this, outcome, session),
                Some(target) => self.done(&pending.plan, pending.this, target, outcome, session),
                None => false,
            };
        }
        if session.in_transaction() {
            self.doubt();
        }
        self.nowhere &= !moves;
        // Without session tracking the flag alone says so.
        let dropped = session.status().contains(Status::DB_DROPPED);
        if session.current_schema == before && !dropped {
            return;
        }
        self.schema = Some(session.current_schema.clone());
        match &session.current_schema {
            _ if moves => {}
            Some(name) if !dropped => {
                self.nowhere = false;
                let lsn = self.log.reserve();
                self.log.append(lsn, init_db(name.clone()));
            }
            _ => {
                self.log.forget(&SCHEMA);
                (self.schemaless, self.nowhere) = (true, true);
                self.generation += 1;
            }
        }
        let login = session.schema.as_ref().filter(|_| !self.schemaless);
        self.log.begin_in(login);
    }

    /// Takes in one command. Whether the log says where it has moved the session.
    fn done(
        &mut self,
        plan: &Plan,
        this: Option<This>,
        target: &Target,
        outcome: &Outcome,
        session: &Session,
    ) -> bool {
        let mut change = |change: &Change| self.ties.change(change.clone(), target);
        // Another reply has come: the connection was not closed.
        change(&Change::UntieAll(Cause::Ending));
        if outcome.error.is_some() {
            // Its error is what SHOW WARNINGS shows.
            self.last = Some(target.clone());
            if plan.several {
                self.log.lose(&[Cell::Anything]);
                change(&Change::tie(Cause::Unknown));
            }
            if plan.is_unknown {
                plan.ties.iter().for_each(&mut change);
            }
            self.failed(plan);
            return false;
        }
        plan.ties.iter().for_each(&mut change);
        let status = outcome.status.unwrap_or_default();
        if let Some(id) = plan.opens_cursor.filter(|_| status.contains(Status::CURSOR_EXISTS)) {
            change(&Change::Tie(Cause::Cursor, name_of(id)));
        }
        if let Some(id) = plan.fetches.filter(|_| status.contains(Status::LAST_ROW_SENT)) {
            change(&Change::Untie(Cause::Cursor, name_of(id)));
        }
        if plan.consumes && !session.in_transaction() {
            self.used_up(target);
        }
        if plan.resets {
            self.reset(plan, this, session);
            if self.log.has_lost_for_good() {
                self.ties.change(Change::tie(Cause::Setting), target);
                // The dispatcher has been told that the reset ends all ties.
                self.told = (false, false);
            }
            return true;
        }
        if plan.sets_last_insert_id {
            (self.last_write, self.last_write_lost) = (Some(target.clone()), false);
        }
        for (cell, text) in &plan.texts {
            self.texts.insert(cell.clone(), text.clone());
            self.assumed_texts.remove(cell);
        }
        self.log.lose(&plan.unlogged);
        for cell in &plan.local {
            if !self.local.contains(cell) {
                self.local.push(cell.clone());
            }
            self.local_at.get_or_insert_with(|| target.clone());
        }
        if self.local.len().max(self.texts.len()) > NAMES {
            self.ties.change(Change::tie(Cause::Unknown), target);
        }
        let Some(this) = this else { return false };
        self.learn(plan, this, outcome)
    }

    /// Writes what has succeeded to the log.
    pub(super) fn learn(&mut self, plan: &Plan, this: This, outcome: &Outcome) -> bool {
        if let Some((id, text)) = &plan.prepares {
            self.prepared(this, *id, text, plan, outcome);
        }
        let first = this.lsn + 1 - plan.entries.len() as u64;
        let mut moves = false;
        for (entry, lsn) in plan.entries.iter().zip(first..) {
            moves |= entry.writes.contains(&Cell::Schema);
            self.local.retain(|local| !entry.writes.contains(local));
            if self.ties.has(Cause::FullLog) {
                self.log.lose_entry(entry);
            } else {
                self.log.append(lsn, Entry { witness: witness(plan), ..entry.clone() });
            }
        }
        if self.local.is_empty() {
            self.local_at = None;
        }
        moves
    }

    fn prepared(&mut self, this: This, id: u32, text: &Bytes, plan: &Plan, outcome: &Outcome) {
        let Some(payload) = outcome.head.get(HEADER_LEN..) else { return };
        let Ok(ok) = PrepareOk::decode(payload, Capabilities::EMPTY) else { return };
        let parameters = ok.parameters;
        self.statements.add(id, parameters);
        if self.ties.has(Cause::FullLog) {
            return;
        }
        let entry = Entry::new(CommandCode::STMT_PREPARE, text.clone(), Class::Environment);
        let (reads, expected) = (plan.takes.clone(), Expected::Statement { id, parameters });
        self.log.append(this.lsn, Entry { reads, expected, witness: witness(plan), ..entry });
    }

    /// A PREPARE that fails drops the statement that had the name.
    fn failed(&mut self, plan: &Plan) {
        for (cell, text) in &plan.fragile {
            self.texts.remove(cell);
            self.assumed_texts.remove(cell);
            if self.log.sets(cell) {
                let lsn = self.log.reserve();
                let (reads, writes) = (Vec::new(), vec![cell.clone()]);
                let entry = Entry::text(text.clone(), Class::Environment, reads, writes);
                self.log.append(lsn, entry);
            }
        }
    }

    /// Everything is as after the login, but for the schema, what a reset makes of the charset, and
    /// what it does not undo.
    pub(super) fn reset(&mut self, plan: &Plan, this: Option<This>, session: &Session) {
        self.log.clear();
        self.ties = Ties::default();
        self.statements.clear();
        self.local.clear();
        self.local_at = None;
        self.texts.clear();
        self.assumed_texts.clear();
        (self.last_write, self.last_write_lost) = (None, false);
        self.schema = Some(session.current_schema.clone());
        let Some(This { lsn, .. }) = this else { return };
        if session.current_schema != session.schema
            && let Some(name) = &session.current_schema
        {
            self.log.append(lsn - 1, init_db(name.clone()));
        }
        let code = CommandCode::RESET_CONNECTION;
        let entry = Entry::new(code, Bytes::new(), Class::Lifecycle);
        self.log.append(lsn, Entry { witness: witness(plan), ..entry });
    }
}

/// Who is shown what servers answer to the entry.
fn witness(plan: &Plan) -> Option<Arc<dyn Witness>> {
    plan.witness.clone().map(|evidence| -> Arc<dyn Witness> { evidence })
}
