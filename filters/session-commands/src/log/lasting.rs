//! What COM_RESET_CONNECTION leaves of a log.
//!
//! Measured on MariaDB 10.11 and MySQL 9.7: a reset does not undo COM_SET_OPTION and SET ROLE, on MySQL
//! neither SET RESOURCE GROUP. See the proxy's `lasting`, for connections that go to another session.

use super::{About, Log, MULTI_STATEMENTS, reads};
use sql::session::Cell;
use std::{collections::BTreeSet, sync::Arc};

impl Log {
    /// Drops all entries but those that have set what outlives a reset, and those whose effect they
    /// have read. They stand before the reset: what else they have set goes with it.
    pub(crate) fn clear(&mut self) {
        let mut read = BTreeSet::new();
        let mut kept = Vec::new();
        let entries = std::mem::take(Arc::make_mut(&mut self.entries));
        for (entry, mut about) in entries.into_iter().zip(std::mem::take(&mut self.about)).rev() {
            let matters = |cell: &Cell| {
                outlives_reset(cell) || reads(&read, cell) || read.contains(&Cell::Anything)
            };
            about.keep_writes(matters);
            // What a reset makes of the charset may be what was read.
            if about.writes().is_empty() && (read.is_empty() || !about.resets()) {
                continue;
            }
            read.extend(about.reads.iter().cloned());
            kept.push((entry, about));
        }
        let lost = std::mem::take(&mut self.lost).into_iter().filter(outlives_reset).collect();
        let mut volume = std::mem::take(&mut self.volume);
        volume.clear();
        *self = Self { last: self.last, base: self.base.take(), lost, volume, ..Self::default() };
        for (entry, about) in kept.into_iter().rev() {
            self.count(&entry, true);
            Arc::make_mut(&mut self.entries).push(entry);
            self.about.push(about);
        }
    }

    /// Whether something that outlives a reset is set on one connection alone.
    pub(crate) fn has_lost_for_good(&self) -> bool {
        self.lost.iter().any(outlives_reset)
    }

    /// The entries behind the last reset.
    pub(super) fn since_reset(&self) -> &[About] {
        let reset = self.about.iter().rposition(About::resets);
        &self.about[reset.map_or(0, |at| at + 1)..]
    }
}

pub(super) fn outlives_reset(cell: &Cell) -> bool {
    matches!(cell, Cell::Role | Cell::ResourceGroup) || *cell == MULTI_STATEMENTS
}

#[cfg(test)]
mod tests {
    use super::super::tests::{add, entries, log_of};
    use crate::log::{Entry, Log, MULTI_STATEMENTS};
    use sql::session::{Cell, Class};
    use wire::command::CommandCode;

    fn texts(log: &Log) -> Vec<String> {
        let entries = log.snapshot();
        let text = |payload: &[u8]| String::from_utf8_lossy(payload).into_owned();
        entries.iter().map(|entry| text(&entry.payload)).collect()
    }

    fn reset(log: &mut Log) {
        log.clear();
        let code = CommandCode::RESET_CONNECTION;
        add(log, [Entry::new(code, "reset".into(), Class::Lifecycle)]);
    }

    #[test]
    fn roles_and_the_option_stay_and_all_else_goes() {
        let mut log = log_of(&["SET NAMES latin1", "SET ROLE r", "SET @a = 1", "USE d"]);
        let option = Entry::new(CommandCode::SET_OPTION, "option".into(), Class::Lifecycle);
        add(&mut log, [Entry { writes: vec![MULTI_STATEMENTS], ..option }]);
        let with_them = {
            reset(&mut log);
            log.state()
        };
        assert_eq!(texts(&log), ["SET ROLE r", "option", "reset"]);
        assert_eq!(log.plain, 3);
        add(&mut log, entries("SET @a = 1"));
        reset(&mut log);
        assert_eq!((texts(&log), log.state()), (texts(&log), with_them));
        assert_eq!(texts(&log), ["SET ROLE r", "option", "reset"]);
        // who has set neither is in another state
        let mut other = log_of(&[]);
        reset(&mut other);
        assert_ne!(other.state(), with_them);
        // what is set again is kept once, on either side of a reset
        add(&mut log, entries("SET ROLE s"));
        assert_eq!(texts(&log), ["option", "reset", "SET ROLE s"]);
        reset(&mut log);
        assert_eq!(texts(&log), ["option", "SET ROLE s", "reset"]);
    }

    #[test]
    fn what_a_role_was_read_with_stays_in_front_of_it() {
        let texts_of = |all: &[&str]| {
            let mut log = log_of(all);
            reset(&mut log);
            (texts(&log), log)
        };
        let prepared = ["SET NAMES latin1", "PREPARE p FROM 'SET ROLE r'", "SET @a = 1"];
        let (kept, _) = texts_of(&prepared);
        assert_eq!(kept, ["reset"]);
        let execute = Entry::text(
            "EXECUTE p".into(),
            Class::Environment,
            vec![Cell::Prepared("p".into()), Cell::User("a".into())],
            vec![Cell::Role, Cell::User("b".into())],
        );
        let mut log = log_of(&prepared);
        add(&mut log, [execute]);
        reset(&mut log);
        let kept = texts(&log);
        assert_eq!(kept[kept.len() - 4..], [prepared[1], prepared[2], "EXECUTE p", "reset"]);
        // It is not set any more, although an entry sets it.
        assert!(!log.is_set(&Cell::User("a".into())));
        add(&mut log, entries("SET @a = 2"));
        assert!(log.is_set(&Cell::User("a".into())));
    }

    #[test]
    fn what_is_set_on_one_connection_alone_is_so_behind_a_reset() {
        let mut log = log_of(&[]);
        log.lose(&[Cell::User("a".into()), Cell::Anything]);
        reset(&mut log);
        assert!(!log.has_lost_for_good() && log.state().is_some());
        log.lose(&[Cell::Role]);
        reset(&mut log);
        assert!(log.has_lost_for_good());
        add(&mut log, entries("SET ROLE r"));
        assert!(!log.has_lost_for_good());
    }
}
