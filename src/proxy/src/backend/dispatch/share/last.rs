//! What a statement may ask about the one before it, kept for when that one's connection is
//! another session's.

use super::pins::Doing;
use crate::backend::seat::Left;
use chain::{
    Command, Error, Result,
    error::code,
    facts::{Executed, Lsn, Statement},
};
use sql::{Dialect, Needs, Verb};
use wire::command::CommandCode;

/// What the session's replies have said.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// What LAST_INSERT_ID() says.
    pub(super) insert_id: u64,
    row_count: Option<i64>,
    found_rows: Option<u64>,
    head: Lsn,
}

/// What a command asks about the ones before it.
pub(super) fn needs(command: &Command) -> Needs {
    let runs = !matches!(command.code(), CommandCode::STMT_PREPARE | CommandCode::STMT_CLOSE);
    let statement = command.fact::<Statement>().filter(|_| runs);
    let executed = command.fact::<Executed>().map(|executed| executed.0.needs);
    executed.or(statement.map(|statement| statement.get().needs)).unwrap_or_default()
}

/// Whether a statement that is prepared asks what the one before it has left.
pub(super) fn asks(command: &Command) -> bool {
    let statement = |text: bytes::Bytes| sql::statement(&text, Dialect::default());
    command.sql().is_some_and(|text| statement(text).needs.last_used)
}

impl Values {
    /// Takes in how a reply has ended.
    pub(super) fn settle(&mut self, doing: &Doing, left: &Left) {
        if doing.sets {
            self.row_count = Some(0);
        }
        if doing.works {
            (self.row_count, self.found_rows) = (Some(left.row_count), left.found_rows);
        }
        if left.insert_id != 0 {
            self.insert_id = left.insert_id;
        }
    }

    /// Notes where the session's log ends: what has been set meanwhile has been answered without a
    /// server, and counts.
    pub(super) fn follow(&mut self, head: Lsn) {
        if self.head < head {
            self.row_count = Some(0);
        }
        self.head = head;
    }

    /// Puts what is known in place of what a statement asks. An error where that is not known:
    /// better than what another session's statement has left.
    pub(super) fn put_into(&self, command: &mut Command) -> Result<()> {
        let unknown = || {
            let text = "the connection that knew what the last statement has left is another \
                        session's by now";
            Err(Error::backend(text).with_code(code::FILTER, *b"HY000"))
        };
        let Some(statement) = command.fact::<Statement>() else { return Ok(()) };
        // Nothing was left to show: there were neither warnings nor errors.
        let found = statement.get();
        if found.verb == Verb::Show {
            return Ok(());
        }
        unknown()
    }
}
