//! From a text to its statements.

use super::{
    Action, Cell, Class, Effect, Held, Hold, Step, Unreadable, held, is_name, prepared, set, work,
};
use crate::{
    Dialect, Span, Verb,
    cursor::Cursor,
    head,
    lexer::{Kind, Lexer, Token},
    scan::Mode,
    statement,
};
use memchr::memmem;

/// Says what `text` does to the session that runs it.
///
/// Allocates nothing where that is nothing: the first word, and a few bytes that are searched for,
/// decide. Never a guess: what is not read to its end is [`Effect::Unreadable`].
///
/// ```
/// use sql::{Dialect, session::{Cell, Class, session_command}};
///
/// let found = session_command(b"SET GLOBAL a = 1, SESSION sql_mode = ''", Dialect::default());
/// let step = &found.steps()[0];
/// assert_eq!((step.class, &step.writes[..]), (Class::Const, &[Cell::SQL_MODE][..]));
/// ```
pub fn session_command(text: &[u8], dialect: Dialect) -> Effect {
    let mut cursor = Cursor::new(Lexer::new(text, dialect));
    while cursor.accept_kind(Kind::Semicolon) {}
    // Nothing that quotes or charsets change can stand before it.
    let mut ahead = Cursor::new(Lexer::new(text, Dialect { unsure: false, ..dialect }));
    while ahead.accept_kind(Kind::Semicolon) {}
    let Some(first) = first(&mut ahead) else {
        return nothing(cursor);
    };
    // What is skipped before it, another server may take for the first word.
    if ahead.is_doubtful() {
        return Effect::Unreadable(Unreadable::Doubtful);
    }
    let verb = verb(&cursor, first);
    if is_work(verb) && !work::may_have_any(text, verb) {
        return Effect::Nothing;
    }
    match steps(&mut cursor, text, dialect) {
        _ if doubts(cursor) => Effect::Unreadable(Unreadable::Doubtful),
        Ok(steps) if steps.is_empty() => Effect::Nothing,
        Ok(steps) => Effect::Steps(steps),
        Err(reason) => Effect::Unreadable(reason),
    }
}

/// The user variables that a text names, to read or to set them, in order and as often as it does.
/// The host of an account (`u@h`) looks the same.
pub fn user_variables(text: &[u8], dialect: Dialect) -> Vec<Cell> {
    let tokens = Lexer::new(text, dialect).filter(|token| token.kind == Kind::UserVariable);
    tokens.map(|token| Cell::user(token.of(text)).unwrap_or(Cell::Anything)).collect()
}

/// A text without a statement.
fn nothing(cursor: Cursor<'_>) -> Effect {
    if doubts(cursor) { Effect::Unreadable(Unreadable::Doubtful) } else { Effect::Nothing }
}

/// Whether a server may cut the text in another way, to its end.
fn doubts(mut cursor: Cursor<'_>) -> bool {
    while cursor.next().is_some() {}
    cursor.is_doubtful()
}

/// All statements; none if there is nothing to say about any of them.
fn steps(cursor: &mut Cursor<'_>, text: &[u8], dialect: Dialect) -> Result<Vec<Step>, Unreadable> {
    let mut steps = Vec::new();
    let mut plain = true;
    loop {
        while cursor.accept_kind(Kind::Semicolon) {}
        let Some(start) = cursor.ahead() else { break };
        let whole = cursor.clone();
        let step = step(cursor, text, dialect)?;
        // A part of what is code in a comment cannot be cut out of it.
        if !cursor.at_end() || step.is_mixed() && has_code_comment(text) {
            return Err(Unreadable::Grammar);
        }
        plain &= step.is_plain();
        if steps.is_empty() && plain && is_last(cursor) {
            break;
        }
        steps.push(Step { span: extent(whole, cursor, start), ..step });
    }
    if plain {
        steps.clear();
    }
    Ok(steps)
}

/// From `start`, the first token of `whole`, to the last before `end`.
fn extent(mut whole: Cursor<'_>, end: &Cursor<'_>, start: Token) -> Span {
    let stop = end.ahead().map_or(usize::MAX, |token| token.start);
    let mut span = start.span();
    while let Some(token) = whole.next().filter(|token| token.start < stop) {
        span.end = token.end;
    }
    span
}

fn has_code_comment(text: &[u8]) -> bool {
    memmem::find(text, b"/*!").is_some() || memmem::find(text, b"/*M!").is_some()
}

fn is_last(cursor: &Cursor<'_>) -> bool {
    let mut cursor = cursor.clone();
    while cursor.accept_kind(Kind::Semicolon) {}
    cursor.ahead().is_none()
}

/// One statement, with a span that is not set yet; moves to its end.
fn step(cursor: &mut Cursor<'_>, text: &[u8], dialect: Dialect) -> Result<Step, Unreadable> {
    let start = cursor.clone();
    let Some(first) = first(cursor) else { return Err(Unreadable::Statement) };
    let verb = verb(cursor, first);
    match verb {
        Verb::Set if cursor.sees("statement") && !set::is_assignment(cursor) => {
            for_one_statement(cursor, text, dialect)
        }
        Verb::Set => {
            let side = work::scan(&mut cursor.clone(), verb);
            let mut step = set::read(cursor, dialect)?;
            let last = side.writes.into_iter().filter(|cell| *cell == Cell::LAST_INSERT_ID);
            step.writes.extend(last);
            step.holds.extend(side.hold);
            Ok(step)
        }
        Verb::Use => use_schema(cursor),
        Verb::Prepare => prepared::prepare(cursor, dialect),
        Verb::Execute => prepared::execute(cursor),
        Verb::Deallocate => prepared::deallocate(cursor),
        Verb::Drop if cursor.sees("prepare") => prepared::deallocate(cursor),
        // MariaDB runs a block of sql_mode=ORACLE that begins so; for MySQL it is an error.
        Verb::Unknown if prepared::is_mysql(dialect) && is_declare(cursor, first) => {
            skip(cursor);
            Ok(Step::default())
        }
        Verb::Unknown => Err(Unreadable::Statement),
        _ if matches!(head::read(&mut start.clone()).mode, Mode::Program { .. }) => {
            program(cursor, verb, &text[first.start..], dialect)
        }
        _ => other(cursor, verb),
    }
}

