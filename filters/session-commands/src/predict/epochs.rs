//! What a reply depends on that is not of the session's, as numbers that grow when it changes.

use chain::{Command, Server, facts::Executed, facts::Statement};
use sql::{Class, Dialect, Lexer, Token, Verb};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Counts what has been seen to change on servers.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    /// Their settings.
    settings: AtomicU64,
    /// Schemas, accounts and rights.
    environment: AtomicU64,
}

/// What a statement changes for other sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    Settings,
    Environment,
    Both,
}

impl Epochs {
    /// Of a command whose reply these servers give, after so many `departures` of others. All parts
    /// only grow, and so does their sum; what a server that has left counts no more is less than a
    /// departure.
    pub(crate) fn stamp<'a>(
        &self,
        constant: bool,
        departures: u32,
        servers: impl Iterator<Item = &'a Arc<Server>>,
    ) -> u64 {
        let standing = servers.map(|server| u64::from(server.standing.changes())).sum::<u64>();
        let environment = if constant { 0 } else { self.environment.load(Relaxed) };
        (u64::from(departures) << 32) + standing + self.settings.load(Relaxed) + environment
    }

    /// Notes a change.
    pub(crate) fn change(&self, changes: Changes) {
        if changes != Changes::Environment {
            self.settings.fetch_add(1, Relaxed);
        }
        if changes != Changes::Settings {
            self.environment.fetch_add(1, Relaxed);
        }
    }
}

impl Changes {
    /// What the command changes, as far as its text shows.
    pub(crate) fn by(command: &Command) -> Option<Self> {
        let statement = command.fact::<Statement>()?;
        let executed = command.fact::<Executed>().map(|Executed(executed)| executed);
        let found = executed.unwrap_or(statement.get());
        let text = statement.text();
        if found.multi {
            return WORDS.iter().any(|word| contains(text, word)).then_some(Self::Both);
        }
        match (found.class, found.verb) {
            (Class::Ddl, Verb::Truncate) => None,
            (Class::Ddl, Verb::Create | Verb::Drop) => {
                (!is_temporary(text, statement.dialect())).then_some(Self::Environment)
            }
            (Class::Ddl, _) | (Class::Admin, Verb::Flush) => Some(Self::Environment),
            (Class::Admin, Verb::Set | Verb::Install | Verb::Uninstall | Verb::Reset) => {
                Some(Self::Settings)
            }
            _ => None,
        }
    }
}

/// Of several statements in one text, one that changes something has one of these.
const WORDS: [&[u8]; 9] =
    [b"create", b"alter", b"drop", b"rename", b"grant", b"revoke", b"global", b"persist", b"role"];

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// `CREATE [OR REPLACE] TEMPORARY`, `DROP TEMPORARY`: of this session alone.
fn is_temporary(text: &[u8], dialect: Dialect) -> bool {
    let mut words = Lexer::new(text, dialect).filter(Token::is_code).skip(1);
    let mut word = || words.next().map_or(&b""[..], |token| token.of(text));
    let mut first = word();
    if first.eq_ignore_ascii_case(b"or") {
        // REPLACE
        word();
        first = word();
    }
    first.eq_ignore_ascii_case(b"temporary")
}

#[cfg(test)]
mod tests {
    use super::{Changes, Epochs};
    use chain::{Command, Server, facts::Statement, testing::session, topology::ServerState};
    use std::sync::Arc;

    fn changes(text: &'static str) -> Option<Changes> {
        let command = Command::query(session(), text);
        Changes::by(&command.with(Statement::new(text.into(), sql::Dialect::default())))
    }

    #[test]
    fn what_statements_change_for_others() {
        for text in [
            "CREATE TABLE t (a INT)",
            "CREATE DATABASE temporary",
            "ALTER TABLE t ADD b INT",
            "DROP TABLE t",
            "RENAME TABLE t TO u",
            "GRANT SELECT ON d.* TO u",
            "REVOKE SELECT ON d.* FROM u",
            "ALTER USER u IDENTIFIED BY 'x'",
            "DROP USER u",
            "CREATE ROLE r",
            "FLUSH PRIVILEGES",
        ] {
            assert_eq!(changes(text), Some(Changes::Environment), "{text}");
        }
        for text in
            ["SET GLOBAL sql_mode = ''", "SET @@persist.sql_mode = ''", "SET DEFAULT ROLE r TO u"]
        {
            assert_eq!(changes(text), Some(Changes::Settings), "{text}");
        }
        for text in [
            "SET NAMES latin1",
            "SET @a = 1",
            "SELECT 1",
            "INSERT INTO t VALUES (1)",
            "CREATE TEMPORARY TABLE t (a INT)",
            "CREATE OR REPLACE TEMPORARY TABLE t (a INT)",
            "DROP TEMPORARY TABLE t",
            "TRUNCATE t",
            "SELECT 1; SELECT 2",
        ] {
            assert_eq!(changes(text), None, "{text}");
        }
        assert_eq!(changes("SELECT 1; DROP TABLE t"), Some(Changes::Both));
    }

    #[test]
    fn a_stamp_is_another_after_each_change() {
        let (epochs, server) = (Epochs::default(), Arc::new(Server::new(1, "a", 1)));
        let stamp = |constant| epochs.stamp(constant, 0, [&server].into_iter());
        let before = (stamp(true), stamp(false));
        epochs.change(Changes::Environment);
        assert_eq!(stamp(true), before.0);
        assert_ne!(stamp(false), before.1);
        epochs.change(Changes::Settings);
        assert_ne!(stamp(true), before.0);
        let before = stamp(true);
        server.standing.set_state(ServerState::Lagging);
        assert_eq!(stamp(true), before);
        server.standing.set_state(ServerState::Shunned);
        server.standing.set_state(ServerState::Online);
        assert_ne!(stamp(true), before);
        let before = stamp(true);
        server.standing.set_member(false);
        assert_ne!(stamp(true), before);
        assert!(epochs.stamp(true, 1, [].into_iter()) > stamp(true), "it has left");
    }
}
