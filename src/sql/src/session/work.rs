//! What a statement that works on data does to the session on the side: user variables that it sets,
//! locks that its functions take, `LAST_INSERT_ID()` with a value.

use super::{Cell, Held, Hold, locks, next};
use crate::{
    Verb,
    cursor::Cursor,
    lexer::{Kind, Token},
};
use memchr::{memchr, memchr_iter, memchr3_iter};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) writes: Vec<Cell>,
    pub(super) hold: Option<Hold>,
}

/// Whether a text may have any of it, or a second statement. Looks at bytes only.
pub(super) fn may_have_any(text: &[u8], verb: Verb) -> bool {
    let found = memchr3_iter(b';', b':', b'_', text).any(|at| match text[at] {
        b':' => text.get(at + 1) == Some(&b'='),
        b'_' => {
            let follows = |word: &[u8]| {
                let found = text.get(at + 1..at + 1 + word.len());
                found.is_some_and(|found| found.eq_ignore_ascii_case(word))
            };
            follows(b"lock") || follows(b"insert_id")
        }
        _ => true,
    });
    found
        || memchr(b'@', text).is_some()
            && (matches!(verb, Verb::Load | Verb::Get) || contains_into(text))
}

fn contains_into(text: &[u8]) -> bool {
    let is_into = |at: usize| {
        let start = at.wrapping_sub(3);
        text.get(start..=at).is_some_and(|word| word.eq_ignore_ascii_case(b"into"))
    };
    memchr_iter(b'o', text).any(is_into) || memchr_iter(b'O', text).any(is_into)
}

/// Looks at the rest of a statement, up to its end; `cursor` is behind the verb.
pub(super) fn scan(cursor: &mut Cursor<'_>, verb: Verb) -> Side {
    let mut side = Side { hold: locks::alone(verb, cursor.clone()), ..Side::default() };
    let (mut takes, mut last_insert_id) = (false, false);
    // Behind INTO there are targets as long as commas follow.
    let (mut into, mut after_dot) = (matches!(verb, Verb::Load | Verb::Get), false);
    while let Some(token) = next(cursor) {
        match token.kind {
            Kind::UserVariable if into || assigns(cursor) => {
                side.writes.push(Cell::user(cursor.of(token)).unwrap_or(Cell::Anything));
            }
            Kind::UserVariable | Kind::Comma => {}
            Kind::Word | Kind::QuotedName => {
                let word = super::cell::bare(cursor.of(token));
                let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
                if !after_dot && cursor.ahead().is_some_and(|next| next.kind == Kind::Open) {
                    takes |= is("get_lock");
                    last_insert_id |= is("last_insert_id") && has_arguments(cursor);
                }
                into = matches!(verb, Verb::Load | Verb::Get)
                    || token.kind == Kind::Word && !after_dot && is("into");
            }
            _ => into &= matches!(verb, Verb::Load | Verb::Get),
        }
        after_dot = token.kind == Kind::Dot;
    }
    if last_insert_id {
        side.writes.push(Cell::LAST_INSERT_ID);
    }
    if verb == Verb::Call {
        side.writes.push(Cell::Anything);
    }
    if takes && side.hold.is_none() {
        side.hold = Some(Hold::Takes(Held::UserLocks));
    }
    side
}

fn assigns(cursor: &Cursor<'_>) -> bool {
    let is_sign = |token: Token| token.kind == Kind::Operator && cursor.of(token) == b":=";
    cursor.ahead().is_some_and(is_sign)
}

/// Whether something stands in the parenthesis ahead.
fn has_arguments(cursor: &Cursor<'_>) -> bool {
    let mut cursor = cursor.clone();
    cursor.next();
    cursor.ahead().is_some_and(|token| token.kind != Kind::Close)
}