/// A statement that is no session command.
fn other(cursor: &mut Cursor<'_>, verb: Verb) -> Result<Step, Unreadable> {
    let mut holds = held::of(verb, cursor.clone())?;
    if verb == Verb::Flush && locks(cursor.clone()) {
        holds.push(Hold::Takes(Held::TableLocks));
    }
    let mut writes = Vec::new();
    match verb {
        // What it was is seen in its reply only.
        Verb::Drop if cursor.sees("database") || cursor.sees("schema") => {
            writes.push(Cell::Schema);
            writes.push(Cell::COLLATION_DATABASE);
        }
        Verb::Alter if cursor.sees("database") || cursor.sees("schema") => {
            writes.push(Cell::COLLATION_DATABASE);
        }
        _ => {}
    }
    let side = work::scan(cursor, verb);
    writes.extend(side.writes);
    holds.extend(side.hold);
    Ok(Step { writes, holds, ..Step::default() })
}

/// A statement that defines a program, or is one.
fn program(
    cursor: &mut Cursor<'_>,
    verb: Verb,
    text: &[u8],
    dialect: Dialect,
) -> Result<Step, Unreadable> {
    // What is defined does not run; where it ends need not be known if nothing follows.
    if verb == Verb::Begin || statement(text, dialect).multi {
        return Err(Unreadable::Program);
    }
    while cursor.next().is_some() {}
    Ok(Step::default())
}

/// `SET STATEMENT name = value, ... FOR statement`; `cursor` is behind SET.
fn for_one_statement(
    cursor: &mut Cursor<'_>,
    text: &[u8],
    dialect: Dialect,
) -> Result<Step, Unreadable> {
    let all = cursor.clone();
    let mut depth = 0_usize;
    while depth > 0 || !cursor.accept("for") {
        match cursor.next_here().ok_or(Unreadable::Grammar)?.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.checked_sub(1).ok_or(Unreadable::Grammar)?,
            _ => {}
        }
    }
    let mut inner = step(cursor, text, dialect)?;
    if inner.class != Class::NotSession || inner.action != Action::Work {
        return Err(Unreadable::ForOneStatement);
    }
    // Its values may set user variables, or lock.
    let side = work::scan(&mut all.clone(), Verb::Set);
    let known = |cell: &Cell| inner.writes.contains(cell);
    let more: Vec<_> = side.writes.into_iter().filter(|cell| !known(cell)).collect();
    inner.writes.extend(more);
    if inner.holds.is_empty() {
        inner.holds.extend(side.hold);
    }
    Ok(inner)
}

/// `USE name`.
fn use_schema(cursor: &mut Cursor<'_>) -> Result<Step, Unreadable> {
    let name = cursor.next_here();
    let name = name.filter(|token| is_name(*token)).ok_or(Unreadable::Grammar)?;
    let mut reads = Vec::new();
    super::value::text_reads(cursor.of(name), false, &mut reads);
    let action = Action::Use { schema: name.span() };
    let writes = vec![Cell::Schema, Cell::COLLATION_DATABASE];
    Ok(Step { class: Class::Environment, action, reads, writes, ..Step::default() })
}

/// `FLUSH TABLES ... WITH READ LOCK`, `... FOR EXPORT`.
fn locks(mut cursor: Cursor<'_>) -> bool {
    while let Some(token) = cursor.next_here() {
        let is = |word: &str| cursor.of(token).eq_ignore_ascii_case(word.as_bytes());
        if is("read") && cursor.sees("lock") || is("for") && cursor.sees("export") {
            return true;
        }
    }
    false
}

/// The first word, behind parentheses.
fn first(cursor: &mut Cursor<'_>) -> Option<Token> {
    loop {
        match cursor.next_here()? {
            token if token.kind == Kind::Open => {}
            token => return Some(token),
        }
    }
}

fn verb(cursor: &Cursor<'_>, first: Token) -> Verb {
    if first.kind == Kind::Word { Verb::of(cursor.of(first)) } else { Verb::Unknown }
}

fn is_declare(cursor: &Cursor<'_>, first: Token) -> bool {
    cursor.of(first).eq_ignore_ascii_case(b"declare")
}

fn skip(cursor: &mut Cursor<'_>) {
    while !cursor.at_end() {
        cursor.next();
    }
}

/// Whether a statement concerns the session by what stands deep in it, if at all.
fn is_work(verb: Verb) -> bool {
    !matches!(
        verb,
        Verb::Unknown
            | Verb::Set
            | Verb::Use
            | Verb::Prepare
            | Verb::Execute
            | Verb::Deallocate
            | Verb::Create
            | Verb::Drop
            | Verb::Alter
            | Verb::Rename
            | Verb::Handler
            | Verb::Lock
            | Verb::Unlock
            | Verb::Backup
            | Verb::Flush
            | Verb::Call
            | Verb::Begin
            | Verb::Xa
    )
}
