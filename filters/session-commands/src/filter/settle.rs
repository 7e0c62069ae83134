//! What a command has done to the session, once its reply has ended.

use super::{Outcome, SessionCommands, init_db};
use crate::{
    cell::{self, Cell},
    log::Entry,
    plan::Plan,
    reading::Change,
    ties::{Cause, Ties},
};
use bytes::Bytes;
use chain::{
    Session,
    facts::{Expected, Target, This},
};
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
        let before = self.schema.get_or_insert_with(|| session.schema.clone()).clone();
        let mut moves = false;
        if let Some(pending) = self.pending.take()
            && let Some(outcome) = pending.outcome.get()
            && let Some(target) = &pending.target
        {
            moves = self.done(&pending.plan, pending.this, target, outcome, session);
        }
        // Without session tracking the flag alone says so.
        let dropped = session.status().contains(Status::DB_DROPPED);
        if session.current_schema == before && !dropped {
            return;
        }
        self.schema = Some(session.current_schema.clone());
        match &session.current_schema {
            _ if moves => {}
            Some(name) if !dropped => {
                let lsn = self.log.reserve();
                self.log.append(lsn, init_db(name.clone()));
            }
            _ => {
                self.log.forget(cell::SCHEMA);
                self.schemaless = true;
                self.generation += 1;
            }
        }
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
            if plan.several {
                change(&Change::Tie(Cause::Unknown, "".into()));
            }
            self.failed(plan);
            return false;
        }
        plan.ties.iter().for_each(&mut change);
        let status = outcome.status.unwrap_or_default();
        if let Some(id) = plan.opens_cursor.filter(|_| status.contains(Status::CURSOR_EXISTS)) {
            change(&Change::Tie(Cause::Cursor, id.to_string().into()));
        }
        if let Some(id) = plan.fetches.filter(|_| status.contains(Status::LAST_ROW_SENT)) {
            change(&Change::Untie(Cause::Cursor, id.to_string().into()));
        }
        if plan.consumes && !session.in_transaction() {
            change(&Change::UntieAll(Cause::OneShot));
        }
        if plan.resets {
            self.reset(this, session);
            return true;
        }
        if plan.sets_last_insert_id {
            (self.last_write, self.last_write_lost) = (Some(target.clone()), false);
        }
        for (cell, text) in &plan.texts {
            self.texts.insert(cell.clone(), text.clone());
        }
        for cell in &plan.local {
            if !self.local.contains(cell) {
                self.local.push(cell.clone());
            }
            self.local_at.get_or_insert_with(|| target.clone());
        }
        if self.local.len().max(self.texts.len()) > NAMES {
            self.ties.change(Change::Tie(Cause::Unknown, "".into()), target);
        }
        let Some(this) = this else { return false };
        self.learn(plan, this, outcome)
    }

    /// Writes what has succeeded to the log.
    fn learn(&mut self, plan: &Plan, this: This, outcome: &Outcome) -> bool {
        if let Some((id, text)) = &plan.prepares {
            self.prepared(this, *id, text, outcome);
        }
        let first = this.lsn + 1 - plan.entries.len() as u64;
        let mut moves = false;
        for (entry, lsn) in plan.entries.iter().zip(first..) {
            moves |= entry.writes.iter().any(|cell| &**cell == cell::SCHEMA);
            self.local.retain(|local| !entry.writes.contains(local));
            if !self.ties.has(Cause::FullLog) {
                self.log.append(lsn, entry.clone());
            }
        }
        if self.local.is_empty() {
            self.local_at = None;
        }
        moves
    }

    fn prepared(&mut self, this: This, id: u32, text: &Bytes, outcome: &Outcome) {
        let Some(payload) = outcome.head.get(HEADER_LEN..) else { return };
        let Ok(ok) = PrepareOk::decode(payload, Capabilities::EMPTY) else { return };
        let parameters = ok.parameters;
        self.statements.add(id, parameters);
        if self.ties.has(Cause::FullLog) {
            return;
        }
        let reads = [cell::SCHEMA, cell::CLIENT, cell::CONNECTION, cell::SQL_MODE, cell::ROLE];
        let reads = reads.map(Cell::from).to_vec();
        let expected = Expected::Statement { id, parameters };
        let (code, payload, writes) = (CommandCode::STMT_PREPARE, text.clone(), Vec::new());
        self.log.append(this.lsn, Entry { code, payload, expected, reads, writes });
    }

    /// A PREPARE that fails drops the statement that had the name.
    fn failed(&mut self, plan: &Plan) {
        for (cell, text) in &plan.fragile {
            self.texts.remove(cell);
            if self.log.sets(cell) {
                let lsn = self.log.reserve();
                let (code, expected) = (CommandCode::QUERY, Expected::Anything);
                let (reads, writes) = (Vec::new(), vec![cell.clone()]);
                let payload = text.clone();
                self.log.append(lsn, Entry { code, payload, expected, reads, writes });
            }
        }
    }

    /// Everything is as after the login, but for the schema and what a reset makes of the charset.
    fn reset(&mut self, this: Option<This>, session: &Session) {
        self.log.clear();
        self.ties = Ties::default();
        self.statements.clear();
        self.local.clear();
        self.local_at = None;
        self.texts.clear();
        (self.last_write, self.last_write_lost) = (None, false);
        self.schema = Some(session.current_schema.clone());
        let Some(This { lsn, .. }) = this else { return };
        if session.current_schema != session.schema
            && let Some(name) = &session.current_schema
        {
            self.log.append(lsn - 1, init_db(name.clone()));
        }
        let code = CommandCode::RESET_CONNECTION;
        let (payload, expected) = (Bytes::new(), Expected::Success);
        self.log
            .append(lsn, Entry { code, payload, expected, reads: Vec::new(), writes: Vec::new() });
    }
}
