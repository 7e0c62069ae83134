//! Statements that do nothing but take a user lock, or give it back.
//!
//! MySQL manual, "Locking Functions"; MariaDB manual, "GET_LOCK". A function anywhere else may be
//! called for no row, or for several.

use super::{Held, Hold, next};
use crate::{
    Verb,
    cursor::Cursor,
    lexer::{Kind, Token},
};

/// `SELECT GET_LOCK('name', 1)`, `DO RELEASE_LOCK('name')`, `DO RELEASE_ALL_LOCKS()`; `cursor` is
/// behind the verb.
pub(super) fn alone(verb: Verb, mut cursor: Cursor<'_>) -> Option<Hold> {
    let cursor = &mut cursor;
    if !matches!(verb, Verb::Select | Verb::Do) {
        return None;
    }
    let name = next(cursor).filter(|token| token.kind == Kind::Word)?;
    let is = |function: &str| cursor.of(name).eq_ignore_ascii_case(function.as_bytes());
    let hold = if is("release_all_locks") {
        accept(cursor, Kind::Open)?;
        Hold::Releases(Held::UserLocks)
    } else if is("release_lock") {
        accept(cursor, Kind::Open)?;
        Hold::Releases(Held::UserLock(lock(cursor)?))
    } else if is("get_lock") {
        accept(cursor, Kind::Open)?;
        let lock = lock(cursor)?;
        accept(cursor, Kind::Comma)?;
        // Less than 0 is for ever.
        if cursor.ahead().is_some_and(|token| cursor.of(token) == b"-") {
            cursor.next();
        }
        accept(cursor, Kind::Number)?;
        Hold::Takes(Held::UserLock(lock))
    } else {
        return None;
    };
    accept(cursor, Kind::Close)?;
    if cursor.accept("as") || !cursor.at_end() {
        let is_name =
            |token: &Token| matches!(token.kind, Kind::Word | Kind::QuotedName | Kind::String);
        next(cursor).filter(is_name)?;
    }
    cursor.at_end().then_some(hold)
}

/// A name that is the same in every character set, however strings are quoted.
fn lock(cursor: &mut Cursor<'_>) -> Option<Box<[u8]>> {
    let token = next(cursor).filter(|token| token.kind == Kind::String)?;
    let name = cursor.of(token).strip_prefix(b"'")?.strip_suffix(b"'")?;
    let plain = name.is_ascii() && !name.contains(&b'\'') && !name.contains(&b'\\');
    plain.then(|| name.into())
}

fn accept(cursor: &mut Cursor<'_>, kind: Kind) -> Option<()> {
    cursor.accept_kind(kind).then_some(())
}
