//! What is brought to a session's other connections before they are used.

use super::SessionCommands;
use crate::{Mode, Propagate as When, plan::Plan};
use chain::{
    Command, Next,
    facts::{LogEntry, Others, Propagate, SessionLog, This},
};
use std::sync::Arc;
use wire::command::CommandCode;

impl SessionCommands {
    /// What the dispatcher is told to bring to others once the command has succeeded. What prepares a
    /// statement is not known whole before its reply: it goes with what comes next.
    pub(super) fn propagates(&self, plan: &Plan, this: Option<This>) -> Option<Propagate> {
        let (to, first) = match (self.config.mode, self.config.propagate) {
            (Mode::Off, _) => (Others::All, true),
            (_, When::Lazy) => return None,
            (_, When::LastUsed) => (Others::LastUsed, false),
            (_, When::Eager) => (Others::All, false),
        };
        let once = self.ties.is_again() || !Self::keeps_once(plan);
        let This { lsn, .. } = this.filter(|_| !plan.resets && !once)?;
        let mut entries = Vec::clone(&self.log.snapshot());
        let first_lsn = lsn + 1 - plan.entries.len() as u64;
        for (entry, lsn) in plan.entries.iter().zip(first_lsn..) {
            let (payload, expected) = (entry.payload.clone(), entry.expected);
            entries.push(Arc::new(LogEntry::new(lsn, entry.code, payload, expected)));
        }
        let (generation, schemaless) = (self.generation, self.schemaless);
        let entries = Arc::new(entries);
        let nowhere = self.nowhere;
        let log = SessionLog { entries, this: None, generation, schemaless, nowhere, state: None };
        Some(Propagate { to, log, first })
    }

    /// Says so for a command that was answered from memory. What fails is found out when the
    /// connection is used.
    pub(super) async fn propagate_alone(&mut self, command: &Command, next: Next<'_>) {
        let Some(pending) = self.pending.as_ref().filter(|_| self.last.is_some()) else { return };
        let Some(order) = self.propagates(&pending.plan, pending.this) else { return };
        self.seen = self.log.last();
        let word = command.aside("session-commands", CommandCode::PING, b"").with(order);
        if let Err(error) = next.run(word).await {
            tracing::debug!(code = error.code(), "nothing is propagated");
        }
    }
}
