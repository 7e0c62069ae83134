//! What is set for the next transaction alone.
//!
//! SET TRANSACTION stands in the log until it may have been used up, so that a connection that is lost
//! before is replaced by one that has it too. It ties the session all that time: no other connection
//! executes it as long as this one is there.

use super::SessionCommands;
use crate::{
    plan::Plan,
    ties::{AGAIN, Cause, Change},
};
use chain::{Command, facts::Target};
use sql::{
    Class,
    session::{self, Cell},
};
use wire::command::CommandCode;

impl SessionCommands {
    /// Whether nothing ties the session that the log cannot give to another connection.
    pub(super) fn is_again(&self) -> bool {
        self.ties.is_again() && self.local_at.is_none()
    }

    /// Whether that is so once a command has succeeded that does `plan`.
    pub(super) fn is_again_with(&self, plan: &Plan) -> bool {
        let again = |change: &Change| match change {
            Change::Tie(cause, name) => *cause == Cause::OneShot && **name == *AGAIN,
            _ => true,
        };
        let before = self.local_at.is_none() && (self.ties.is_empty() || self.ties.is_again());
        let stays = !plan.may_use && plan.local.is_empty() && plan.opens_cursor.is_none();
        before && stays && plan.ties.iter().all(again)
    }

    /// Nobody knows any more whether the next transaction is still to come, or it is known that it has
    /// come.
    pub(super) fn doubt(&mut self) {
        if self.ties.is_again() {
            self.log.forget(&[Cell::NextTransaction]);
            self.ties.doubt();
        }
    }

    /// What it sets has been used up.
    pub(super) fn used_up(&mut self, target: &Target) {
        self.log.forget(&[Cell::NextTransaction]);
        self.ties.change(Change::UntieAll(Cause::OneShot), target);
    }

    /// Whether a command that does `plan` leaves what is set for the next transaction to it.
    pub(super) fn keeps_once(plan: &Plan) -> bool {
        !plan.may_use && plan.entries.iter().all(|entry| entry.class != session::Class::OneShot)
    }
}

/// Whether a statement surely uses up what is set for the next transaction. A read may, by what its
/// tables are; SET, USE, PREPARE and DO do not.
pub(super) fn consumes(class: Class, text: &[u8]) -> bool {
    match class {
        Class::Commit { .. } | Class::Rollback { .. } | Class::Ddl => true,
        Class::Write => sql::peek(text) != sql::Verb::Do,
        _ => false,
    }
}

/// Whether a statement may use it up: neither what begins a transaction, which says so in its reply,
/// nor a read without a table.
pub(super) fn may_use(found: &sql::Statement, text: &[u8]) -> bool {
    if found.multi {
        return true;
    }
    match found.class {
        Class::SetSession | Class::Use | Class::Prepare | Class::Deallocate => false,
        Class::Begin { .. } => false,
        Class::Write => found.verb != sql::Verb::Do,
        Class::Read => found.verb != sql::Verb::Select || names_from(text),
        _ => true,
    }
}

/// Whether a command that is no statement may.
pub(super) fn may_use_by_code(command: &Command) -> bool {
    !matches!(
        command.code(),
        CommandCode::QUERY
            | CommandCode::INIT_DB
            | CommandCode::SET_OPTION
            | CommandCode::PING
            | CommandCode::STATISTICS
            | CommandCode::RESET_CONNECTION
            | CommandCode::STMT_PREPARE
            | CommandCode::STMT_EXECUTE
            | CommandCode::STMT_CLOSE
            | CommandCode::STMT_RESET
            | CommandCode::STMT_SEND_LONG_DATA
    )
}

/// Whether the word is in a text, be it in a string or a comment.
fn names_from(text: &[u8]) -> bool {
    text.windows(4).any(|word| word.eq_ignore_ascii_case(b"from"))
}
