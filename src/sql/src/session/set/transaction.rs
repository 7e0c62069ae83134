//! `SET [SESSION | LOCAL | GLOBAL] TRANSACTION`.

use super::scope_word;
use crate::{
    cursor::Cursor,
    lexer::Kind,
    session::{Assignment, Cell, Class, Scope, Target, Unreadable, Value, ValueKind},
};

/// The whole of it, if it is one. Without a scope it is for the next transaction.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Assignment>, Unreadable> {
    let mut ahead = cursor.clone();
    let Some(first) = ahead.ahead() else { return Ok(None) };
    let scope = scope_word(ahead.word_ahead());
    if scope.is_some() {
        ahead.next();
    }
    if !ahead.sees("transaction") || super::is_assignment(&ahead) {
        return Ok(None);
    }
    ahead.next();
    *cursor = ahead;
    let scope = scope.unwrap_or(Scope::Bare);
    let (start, mut end, mut cells) = (cursor.ahead(), first.end, Vec::new());
    loop {
        cells.push(characteristic(cursor, &mut end).ok_or(Unreadable::Grammar)?);
        if !cursor.accept_kind(Kind::Comma) {
            break;
        }
    }
    let span = start.map_or(end, |token| token.start)..end;
    let value = Value::word(ValueKind::Literal, span);
    let (class, writes) = match scope {
        Scope::Session => (Class::Const, cells),
        Scope::Bare => (Class::OneShot, vec![Cell::NextTransaction]),
        Scope::Server => (Class::NotSession, Vec::new()),
    };
    let target = Target::Transaction(scope);
    let span = first.start..end;
    Ok(Some(Assignment { span, target, value, class, reads: Vec::new(), writes }))
}

/// `ISOLATION LEVEL ...`, `READ ONLY`, `READ WRITE`: its cell. `end` becomes where it ends.
fn characteristic(cursor: &mut Cursor<'_>, end: &mut usize) -> Option<Cell> {
    let cell = if cursor.accept("isolation") {
        cursor.accept("level").then_some(())?;
        let level = cursor.word_ahead().to_ascii_lowercase();
        let second: &[&str] = match level.as_slice() {
            b"serializable" => &[],
            b"repeatable" => &["read"],
            b"read" => &["committed", "uncommitted"],
            _ => return None,
        };
        *end = cursor.next()?.end;
        if second.is_empty() {
            return Some(Cell::ISOLATION);
        }
        second.iter().any(|word| cursor.sees(word)).then_some(Cell::ISOLATION)?
    } else {
        cursor.accept("read").then_some(())?;
        (cursor.sees("only") || cursor.sees("write")).then_some(Cell::ACCESS)?
    };
    *end = cursor.next()?.end;
    Some(cell)
}
