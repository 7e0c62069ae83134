//! Statements of COM_STMT_PREPARE that take something of one connection alone.

use super::{SessionCommands, kept_text};
use crate::plan::{self, Plan};
use chain::{Command, facts::Statement};
use sql::session::{self, Cell};

impl SessionCommands {
    /// What preparing a statement does. One that names a user variable of one connection is prepared
    /// there, and where the variable's type goes into it, it is a statement of that connection.
    pub(super) fn prepares(&mut self, plan: &mut Plan, command: &mut Command) {
        let text = kept_text(command);
        let dialect = command.fact::<Statement>().map(Statement::dialect).unwrap_or_default();
        let id = self.statements.next_id();
        plan.takes = session::prepared_with(Some(&text), dialect);
        if !self.local.is_empty() {
            let local = |cell: &Cell| plan::is_among(cell, &self.local);
            plan.names_local = session::user_variables(&text, dialect).iter().any(local);
            if plan.names_local && plan.takes.iter().any(local) {
                plan.local.push(here(id));
            }
        }
        plan.prepares = Some((id, text));
    }

    /// Whether the statement is one connection's.
    pub(super) fn is_prepared_here(&self, id: u32) -> bool {
        !self.local.is_empty() && self.local.contains(&here(id))
    }

    /// The statement is closed.
    pub(super) fn forget_here(&mut self, id: u32) {
        if self.is_prepared_here(id) {
            self.local.retain(|cell| *cell != here(id));
            if self.local.is_empty() {
                self.local_at = None;
            }
        }
    }
}

/// The cell of such a statement: no name that a text can give.
fn here(id: u32) -> Cell {
    Cell::Prepared(format!("\0{id}").into())
}
