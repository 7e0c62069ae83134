//! How many prepared statements a connection has, as far as commands and replies show it.

use chain::{Command, End};
use sql::Verb;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wire::command::CommandCode;

/// Statements of one connection: those of COM_STMT_PREPARE, and those with names of PREPARE. A name
/// that is prepared twice counts twice.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU32);

/// What a command does to the number, if the server does not refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    OneMore,
    OneLess,
    All,
}

impl Change {
    pub(super) fn by(command: &Command) -> Self {
        match command.code() {
            CommandCode::STMT_PREPARE => Self::OneMore,
            CommandCode::STMT_CLOSE => Self::OneLess,
            CommandCode::RESET_CONNECTION => Self::All,
            CommandCode::QUERY => match command.verb() {
                Verb::Prepare => Self::OneMore,
                Verb::Deallocate => Self::OneLess,
                _ => Self::None,
            },
            _ => Self::None,
        }
    }
}

impl Tally {
    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    pub(super) fn done(&self, change: Change, end: &End) {
        if end.error.is_some() || change == Change::None {
            return;
        }
        // Only the connection's session writes.
        let count = self.0.load(Relaxed);
        self.0.store(
            match change {
                Change::None => count,
                Change::OneMore => count.saturating_add(1),
                Change::OneLess => count.saturating_sub(1),
                Change::All => 0,
            },
            Relaxed,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Tally};
    use chain::{Command, End, testing};
    use wire::command::CommandCode;

    #[test]
    fn what_servers_refuse_does_not_count() {
        let tally = Tally::default();
        let query = |text: &str| Change::by(&Command::query(testing::session(), text));
        let (ok, refused) = (End::default(), End { error: Some(1064), ..End::default() });
        tally.done(query("PREPARE p FROM 'x'"), &refused);
        tally.done(query("SELECT 1"), &ok);
        assert!(tally.is_empty());
        tally.done(query("PREPARE p FROM 'DO 1'"), &ok);
        assert!(!tally.is_empty());
        tally.done(query("DEALLOCATE PREPARE p"), &ok);
        assert!(tally.is_empty());
        let binary = |code| Change::by(&Command::new(testing::session(), code, [1, 0, 0, 0]));
        tally.done(binary(CommandCode::STMT_PREPARE), &ok);
        tally.done(binary(CommandCode::STMT_PREPARE), &ok);
        tally.done(binary(CommandCode::STMT_CLOSE), &ok);
        assert!(!tally.is_empty());
        tally.done(binary(CommandCode::RESET_CONNECTION), &ok);
        assert!(tally.is_empty());
    }
}
