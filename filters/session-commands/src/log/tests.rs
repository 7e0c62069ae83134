use super::{Entry, Log};
use crate::plan::{Known, Plan, Variables};
use bytes::Bytes;
use chain::facts::{Expected, LogEntry, Lsn};
use proptest::{collection::vec, prelude::*, sample::select};
use sql::{
    Dialect,
    session::{Cell, Class},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use wire::command::CommandCode;

/// A command of the model: what it writes becomes a function of what it reads and of itself.
fn entry(number: usize, reads: &[u8], writes: &[u8]) -> Entry {
    let cells = |numbers: &[u8]| {
        numbers.iter().map(|n| Cell::User(n.to_string().into())).collect::<Vec<_>>()
    };
    let text = format!("{number}|{reads:?}|{writes:?}");
    Entry::text(text.into(), Class::Const, cells(reads), cells(writes))
}

/// What a text becomes in the log, each part of it.
pub(super) fn entries(text: &str) -> Vec<Entry> {
    entries_of(text, &|_| false)
}

fn entries_of(text: &str, is_set: &dyn Fn(&Cell) -> bool) -> Vec<Entry> {
    let (texts, variables) = (HashMap::new(), Variables::default());
    let known = Known { local: &[], texts: &texts, schema: None, variables: &variables, is_set };
    let (text, mut plan) = (text.as_bytes(), Plan::default());
    plan.text(&sql::statement(text, Dialect::default()), text, Dialect::default(), &known);
    plan.entries
}

pub(super) fn add(log: &mut Log, entries: impl IntoIterator<Item = Entry>) {
    for entry in entries {
        let lsn = log.reserve();
        log.append(lsn, entry);
    }
}

/// A connection of the model: what its cells hold is the whole story of their values.
#[derive(Clone, Debug, Default, PartialEq)]
struct Connection {
    applied: Lsn,
    cells: BTreeMap<Cell, u64>,
    /// Of user variables: NULL leaves it.
    types: BTreeMap<Cell, u64>,
}

impl Connection {
    fn execute(&mut self, lsn: Lsn, entry: &Entry) {
        let (anything, mut value) = (entry.reads.contains(&Cell::Anything), lsn);
        let read: Vec<_> = match anything {
            true => self.cells.values().copied().collect(),
            false => entry.reads.iter().filter_map(|cell| self.cells.get(cell).copied()).collect(),
        };
        read.into_iter().for_each(|read| value = value.wrapping_mul(31).wrapping_add(read));
        let anyone = |cell: &Cell| matches!(cell, Cell::User(_));
        for read in entry.reads.iter().filter(|cell| anyone(cell)) {
            let kind = self.types.get(read).copied().unwrap_or_default();
            value = value.wrapping_mul(31).wrapping_add(kind);
        }
        for cell in &entry.writes {
            let null = entry.nulls.iter().find(|null| null.cell == *cell);
            // What may be NULL is, every second time.
            if null.is_none_or(|null| !null.surely && value % 2 == 1) {
                self.types.insert(cell.clone(), value);
            }
            self.cells.insert(cell.clone(), value);
        }
        self.applied = lsn;
    }

    fn catch_up(&mut self, script: &[Entry], entries: &[Arc<LogEntry>]) {
        let behind = entries.iter().map(|entry| entry.lsn).filter(|lsn| *lsn > self.applied);
        for lsn in behind.collect::<Vec<_>>() {
            self.execute(lsn, &script[lsn as usize - 1]);
        }
    }
}

/// Whatever goes from the log, whenever a connection catches up: its state is the one of the
/// connection that has executed everything.
fn nobody_can_tell(script: &[Entry], lags: &[usize]) {
    let (mut log, mut first) = (Log::default(), Connection::default());
    let mut others = vec![Connection::default(); lags.len()];
    for (number, entry) in script.iter().enumerate() {
        let lsn = log.reserve();
        log.append(lsn, entry.clone());
        first.execute(lsn, entry);
        for (other, lag) in others.iter_mut().zip(lags) {
            if number % (lag + 1) == 0 {
                other.catch_up(script, &log.snapshot());
            }
        }
    }
    others.push(Connection::default());
    for other in &mut others {
        other.catch_up(script, &log.snapshot());
        assert_eq!((&other.cells, &other.types), (&first.cells, &first.types));
    }
}

const TEXTS: [&str; 28] = [
    "SET NAMES utf8mb4",
    "SET NAMES 'latin1' COLLATE latin1_bin",
    "SET CHARACTER SET utf8mb4",
    "SET @a = 1",
    "SET @a = 'x'",
    "SET @b = CONCAT(@a, 'y'), @c = @b",
    "SET @c = @@sql_mode",
    "SET @a = NULL",
    "SET @a = @b",
    "SET @c = CONCAT(@a, 'x'), @b = NULL",
    "PREPARE p FROM 'SELECT @a, @b / 2'",
    "SET sql_mode = ''",
    "SET sql_mode = CONCAT(@@sql_mode, ',ANSI')",
    "SET SESSION time_zone = '+00:00', @b = 2",
    "SET GLOBAL max_connections = 9, SESSION sql_mode = 'ANSI_QUOTES', lc_time_names = @a",
    "SET optimizer_switch = 'mrr=on'",
    "SET autocommit = 0",
    "SET autocommit = 1",
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE",
    "USE d1",
    "USE d2",
    "PREPARE p FROM 'SELECT \"a\"'",
    "PREPARE q FROM @a",
    "DEALLOCATE PREPARE p",
    "SET no_such_variable = 1",
    "SET @a = 1; USE d1; SET @b = @a",
    "SET ROLE r",
];

proptest! {
    #[test]
    fn what_goes_cannot_be_told(
        script in vec((vec(0..5_u8, 0..3), vec(0..5_u8, 1..3)), 1..40),
        lags in vec(0..40_usize, 3),
    ) {
        let script = script.iter().enumerate();
        let script: Vec<_> = script.map(|(at, (reads, writes))| entry(at, reads, writes)).collect();
        nobody_can_tell(&script, &lags);
    }

    #[test]
    fn what_goes_cannot_be_told_of_real_texts(
        texts in vec(select(&TEXTS[..]), 1..40),
        lags in vec(0..40_usize, 3),
    ) {
        let script: Vec<_> = texts.into_iter().flat_map(entries).collect();
        nobody_can_tell(&script, &lags);
    }

    /// The number says no less than what has been set: where two logs have the same, a connection
    /// has the same in the cells that matter.
    #[test]
    fn equal_fingerprints_are_equal_states(
        first in vec(select(&TEXTS[..]), 0..12),
        second in vec(select(&TEXTS[..]), 0..12),
        also in vec(select(&TEXTS[..]), 0..3),
    ) {
        let matters = |cell: &Cell| matches!(cell, Cell::System(_) | Cell::CollationConnection);
        // The value of a cell in the model is of the texts alone, not of their places.
        let run = |texts: &[&str]| {
            let (mut log, mut cells) = (Log::default(), BTreeMap::new());
            for entry in texts.iter().flat_map(|text| entries(text)) {
                add(&mut log, [entry.clone()]);
                let read = entry.reads.iter().map(|cell| format!("{:?}", cells.get(cell)));
                let value = format!("{:?} {:?}", entry.payload, read.collect::<Vec<_>>());
                cells.extend(entry.writes.into_iter().map(|cell| (cell, value.clone())));
            }
            cells.retain(|cell, _| matters(cell));
            (log.fingerprint(matters), cells)
        };
        // Much the same, so that they are equal sometimes.
        let second = [&first[..], &second[..also.len().min(second.len())]].concat();
        let (one, its) = run(&first);
        let (other, others) = run(&second);
        prop_assert!(one.is_none() || one != other || its == others, "{first:?} {second:?}");
        prop_assert_eq!(one, run(&first).0);
    }
}

#[test]
fn what_is_set_again_is_kept_once() {
    let mut log = Log::default();
    add(&mut log, (0..10_000).map(|number| entry(number, &[], &[1])));
    assert_eq!((log.snapshot().len(), log.plain), (1, 1));
    // H7: the first is read by the second.
    add(&mut log, [entry(0, &[], &[1]), entry(1, &[1], &[2]), entry(2, &[], &[1])]);
    assert_eq!(log.snapshot().len(), 3);
}

#[test]
fn null_is_of_the_type_that_the_variable_had() {
    let left = |texts: &[&str]| -> Vec<String> {
        let mut log = Log::default();
        for text in texts {
            let entries = entries_of(text, &|cell| log.is_set(cell));
            add(&mut log, entries);
        }
        let text = |entry: &Arc<LogEntry>| String::from_utf8_lossy(&entry.payload).into_owned();
        log.snapshot().iter().map(text).collect()
    };
    let (one, null) = ("SET @a = 1", "SET @a = NULL");
    assert_eq!(left(&[one, null]), [one, null]);
    assert_eq!(left(&[one, null, null, null]), [one, null]);
    assert_eq!(left(&[one, null, one]), [one]);
    let (other, copy) = ("SET @b = 'x'", "SET @a = CONCAT(@b, 'y')");
    assert_eq!(left(&[one, other, copy]), [other, copy]);
    assert_eq!(left(&[one, copy]), [one, copy]);
    // MySQL gives a number a collation too.
    let names = ["SET NAMES latin1", one, "SET NAMES utf8mb4"];
    assert_eq!(left(&names), names);
    // A type is asked for by what is prepared.
    let (prepare, double) = ("PREPARE p FROM 'SELECT @a'", "SET @a = 2.5");
    assert_eq!(left(&[one, prepare, double]), [one, prepare, double]);
    let divides = "PREPARE q FROM 'SELECT 1/3'";
    let precision = ["SET div_precision_increment = 4", "SET div_precision_increment = 8"];
    assert_eq!(left(&[precision[0], divides, precision[1]]), [precision[0], divides, precision[1]]);
    // What is prepared makes the variables that it sets.
    let (makes, other) = ("PREPARE q FROM 'SET @d = 1'", "PREPARE q FROM 'SELECT 1'");
    assert_eq!(left(&[makes, other]), [makes, other]);
    assert_eq!(left(&[makes, makes, makes]), [makes]);
    assert_eq!(left(&[makes, other, "SET @d = 1"]), [other, "SET @d = 1"]);
    let from_variable = "PREPARE p FROM @q";
    let known = ["SET @q = 'SELECT 1'", from_variable].repeat(2);
    assert_eq!(left(&known), known[2..]);
}

#[test]
fn a_statement_goes_when_it_is_closed() {
    let mut log = Log::default();
    let statement =
        |id| Entry { expected: Expected::Statement { id, parameters: 0 }, ..entry(0, &[1], &[]) };
    add(&mut log, [statement(1), statement(2)]);
    log.close(1);
    log.close(7);
    assert_eq!(log.snapshot().len(), 1);
    assert!(log.prepared_bytes > 0 && log.bytes == 0);
    log.close(2);
    assert!(log.is_empty() && log.prepared_bytes == 0);
}

pub(super) fn log_of(texts: &[&str]) -> Log {
    let mut log = Log::default();
    texts.iter().for_each(|text| add(&mut log, entries(text)));
    log
}

fn is_mode(cell: &Cell) -> bool {
    *cell == Cell::SQL_MODE
}

#[test]
fn a_fingerprint_is_of_what_matters_alone() {
    let of = |texts: &[&str]| log_of(texts).fingerprint(is_mode);
    let (plain, ansi) = (of(&[]), of(&["SET sql_mode = 'ANSI'"]));
    assert!(plain.is_some() && ansi.is_some() && plain != ansi);
    // Others may be anywhere.
    assert_eq!(of(&["SET @a = 1", "SET sql_mode = 'ANSI'", "SET NAMES latin1"]), ansi);
    // What is set again is as if it never was something else.
    assert_eq!(of(&["SET sql_mode = ''", "SET sql_mode = 'ANSI'"]), ansi);
    // What it is made of matters too.
    let made = |value| of(&[&format!("SET @a = {value}"), "SET sql_mode = @a"]);
    assert_ne!(made("1"), made("2"));
    assert_eq!(made("1"), made("1"));
}

#[test]
fn nobody_knows_the_state_behind_what_is_not_read() {
    let mut log = log_of(&["SET no_such_variable = 1", "SET sql_mode = ''"]);
    assert_eq!((log.fingerprint(is_mode), log.state()), (None, None));
    log.clear();
    assert!(log.fingerprint(is_mode).is_some() && log.state().is_some());

    // What something else has written is known again once an entry writes it.
    log.lose(&[Cell::SQL_MODE]);
    assert!(log.fingerprint(is_mode).is_none());
    add(&mut log, entries("SET sql_mode = CONCAT(@@sql_mode, ',ANSI')"));
    assert!(log.fingerprint(is_mode).is_none());
    add(&mut log, entries("SET sql_mode = ''"));
    assert!(log.fingerprint(is_mode).is_some());

    // Nor what was made of it while it was not known.
    log.lose(&[Cell::User("a".into())]);
    add(&mut log, entries("SET sql_mode = @a"));
    add(&mut log, entries("SET @a = 1"));
    assert!(log.fingerprint(is_mode).is_none());
    add(&mut log, entries("SET sql_mode = ''"));
    assert!(log.fingerprint(is_mode).is_some());

    assert!(log.forget_oldest());
    assert!(log.fingerprint(is_mode).is_none() && log.state().is_none());
}

#[test]
fn the_state_is_of_the_schema_and_all_plain_entries_in_order() {
    let state = |texts: &[&str]| log_of(texts).state();
    assert_ne!(state(&["SET @a = 1"]), state(&[]));
    assert_ne!(state(&["SET @a = 1", "SET @b = 1"]), state(&["SET @b = 1", "SET @a = 1"]));
    assert_eq!(state(&["SET @a = 1", "SET @a = 2"]), state(&["SET @a = 2"]));
    let mut log = log_of(&["SET @a = 1"]);
    let before = log.state();
    log.begin_in(Some(&Bytes::from_static(b"d")));
    assert_ne!(log.state(), before);
    let before = log.state();
    add(&mut log, [prepared(1, "SELECT 1")]);
    assert_eq!(log.state(), before);
}

fn prepared(id: u32, text: &'static str) -> Entry {
    let expected = Expected::Statement { id, parameters: 0 };
    let text = Bytes::from_static(text.as_bytes());
    Entry { expected, ..Entry::new(CommandCode::STMT_PREPARE, text, Class::Environment) }
}

#[test]
fn equal_statements_of_equal_sessions_have_equal_contexts() {
    let context = |texts: &[&str], text| {
        let mut log = log_of(texts);
        add(&mut log, [prepared(7, text)]);
        let entries = log.snapshot();
        entries.last().expect("it is there").context
    };
    let first = context(&[], "SELECT 1");
    assert!(first.is_some());
    assert_eq!(context(&["SET autocommit = 0", "SET @a = 1"], "SELECT 1"), first);
    assert_ne!(context(&[], "SELECT 2"), first);
    assert_ne!(context(&["SET sql_mode = 'ANSI'"], "SELECT 1"), first);
    assert_ne!(context(&["USE d"], "SELECT 1"), first);
    assert_ne!(context(&["SET @a = 1"], "SELECT @a"), context(&["SET @a = 'x'"], "SELECT @a"));
    assert_eq!(context(&["SET no_such_variable = 1"], "SELECT 1"), None);
}
