//! Where transactions begin and end.
//!
//! MySQL manual, "START TRANSACTION, COMMIT, and ROLLBACK Statements"; MariaDB manual, "START
//! TRANSACTION", "BEGIN NOT ATOMIC".

use super::{Head, two};
use crate::{Class, Verb, cursor::Cursor, scan::Mode};

/// Behind `BEGIN`: a transaction, or MariaDB's block of statements.
pub(super) fn begin(cursor: &mut Cursor<'_>) -> Head {
    cursor.accept("work");
    if cursor.at_end() {
        return Head::committing(Class::Begin { read_only: None, consistent_snapshot: false });
    }
    Head { mode: Mode::Program { open: 1 }, ..Head::new(Class::Write) }
}

/// Behind `START`: a transaction, or replication.
pub(super) fn start(cursor: &mut Cursor<'_>) -> Head {
    if !cursor.accept("transaction") {
        return Head::committing(Class::Admin);
    }
    let (mut read_only, mut consistent_snapshot) = (None, false);
    while let Some(token) = cursor.next_here() {
        if two(cursor, token, "read", "only") {
            read_only = Some(true);
        } else if two(cursor, token, "read", "write") {
            read_only = Some(false);
        } else if cursor.of(token).eq_ignore_ascii_case(b"snapshot") {
            consistent_snapshot = true;
        }
    }
    Head::committing(Class::Begin { read_only, consistent_snapshot })
}

/// Behind `COMMIT` or `ROLLBACK`: `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]`, or
/// `[WORK] TO [SAVEPOINT] name`.
pub(super) fn end(verb: Verb, cursor: &mut Cursor<'_>) -> Head {
    cursor.accept("work");
    if verb == Verb::Rollback && cursor.sees("to") {
        return Head::new(Class::Savepoint);
    }
    let chain = if cursor.accept("and") { option(cursor, "chain") } else { None };
    let release = option(cursor, "release");
    Head::new(match verb {
        Verb::Commit => Class::Commit { chain, release },
        _ => Class::Rollback { chain, release },
    })
}

/// `word` or `NO word`.
fn option(cursor: &mut Cursor<'_>, word: &str) -> Option<bool> {
    let no = cursor.accept("no");
    cursor.accept(word).then_some(!no)
}
