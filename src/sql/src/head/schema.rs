//! Statements about schemas and what is in them.

use super::Head;
use crate::{
    Class, Verb,
    cursor::Cursor,
    lexer::{Kind, Token},
    scan::Mode,
};

/// Behind `USE`.
pub(super) fn use_schema(cursor: &mut Cursor<'_>) -> Head {
    let schema = cursor.next_here().and_then(|token| match token.kind {
        Kind::Word => Some(token.span()),
        // One that was left open has no end.
        Kind::QuotedName if !cursor.is_doubtful() => Some(token.start + 1..token.end - 1),
        _ => None,
    });
    Head { schema, ..Head::new(Class::Use) }
}

/// Behind `CREATE`, `ALTER` or `DROP`.
pub(super) fn define(verb: Verb, cursor: &mut Cursor<'_>) -> Head {
    if verb == Verb::Drop && cursor.sees("prepare") {
        return Head::new(Class::Deallocate);
    }
    let mut head = Head::committing(Class::Ddl);
    // The kind of object stands behind a few words: OR REPLACE, DEFINER = name@host, ...
    for _ in 0..16 {
        let Some(token) = cursor.next_here() else { break };
        match object(cursor, token) {
            Some(Object::Temporary) => head.implicit_commit = false,
            Some(Object::Program) => {
                head.mode = Mode::Program { open: 0 };
                break;
            }
            Some(Object::Other) => break,
            None => {}
        }
    }
    head
}

enum Object {
    /// A table of the session: no commit.
    Temporary,
    /// Holds statements.
    Program,
    Other,
}

fn object(cursor: &Cursor<'_>, token: Token) -> Option<Object> {
    let is = |words: &[&str]| {
        token.kind == Kind::Word
            && words.iter().any(|word| cursor.of(token).eq_ignore_ascii_case(word.as_bytes()))
    };
    if is(&["temporary"]) {
        Some(Object::Temporary)
    } else if is(&["procedure", "function", "trigger", "event", "package"]) {
        Some(Object::Program)
    } else if is(&["table", "view", "index", "database", "schema", "user", "role"]) {
        Some(Object::Other)
    } else {
        None
    }
}
