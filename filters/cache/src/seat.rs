//! What is known of a session's own state, where nobody above keeps a log of it.

use chain::{
    Command,
    facts::{SessionLog, Statement},
};
use sql::{Class, Verb};
use wire::command::CommandCode;

/// Whether a session is in a state that its key can name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seat {
    /// Something may have changed what reads answer, and nobody has written down what.
    touched: bool,
}

impl Seat {
    /// Looks at a command on its way down. A session command that is in the session's log says so;
    /// any other may have changed anything.
    pub(crate) fn sees(&mut self, command: &Command) {
        if command.code() == CommandCode::RESET_CONNECTION
            || command.code() == CommandCode::CHANGE_USER
        {
            self.touched = false;
        } else if !self.touched && !is_logged(command) {
            self.touched = may_touch(command);
        }
    }

    /// Whether the session's state is its account, its schema and its log.
    pub(crate) fn is_known(self) -> bool {
        !self.touched
    }
}

fn is_logged(command: &Command) -> bool {
    command.fact::<SessionLog>().is_some_and(|log| log.this.is_some())
}

/// Whether a command may leave something in the session that changes what reads answer.
fn may_touch(command: &Command) -> bool {
    let Some(statement) = command.fact::<Statement>() else {
        // What names no statement and is not USE by another name.
        return matches!(command.code(), CommandCode::SET_OPTION);
    };
    if command.code() == CommandCode::STMT_PREPARE {
        return false;
    }
    let statement = statement.get();
    match statement.class {
        Class::Read | Class::Show | Class::Explain | Class::Use | Class::Kill => false,
        Class::Begin { .. } | Class::Commit { .. } | Class::Rollback { .. } | Class::Savepoint => {
            statement.multi
        }
        Class::Write => {
            let plain = matches!(
                statement.verb,
                Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace
            );
            !plain || statement.multi
        }
        _ => true,
    }
}
