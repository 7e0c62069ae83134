//! Whom a `SET` concerns: the session, the server, or one statement.
//!
//! MySQL manual, "SET Syntax for Variable Assignment", "SET PASSWORD Statement"; MariaDB manual,
//! "SET", "SET STATEMENT". Which variables are set to what is not read here.

use super::{Head, first_word, of};
use crate::{
    Class, Verb,
    cursor::Cursor,
    lexer::{Kind, Token},
    scan::Mode,
};

/// Behind `SET`.
pub(super) fn set(cursor: &mut Cursor<'_>) -> Head {
    if cursor.sees("statement") && !is_assignment(cursor) {
        return for_one_statement(cursor);
    }
    // SET PASSWORD, SET DEFAULT ROLE: no variables, in spite of `SET PASSWORD = ...`.
    if cursor.sees("password") || cursor.sees("default") {
        return Head::committing(Class::Admin);
    }
    let mut head = Head { mode: Mode::Set, ..Head::new(Class::SetSession) };
    loop {
        if is_global(cursor) {
            head.class = Class::Admin;
        } else {
            cursor.accept_any(&["session", "local"]);
            head.implicit_commit |= turns_autocommit_on(cursor);
        }
        match skip_assignment(cursor) {
            Rest::Another => {}
            Rest::End => return head,
            // `SET @a = (@b := 1)`: more is set than it looks.
            Rest::Hidden => return Head { mode: Mode::Plain, ..head },
        }
    }
}

/// `SET STATEMENT name = value, ... FOR statement`.
fn for_one_statement(cursor: &mut Cursor<'_>) -> Head {
    while !cursor.accept("for") {
        if cursor.next_here().is_none() {
            return Head::default();
        }
    }
    let Some(word) = first_word(cursor) else { return Head::default() };
    match Verb::of(cursor.of(word)) {
        // MariaDB lets them nest without end; nobody does.
        Verb::Set => Head::default(),
        verb => {
            let head = of(verb, cursor);
            let verb = if head.verb == Verb::Unknown { verb } else { head.verb };
            Head { verb, ..head }
        }
    }
}

/// `SET name = ...`, where `name` is the word ahead.
fn is_assignment(cursor: &Cursor<'_>) -> bool {
    let mut cursor = cursor.clone();
    cursor.next();
    cursor.ahead().is_some_and(|token| is_equals(&cursor, token))
}

fn is_equals(cursor: &Cursor<'_>, token: Token) -> bool {
    token.kind == Kind::Operator && matches!(cursor.of(token), b"=" | b":=")
}

/// `GLOBAL name`, `PERSIST name`, `@@global.name`.
fn is_global(cursor: &Cursor<'_>) -> bool {
    let Some(token) = cursor.ahead() else { return false };
    let text = cursor.of(token);
    let scope = match token.kind {
        Kind::Word if !is_assignment(cursor) => text,
        Kind::SystemVariable => text[2..].split(|&byte| byte == b'.').next().unwrap_or_default(),
        _ => return false,
    };
    ["global", "persist", "persist_only"]
        .iter()
        .any(|word| scope.eq_ignore_ascii_case(word.as_bytes()))
}

/// `autocommit = value`, except for a value that surely turns it off.
fn turns_autocommit_on(cursor: &Cursor<'_>) -> bool {
    let mut cursor = cursor.clone();
    let Some(token) = cursor.next_here() else { return false };
    let name = cursor.of(token);
    let name = name.strip_suffix(b"`").unwrap_or(name);
    let name = name.rsplit(|byte| matches!(byte, b'.' | b'@' | b'`')).next().unwrap_or_default();
    if !name.eq_ignore_ascii_case(b"autocommit") {
        return false;
    }
    cursor.next_here();
    let value = cursor.next_here().map(|token| cursor.of(token)).unwrap_or_default();
    let off = [&b"0"[..], b"off", b"false", b"'off'", b"\"off\""];
    !off.iter().any(|off| value.eq_ignore_ascii_case(off))
}

enum Rest {
    Another,
    End,
    Hidden,
}

/// Moves behind the comma that ends the assignment ahead.
fn skip_assignment(cursor: &mut Cursor<'_>) -> Rest {
    let (mut depth, mut assigned) = (0_usize, false);
    while let Some(token) = cursor.next_here() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Comma if depth == 0 => return Rest::Another,
            Kind::Operator if is_equals(cursor, token) => {
                if assigned && cursor.of(token) == b":=" {
                    return Rest::Hidden;
                }
                assigned = true;
            }
            _ => {}
        }
    }
    Rest::End
}
