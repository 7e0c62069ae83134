//! What holds a session to a connection between two commands.

use super::{State, insert_id::Changes};
use crate::backend::{connect::Vendor, seat::Left};
use chain::{
    Command,
    command::Asker,
    facts::{Statement, Tied},
};
use sql::{Class, Verb};
use std::sync::atomic::Ordering::Relaxed;
use wire::{command::CommandCode, status::Status};

/// What replies have left on a connection.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// What the command under way does there.
    pub(super) doing: Doing,
    /// There are warnings, or an error, that a statement may ask for.
    list: bool,
    /// FOUND_ROWS() says what only this connection knows.
    found_rows: bool,
    autocommit_off: bool,
    /// Something has run since without autocommit, and no COMMIT or ROLLBACK behind it.
    worked: bool,
}

/// What a command does to what the ones before it have left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doing {
    /// It is a statement, and does not only set something.
    pub(super) works: bool,
    /// It sets something of the session's.
    pub(super) sets: bool,
    /// What ties the session ends, unless it fails.
    pub(super) ends_tie: bool,
    ends_work: bool,
    clears_list: bool,
    counts_found: bool,
    /// It may change something on the server.
    pub(super) writes: bool,
    pub(super) insert_id: Changes,
}

impl Doing {
    pub(super) fn of(command: &Command, vendor: Vendor, sets: bool) -> Self {
        let runs = matches!(
            command.code(),
            CommandCode::QUERY | CommandCode::STMT_EXECUTE | CommandCode::STMT_BULK_EXECUTE
        );
        let ends_tie = command.fact::<Tied>().is_some_and(|tied| tied.ends);
        let statement = command.fact::<Statement>();
        let Some(statement) = statement.filter(|_| runs) else {
            let works = runs && !sets;
            // Of a filter's own statements none does.
            let unread = works && command.asker() == Asker::Client;
            let insert_id = if unread { Changes::Anything } else { Changes::Nothing };
            let prepares = command.code() == CommandCode::STMT_PREPARE;
            let clears_list =
                statement.is_some_and(|it| prepares && (vendor == Vendor::MySql || has_table(it)));
            let writes = unread;
            return Self {
                works,
                sets,
                ends_tie,
                writes,
                insert_id,
                clears_list,
                ..Self::default()
            };
        };
        let found = statement.get();
        let has_table = has_table(statement);
        Self {
            works: !sets,
            sets,
            ends_tie,
            ends_work: matches!(found.verb, Verb::Commit | Verb::Rollback) && !found.multi,
            clears_list: !found.needs.last_used && (vendor == Vendor::MySql || has_table && !sets),
            counts_found: found.class == Class::Read
                && has_word(statement.text(), b"sql_calc_found_rows"),
            writes: !matches!(found.class, Class::Read | Class::Show | Class::Explain),
            insert_id: Changes::of(command, statement),
        }
    }
}

/// A statement without a table leaves MariaDB's list of warnings as it is. One that is only prepared
/// does to the list what it does when it runs.
fn has_table(statement: &Statement) -> bool {
    match statement.get().class {
        Class::Write | Class::Ddl => true,
        Class::Read => has_word(statement.text(), b"from") && !has_word(statement.text(), b"dual"),
        _ => false,
    }
}

/// Whether a word is in a text, in any case: in strings and comments too, where one too many costs
/// little.
fn has_word(text: &[u8], word: &[u8]) -> bool {
    let last = word[word.len() - 1];
    memchr::memchr2_iter(last, last.to_ascii_uppercase(), text).any(|at| {
        (at + 1)
            .checked_sub(word.len())
            .is_some_and(|start| text[start..=at].eq_ignore_ascii_case(word))
    })
}

impl Pins {
    pub(super) fn settle(&mut self, doing: &Doing, left: &Left) {
        self.list = left.warned || self.list && !doing.clears_list;
        if doing.works {
            self.found_rows = doing.counts_found && left.found_rows.is_some();
        }
        if let Some(status) = left.status {
            self.autocommit_off = !status.contains(Status::AUTOCOMMIT);
        }
        let ended = doing.ends_work && !left.failed;
        self.worked = self.autocommit_off && !ended && (self.worked || doing.works);
    }

