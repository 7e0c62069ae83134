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
    assert!(count >= 500, "only {count} statements");
}

/// What a client may put around a statement changes nothing: no write becomes a read, and no read a
/// write.
#[test]
fn what_stands_around_a_statement_does_not_hide_it() {
    let mut count = 0;
    for (number, _, _, line) in rows().filter(|row| row.2.is_empty()) {
        // Those that end, or are commented, within the line would not be all in what is around them.
        if [";", "--", "#", "/*"].iter().any(|part| line.contains(part)) {
            continue;
        }
        let text = bytes(line);
        let around =
            |before: &str, behind: &str| [before.as_bytes(), &text, behind.as_bytes()].concat();
        let mut variants = vec![
            around("/* hostgroup=1 */ ", ""),
            around("/*+ NO_ICP(t) */ -- c\n# c\n", " -- FOR UPDATE"),
            around("/*!40000 ", "*/"),
            around("/*! ", " */"),
            text.to_ascii_uppercase(),
            text.to_ascii_lowercase(),
        ];
        let selects = matches!(peek(&text), Verb::Select | Verb::Table);
        if selects {
            variants.push(around("(", ")"));
            variants.push(around("( /*+ a */ (", "))"));
        }
        if selects || matches!(peek(&text), Verb::Delete | Verb::Update) {
            variants.push(around("WITH zz AS (SELECT 1) ", ""));
            variants.push(around("with recursive zz(a) as (select 1), yy as (table zz) ", ""));
        }
        let plain = statement(&text, dialect("")).any_server();
        count += variants.len();
        for text in variants {
            let found = statement(&text, dialect("")).any_server();
            assert_eq!(found, plain, "line {number}: {}", String::from_utf8_lossy(&text));
        }
    }
    assert!(count >= 2000, "only {count} variants");
}

#[test]
fn the_first_of_several_is_known() {
    let begin = |read_only| Class::Begin { read_only, consistent_snapshot: false };
    let commit = Class::Commit { chain: None, release: None };
    for (text, first) in [
        ("BEGIN; DELETE FROM t", begin(None)),
        ("START TRANSACTION READ WRITE; DELETE FROM t", begin(Some(false))),
        ("COMMIT; DELETE FROM t", commit),
        ("COMMIT", commit),
        ("SELECT 1; DELETE FROM t", Class::Read),
        ("SELECT 1; SELECT f(1)", Class::Write),
        ("SELECT f(1)", Class::Write),
        ("nonsense; SELECT 1", Class::Unknown),
    ] {
        assert_eq!(statement(text.as_bytes(), dialect("")).first, first, "{text}");
    }
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
