//! Statements that are prepared as text.
//!
//! MySQL manual, "PREPARE Statement", "EXECUTE Statement", "DEALLOCATE PREPARE Statement"; MariaDB
//! manual, "PREPARE Statement", "EXECUTE IMMEDIATE".

use super::{
    Action, Cell, Class, Step, Unreadable, ValueKind, is_name, next, prepared_with, value,
};
use crate::{
    Dialect, Server, Span, Vendor,
    cursor::Cursor,
    lexer::{Kind, Token},
};

/// What `PREPARE name FROM` takes its text from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One string, with its quotes.
    Literal(Span),
    /// A user variable: the text that it holds now.
    Variable(Span),
    /// MariaDB's: an expression.
    Expression(Span),
}

/// Behind PREPARE: `name FROM text`.
pub(super) fn prepare(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Step, Unreadable> {
    let token = name(cursor)?;
    let cell = Cell::prepared(cursor.of(token))?;
    if !cursor.accept("from") {
        return Err(Unreadable::Grammar);
    }
    let text = cursor.ahead().ok_or(Unreadable::Grammar)?;
    let mut behind = cursor.clone();
    behind.next();
    let literal = Some(cursor.of(text)).filter(|_| text.kind == Kind::String && behind.at_end());
    let mut reads = prepared_with(literal, dialect).into_owned();
    let mut class = Class::Environment;
    let source = match text.kind {
        Kind::String if behind.at_end() => {
            *cursor = behind;
            Source::Literal(text.span())
        }
        Kind::UserVariable if behind.at_end() => {
            reads.push(Cell::user(cursor.of(text))?);
            *cursor = behind;
            Source::Variable(text.span())
        }
        _ if is_mysql(dialect) => return Err(Unreadable::Grammar),
        _ => {
            let value = value::read(cursor, false, &mut reads)?;
            if value.kind.is_evaluated_once() {
                class = Class::EvaluatedOnce;
            } else if value.kind == ValueKind::Default {
                return Err(Unreadable::Grammar);
            }
            Source::Expression(value.span)
        }
    };
    let action = Action::Prepare { name: token.span(), source };
    Ok(Step { class, action, reads, writes: vec![cell], ..Step::default() })
}

/// Behind EXECUTE: `name [USING ...]`. It writes what the statement writes.
pub(super) fn execute(cursor: &mut Cursor<'_>) -> Result<Step, Unreadable> {
    if cursor.sees("immediate") {
        return Err(Unreadable::Immediate);
    }
    let token = name(cursor)?;
    let mut reads = vec![Cell::prepared(cursor.of(token))?, Cell::Anything];
    if cursor.accept("using") {
        while let Some(token) = next(cursor) {
            match token.kind {
                Kind::UserVariable => reads.push(Cell::user(cursor.of(token))?),
                Kind::Operator if cursor.of(token) == b":=" => return Err(Unreadable::Nested),
                _ => {}
            }
        }
    } else if !cursor.at_end() {
        return Err(Unreadable::Grammar);
    }
    let action = Action::Execute { name: token.span() };
    Ok(Step {
        class: Class::Unknown,
        action,
        reads,
        writes: vec![Cell::Anything],
        ..Step::default()
    })
}

/// Behind DEALLOCATE or DROP: `PREPARE name`.
pub(super) fn deallocate(cursor: &mut Cursor<'_>) -> Result<Step, Unreadable> {
    if !cursor.accept("prepare") {
        return Err(Unreadable::Grammar);
    }
    let token = name(cursor)?;
    let writes = vec![Cell::prepared(cursor.of(token))?];
    let action = Action::Deallocate { name: token.span() };
    Ok(Step { class: Class::Environment, action, writes, ..Step::default() })
}

fn name(cursor: &mut Cursor<'_>) -> Result<Token, Unreadable> {
    let token = cursor.next_here().filter(|token| is_name(*token));
    token.ok_or(Unreadable::Grammar)
}

/// Whether the server is surely MySQL's.
pub(super) fn is_mysql(dialect: Dialect) -> bool {
    matches!(dialect.server, Some(Server { vendor: Vendor::MySql, .. }))
}

/// Whether the server is surely MariaDB's.
pub(super) fn is_mariadb(dialect: Dialect) -> bool {
    matches!(dialect.server, Some(Server { vendor: Vendor::MariaDb, .. }))
}
