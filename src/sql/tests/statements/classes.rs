//! The class of every statement in `classes.txt`.

use crate::spell::{bytes, dialect, spelled};
use sql::{Class, Verb, peek, statement};

#[test]
fn every_statement_has_its_class() {
    let (mut count, mut wrong) = (0, String::new());
    for (number, expected, settings, line) in rows() {
        let text = bytes(line);
        let found = spelled(&statement(&text, dialect(settings)), &text);
        count += 1;
        if found != expected {
            wrong += &format!("line {number}: {line}\n  is [{found}], not [{expected}]\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 250, "only {count} statements");
}

#[test]
fn nothing_but_reads_may_go_to_any_server() {
    for (number, _, settings, line) in rows() {
        let found = statement(&bytes(line), dialect(settings));
        let harmless = matches!(found.class, Class::Read | Class::Show | Class::Explain);
        assert_eq!(found.any_server(), harmless && found.needs.is_none(), "line {number}: {line}");
        assert!(!(harmless && found.multi), "line {number}: {line}");
    }
}

#[test]
fn peek_sees_the_same_verb_unless_it_must_look_further() {
    for (number, _, settings, line) in rows().filter(|row| row.2.is_empty()) {
        let text = bytes(line);
        let (peeked, found) = (peek(&text), statement(&text, dialect(settings)));
        let looked_through =
            peeked == Verb::With || line.to_lowercase().starts_with("set statement");
        assert!(looked_through || peeked == found.verb, "line {number}: {line}: {peeked:?}");
    }
}

#[test]
fn the_verb_is_the_one_that_decides() {
    for (text, verb) in [
        ("WITH x AS (SELECT 1) DELETE FROM t", Verb::Delete),
        ("WITH x AS (SELECT 1), y AS (TABLE x) (TABLE y)", Verb::Table),
        ("EXPLAIN ANALYZE WITH x AS (SELECT 1) DELETE FROM t", Verb::Explain),
        ("DESC t", Verb::Describe),
        ("DROP PREPARE s", Verb::Drop),
        ("SET STATEMENT a = 1 FOR UPDATE t SET b = 1", Verb::Update),
        ("SET STATEMENT a = 1 FOR WITH x AS (SELECT 1) SELECT 1", Verb::Select),
        ("/*!99999 SELECT */ DELETE FROM t", Verb::Select),
    ] {
        assert_eq!(statement(text.as_bytes(), dialect("")).verb, verb, "{text}");
    }
    let skipped = statement(b"/*!99999 SELECT */ DELETE FROM t", dialect("mysql 8.4.3"));
    assert_eq!(skipped.verb, Verb::Delete);
}

/// Line number, heading, dialect, statement.
pub(crate) fn rows() -> impl Iterator<Item = (usize, &'static str, &'static str, &'static str)> {
    let (mut expected, mut settings) = ("", "");
    include_str!("classes.txt").lines().enumerate().filter_map(move |(number, line)| {
        if let Some(heading) = line.strip_prefix('[') {
            let (class, rest) = heading.split_once(']').expect("a heading ends in ]");
            (expected, settings) = (class, rest.strip_prefix(" -- ").unwrap_or_default());
            return None;
        }
        let skipped = line.is_empty() || (number < 2 && line.starts_with('#'));
        (!skipped).then_some((number + 1, expected, settings, line))
    })
}
