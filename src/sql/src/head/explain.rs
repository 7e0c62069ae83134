//! Statements about the server or about other statements.
//!
//! MySQL manual, "EXPLAIN Statement", "SHOW Statements"; MariaDB manual, "ANALYZE Statement".

use super::{Head, with};
use crate::{Class, Needs, Verb, cursor::Cursor, lexer::Kind, scan::Mode};

/// Behind `SHOW`.
pub(super) fn show(cursor: &mut Cursor<'_>) -> Head {
    // COUNT(*) is of warnings or errors.
    let last_used = cursor.accept_any(&["warnings", "errors", "count", "profile", "profiles"]);
    // The log that is written, who reads it, and what runs at one server.
    let primary = cursor
        .accept_any(&["master", "binary", "binlog", "replicas", "explain", "analyze"])
        || (cursor.accept("slave") && cursor.sees("hosts"));
    let needs = Needs { last_used, primary, ..Needs::default() };
    Head { needs, mode: Mode::Show, ..Head::new(Class::Show) }
}

/// Behind `EXPLAIN`, `DESCRIBE` or `DESC`: a table, or a statement behind options.
pub(super) fn explain(cursor: &mut Cursor<'_>) -> Head {
    let mut head = Head::new(Class::Explain);
    loop {
        if cursor.accept("analyze") {
            head.runs = true;
        } else if cursor.accept("format") {
            cursor.next_here(); // =
            cursor.next_here();
        } else if cursor.accept("into") {
            return Head { class: Class::Write, ..head }; // sets a user variable
        } else if cursor.sees("for") {
            // FOR CONNECTION looks at one server; FOR SCHEMA has a statement behind it.
            cursor.next();
            if cursor.accept("connection") {
                head.needs.primary = true;
                return head;
            }
            cursor.next_here();
            cursor.next_here();
        } else if !cursor.accept_any(&["extended", "partitions"]) {
            break;
        }
    }
    explained(head, cursor)
}

/// Behind `ANALYZE`: tables, or MariaDB's `EXPLAIN ANALYZE`.
pub(super) fn analyze(cursor: &mut Cursor<'_>) -> Head {
    if ["table", "tables", "local", "no_write_to_binlog"].iter().any(|word| cursor.sees(word)) {
        return Head::committing(Class::Admin);
    }
    if cursor.accept("format") {
        cursor.next_here(); // =
        cursor.next_here();
    }
    explained(Head { runs: true, ..Head::new(Class::Explain) }, cursor)
}

/// `cursor` is at what is explained.
fn explained(head: Head, cursor: &mut Cursor<'_>) -> Head {
    while cursor.accept_kind(Kind::Open) {}
    let verb = match Verb::of(cursor.word_ahead()) {
        Verb::With => {
            cursor.next();
            with(cursor).verb
        }
        verb => verb,
    };
    match verb {
        Verb::Select | Verb::Table | Verb::Values => head,
        Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace if !head.runs => {
            // A server that is read-only refuses to explain a write.
            let needs = Needs { primary: true, ..head.needs };
            Head { needs, ..head }
        }
        _ if head.runs => Head { class: Class::Write, ..head },
        // A table's name.
        _ => Head { mode: Mode::Show, ..head },
    }
}