    /// Whether SHOW WARNINGS has something to show.
    pub(super) fn has_list(&self) -> bool {
        self.list
    }
}

impl State {
    /// What holds the session to one of its connections, for people.
    pub(super) fn pin(&self, at: usize) -> Option<&'static str> {
        let (one, sharing) = (&self.held[at], self.sharing.as_ref()?);
        let Some(shared) = &one.shared else { return Some("a connection of its own") };
        let pins = &shared.pins;
        if one.ids.lease.in_transaction.load(Relaxed) {
            Some("a transaction")
        } else if one.tied.is_some() {
            one.tied
        } else if pins.worked {
            Some("autocommit is off")
        } else if shared.is_last && pins.found_rows {
            Some("SQL_CALC_FOUND_ROWS")
        } else if shared.is_last && pins.list {
            Some("warnings")
        } else if one.ids.has_statements() {
            Some("CONNECTION_ID() in a prepared statement")
        } else if sharing.asks {
            Some("a prepared statement that asks about the last one")
        } else if sharing.nowhere {
            Some("a schema that was dropped")
        } else if sharing.pinned_by_rule {
            Some("a rule")
        } else if self.me.entry.killed.load(Relaxed) {
            Some("a KILL")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Doing, Pins, has_word};
    use crate::backend::{connect::Vendor, seat::Left};
    use chain::{Command, facts::Statement, testing};
    use sql::Dialect;
    use wire::status::Status;

    fn doing(text: &'static str, vendor: Vendor) -> Doing {
        let command = Command::query(testing::session(), text);
        let statement = Statement::new(text.into(), Dialect::default());
        let sets = text.starts_with("SET");
        Doing::of(&command.with(statement), vendor, sets)
    }

    const OK: Left = Left {
        status: Some(Status::AUTOCOMMIT),
        warned: false,
        failed: false,
        row_count: 0,
        found_rows: None,
        insert_id: 0,
    };

    #[test]
    fn words() {
        assert!(has_word(b"SELECT Sql_Calc_Found_Rows 1", b"sql_calc_found_rows"));
        assert!(!has_word(b"ows", b"sql_calc_found_rows"));
        assert!(!has_word(b"", b"from"));
    }

    #[test]
    fn warnings_last_as_long_as_the_vendor_keeps_them() {
        let script = [
            ("SELECT CAST('x' AS SIGNED)", true, [true, true]),
            ("SHOW WARNINGS", false, [true, true]),
            ("SET @a = 1", false, [false, true]),
            ("SELECT 1", false, [false, true]),
            ("SELECT 1 FROM DUAL", false, [false, true]),
            ("SELECT * FROM t", false, [false, false]),
        ];
        for (at, vendor) in [Vendor::MySql, Vendor::MariaDb].into_iter().enumerate() {
            let mut pins = Pins::default();
            for (text, warned, list) in script {
                pins.settle(&doing(text, vendor), &Left { warned, ..OK });
                assert_eq!(pins.has_list(), list[at], "{text} on {vendor:?}");
            }
        }
    }

    #[test]
    fn without_autocommit_what_has_run_waits_for_its_end() {
        let off = Left { status: Some(Status::EMPTY), ..OK };
        let mut pins = Pins::default();
        for (text, left, worked) in [
            ("SET autocommit = 0", off, false),
            ("SELECT 1", off, true),
            ("SET @a = 1", off, true),
            ("COMMIT", Left { failed: true, status: None, ..OK }, true),
            ("COMMIT", off, false),
            ("INSERT INTO t VALUES (1)", off, true),
            ("SET autocommit = 1", OK, false),
        ] {
            pins.settle(&doing(text, Vendor::MySql), &left);
            assert_eq!(pins.worked, worked, "{text}");
        }
    }
}
