//! Reading a SET, part by part.
//!
//! MySQL manual, "SET Syntax for Variable Assignment", "SET CHARACTER SET", "SET NAMES", "SET
//! TRANSACTION", "SET ROLE", "SET RESOURCE GROUP"; MariaDB manual, "SET", "SET TRANSACTION", "SET
//! ROLE". MariaDB takes ROLE, DEFAULT ROLE and PASSWORD as parts among others, MySQL alone only.

mod names;
mod transaction;

use super::{
    Action, Assignment, Cell, Class, Scope, Step, Target, Unreadable, Value, ValueKind, Variable,
    bytes,
    cell::bare,
    is_name,
    prepared::{is_mariadb, is_mysql},
    value, variable, variables,
};
use crate::{
    Dialect, Span,
    cursor::Cursor,
    lexer::{Kind, Token},
};

/// Behind SET, if it is not for one statement.
pub(super) fn read(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Step, Unreadable> {
    let assignments = match transaction::read(cursor)? {
        Some(transaction) => vec![transaction],
        None if cursor.sees("resource") && !is_assignment(cursor) => {
            vec![resource_group(cursor)?]
        }
        None => list(cursor, dialect)?,
    };
    let own = || assignments.iter().filter(|part| part.class != Class::NotSession);
    Ok(Step {
        class: own().map(|part| part.class).max().unwrap_or_default(),
        reads: own().flat_map(|part| part.reads.iter().cloned()).collect(),
        writes: own().flat_map(|part| part.writes.iter().cloned()).collect(),
        action: Action::Set(assignments),
        ..Step::default()
    })
}

/// Whether a name and a sign of assignment are ahead.
pub(super) fn is_assignment(cursor: &Cursor<'_>) -> bool {
    let mut cursor = cursor.clone();
    cursor.next();
    is_equals_ahead(&cursor)
}

fn is_equals_ahead(cursor: &Cursor<'_>) -> bool {
    let is_sign =
        |token: Token| token.kind == Kind::Operator && matches!(cursor.of(token), b"=" | b":=");
    cursor.ahead().is_some_and(is_sign)
}

fn list(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Vec<Assignment>, Unreadable> {
    let (mut parts, mut scope) = (Vec::new(), Scope::Session);
    loop {
        parts.push(part(cursor, dialect, &mut scope)?);
        if !cursor.accept_kind(Kind::Comma) {
            return Ok(parts);
        }
    }
}

fn part(
    cursor: &mut Cursor<'_>,
    dialect: Dialect,
    scope: &mut Scope,
) -> Result<Assignment, Unreadable> {
    if cursor.sees("password") {
        return foreign(cursor, dialect, Target::Password);
    }
    if !is_assignment(cursor) {
        match cursor.word_ahead().to_ascii_lowercase().as_slice() {
            b"names" => return names::names(cursor, dialect),
            b"character" | b"char" | b"charset" => return names::character_set(cursor),
            b"role" => return role(cursor, dialect),
            b"default" => {
                let mut behind = cursor.clone();
                behind.next();
                if behind.sees("role") {
                    return foreign(cursor, dialect, Target::DefaultRole);
                }
            }
            _ => {}
        }
    }
    variable_part(cursor, scope)
}

fn variable_part(cursor: &mut Cursor<'_>, scope: &mut Scope) -> Result<Assignment, Unreadable> {
    let start = cursor.ahead().ok_or(Unreadable::Grammar)?.start;
    let (target, cells) = target(cursor, scope)?;
    if !is_equals_ahead(cursor) {
        return Err(Unreadable::Grammar);
    }
    cursor.next();
    let mut reads = Vec::new();
    let words = matches!(target, Target::System { .. });
    let value = value::read(cursor, words, &mut reads)?;
    let kept = !words || !matches!(value.kind, ValueKind::Default | ValueKind::Literal);
    value::text_reads(bytes(cursor, &value.span), kept, &mut reads);
    let (class, writes) = class(&target, cells, value.kind, &mut reads);
    let span = start..value.span.end;
    Ok(Assignment { span, target, value, class, reads, writes })
}

/// What is assigned to, and the cells of it.
fn target(cursor: &mut Cursor<'_>, current: &mut Scope) -> Result<(Target, Vec<Cell>), Unreadable> {
    let token = cursor.next_here().ok_or(Unreadable::Grammar)?;
    match token.kind {
        Kind::UserVariable => {
            Ok((Target::User { name: token.span() }, vec![Cell::user(cursor.of(token))?]))
        }
        Kind::SystemVariable => {
            let name = token.start + 2..token.end;
            let text = &cursor.of(token)[2..];
            let (scope, skipped) = match text.iter().position(|&byte| byte == b'.') {
                Some(dot) => match scope_word(&text[..dot]) {
                    Some(scope) => (scope, dot + 1),
                    None => (Scope::Bare, 0),
                },
                None => (Scope::Bare, 0),
            };
            system(cursor, scope, name.start + skipped..name.end, &text[skipped..])
        }
        Kind::Word | Kind::QuotedName => {
            let mut token = token;
            if token.kind == Kind::Word
                && let Some(word) = scope_word(cursor.of(token))
                && !is_equals_ahead(cursor)
            {
                *current = word;
                let name = cursor.next_here();
                token = name.filter(|token| is_name(*token)).ok_or(Unreadable::Grammar)?;
            }
            let (mut name, mut text) = (token.span(), cursor.of(token).to_vec());
            while cursor.accept_kind(Kind::Dot) {
                let part = cursor.next_here().filter(|token| is_name(*token));
                let part = part.ok_or(Unreadable::Grammar)?;
                text = [&text, b".".as_slice(), cursor.of(part)].concat();
                name.end = part.end;
            }
            system(cursor, *current, name, &text)
        }
        _ => Err(Unreadable::Grammar),
    }
}

/// A system variable, from its name as it is written without a scope.
fn system(
    cursor: &Cursor<'_>,
    scope: Scope,
    name: Span,
    text: &[u8],
) -> Result<(Target, Vec<Cell>), Unreadable> {
    // The name goes on behind a blank.
    if cursor.ahead().is_some_and(|token| token.kind == Kind::Dot) {
        return Err(Unreadable::Grammar);
    }
    let parts: Result<Vec<_>, _> = text.split(|&byte| byte == b'.').map(system_name).collect();
    let text = parts?.join(".");
    let variable = variable(text.as_bytes());
    Ok((Target::System { scope, name, variable }, variables::written(&text)))
}

fn system_name(part: &[u8]) -> Result<String, Unreadable> {
    let part = bare(part);
    let plain = !part.is_empty() && part.iter().all(|&byte| byte.is_ascii() && byte != b'`');
    let part = Some(part).filter(|_| plain).ok_or(Unreadable::Name)?;
    Ok(String::from_utf8_lossy(part).to_ascii_lowercase())
}

fn scope_word(word: &[u8]) -> Option<Scope> {
    let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    if is(&["session", "local"]) {
        Some(Scope::Session)
    } else {
        is(&["global", "persist", "persist_only"]).then_some(Scope::Server)
    }
}

/// How an assignment may be treated, and the cells that it writes.
fn class(
    target: &Target,
    cells: Vec<Cell>,
    value: ValueKind,
    reads: &mut Vec<Cell>,
) -> (Class, Vec<Cell>) {
    let of_value = match value {
        ValueKind::Literal => Class::Const,
        _ if value.is_evaluated_once() => Class::EvaluatedOnce,
        _ => Class::Environment,
    };
    let Target::System { scope, variable, .. } = target else { return (of_value, cells) };
    match (scope, variable) {
        (Scope::Server, _) => (Class::NotSession, Vec::new()),
        (Scope::Bare, Variable::Transaction) => (Class::OneShot, vec![Cell::NextTransaction]),
        (_, Variable::Everywhere | Variable::Transaction) => {
            reads.extend(cells.iter().filter(|cell| variables::is_partial(cell)).cloned());
            (of_value, cells)
        }
        (_, Variable::NextStatement | Variable::Connection | Variable::LastInsertId) => {
            (Class::OneShot, cells)
        }
        (_, Variable::Unknown) => {
            reads.push(Cell::Anything);
            let cells = cells.into_iter().chain([Cell::Anything]).collect();
            (of_value.max(Class::Unknown), cells)
        }
    }
}

/// `ROLE name`; MySQL has more of them behind commas.
fn role(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Assignment, Unreadable> {
    let value = keyword_value(cursor, dialect, 1)?;
    Ok(Assignment {
        class: Class::Environment,
        reads: Vec::new(),
        writes: vec![Cell::Role],
        ..bound(Target::Role, value)
    })
}

/// `RESOURCE GROUP name [FOR thread, ...]`.
fn resource_group(cursor: &mut Cursor<'_>) -> Result<Assignment, Unreadable> {
    let start = cursor.next_here().ok_or(Unreadable::Grammar)?.start;
    if !cursor.accept("group") {
        return Err(Unreadable::Grammar);
    }
    let name = cursor.next_here().filter(|token| is_name(*token)).ok_or(Unreadable::Grammar)?;
    let own = cursor.at_end();
    if !own && !cursor.accept("for") {
        return Err(Unreadable::Grammar);
    }
    while !cursor.at_end() {
        cursor.next();
    }
    let value = Value::word(ValueKind::Literal, name.span());
    let (class, writes) = if own {
        (Class::Environment, vec![Cell::ResourceGroup])
    } else {
        (Class::NotSession, Vec::new())
    };
    let span = start..name.end;
    let target = Target::ResourceGroup;
    Ok(Assignment { span, target, value, class, reads: Vec::new(), writes })
}

/// What is the account's.
fn foreign(
    cursor: &mut Cursor<'_>,
    dialect: Dialect,
    target: Target,
) -> Result<Assignment, Unreadable> {
    let keywords = if target == Target::DefaultRole { 2 } else { 1 };
    let value = keyword_value(cursor, dialect, keywords)?;
    Ok(bound(target, value))
}

fn bound(target: Target, (start, value): (usize, Value)) -> Assignment {
    let span = start..value.span.end;
    let class = Class::NotSession;
    Assignment { span, target, value, class, reads: Vec::new(), writes: Vec::new() }
}

/// Where the keywords ahead begin, and what stands behind them: to the end for MySQL, to the next
/// comma for MariaDB.
fn keyword_value(
    cursor: &mut Cursor<'_>,
    dialect: Dialect,
    keywords: usize,
) -> Result<(usize, Value), Unreadable> {
    let start = cursor.ahead().ok_or(Unreadable::Grammar)?.start;
    for _ in 0..keywords {
        cursor.next();
    }
    let first = cursor.ahead().filter(|_| !cursor.at_end()).ok_or(Unreadable::Grammar)?;
    let (mut end, mut depth) = (first.start, 0_usize);
    while let Some(token) = cursor.ahead().filter(|token| token.kind != Kind::Semicolon) {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.checked_sub(1).ok_or(Unreadable::Grammar)?,
            Kind::Comma if depth == 0 && is_mariadb(dialect) => break,
            Kind::Comma if !is_mysql(dialect) => return Err(Unreadable::Grammar),
            Kind::Operator if cursor.of(token) == b":=" => return Err(Unreadable::Grammar),
            _ => {}
        }
        end = token.end;
        cursor.next();
    }
    if end == first.start {
        return Err(Unreadable::Grammar);
    }
    Ok((start, Value::word(ValueKind::Literal, first.start..end)))
}
