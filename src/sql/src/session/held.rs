//! What only one connection has, by being held there.
//!
//! MySQL manual, "LOCK TABLES and UNLOCK TABLES", "Locking Functions", "HANDLER Statement", "XA
//! Transaction SQL Statements"; MariaDB manual, "BACKUP STAGE", "CREATE TABLE".

use super::{Unreadable, cell::bare, is_name};
use crate::{
    Verb,
    cursor::Cursor,
    lexer::{Kind, Token},
};

/// Something that belongs to a connection until it is given back, or the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Held {
    /// A temporary table or sequence.
    TemporaryTable(Table),
    /// `LOCK TABLES`, `FLUSH TABLES ... WITH READ LOCK` or `FOR EXPORT`: all of them together.
    TableLocks,
    /// `LOCK INSTANCE`, `BACKUP LOCK`, `BACKUP STAGE`.
    BackupLock,
    /// `GET_LOCK()` with a name that can be read, as often as it was got.
    UserLock(Box<[u8]>),
    /// `GET_LOCK()`: all of them together, or one whose name is not known.
    UserLocks,
    /// An open `HANDLER`, by its alias or its table's name, as it is written without quotes.
    Handler(Box<[u8]>),
    /// A transaction of `XA START`.
    Xa,
}

/// What a statement does with it, if it succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// Has it, or may have it, afterwards.
    Takes(Held),
    /// Surely does not have it afterwards. A table without a temporary namesake is no error.
    Releases(Held),
    /// If it is a temporary table, it has the second name afterwards.
    Renames(Table, Table),
}

/// A table's name as it is written, without quotes. Whether case matters is the server's setting:
/// who releases a table may not take two spellings for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// `None`: in the current schema.
    pub schema: Option<Box<[u8]>>,
    /// Its name.
    pub name: Box<[u8]>,
}

/// What a statement with this verb holds or gives back; `cursor` is behind the verb.
pub(super) fn of(verb: Verb, mut cursor: Cursor<'_>) -> Result<Vec<Hold>, Unreadable> {
    let cursor = &mut cursor;
    Ok(match verb {
        Verb::Create => created(cursor)?.into_iter().collect(),
        Verb::Drop => dropped(cursor),
        Verb::Alter => altered(cursor).into_iter().collect(),
        Verb::Rename => renamed(cursor),
        Verb::Handler => handler(cursor).into_iter().collect(),
        Verb::Lock if cursor.sees("instance") => vec![Hold::Takes(Held::BackupLock)],
        Verb::Lock => vec![Hold::Takes(Held::TableLocks)],
        Verb::Unlock if cursor.sees("instance") => vec![Hold::Releases(Held::BackupLock)],
        Verb::Unlock => vec![Hold::Releases(Held::TableLocks)],
        Verb::Backup => backup(cursor).into_iter().collect(),
        Verb::Xa if cursor.accept_any(&["start", "begin"]) => vec![Hold::Takes(Held::Xa)],
        Verb::Xa if cursor.accept_any(&["commit", "rollback"]) => {
            vec![Hold::Releases(Held::Xa)]
        }
        _ => Vec::new(),
    })
}

/// `CREATE [OR REPLACE] TEMPORARY {TABLE | SEQUENCE} [IF NOT EXISTS] name`.
fn created(cursor: &mut Cursor<'_>) -> Result<Option<Hold>, Unreadable> {
    if cursor.accept("or") {
        cursor.accept("replace");
    }
    if !cursor.accept("temporary") {
        return Ok(None);
    }
    if !cursor.accept_any(&["table", "sequence"]) {
        return Err(Unreadable::Grammar);
    }
    if cursor.accept("if") {
        cursor.accept("not");
        cursor.accept("exists");
    }
    let table = table(cursor).ok_or(Unreadable::Grammar)?;
    Ok(Some(Hold::Takes(Held::TemporaryTable(table))))
}

/// `DROP [TEMPORARY] {TABLE | TABLES | SEQUENCE} [IF EXISTS] name, ... [RESTRICT | CASCADE]`. What is
/// not surely read releases nothing.
fn dropped(cursor: &mut Cursor<'_>) -> Vec<Hold> {
    cursor.accept("temporary");
    if !cursor.accept_any(&["table", "tables", "sequence"]) {
        return Vec::new();
    }
    if cursor.accept("if") {
        cursor.accept("exists");
    }
    let mut holds = Vec::new();
    loop {
        let Some(table) = table(cursor) else { return Vec::new() };
        holds.push(Hold::Releases(Held::TemporaryTable(table)));
        if !cursor.accept_kind(Kind::Comma) {
            break;
        }
    }
    cursor.accept_any(&["restrict", "cascade"]);
    if cursor.accept("wait") {
        cursor.next_here();
    } else {
        cursor.accept("nowait");
    }
    if cursor.at_end() { holds } else { Vec::new() }
}

/// `ALTER TABLE name ... RENAME [TO | AS | =] name ...`.
fn altered(cursor: &mut Cursor<'_>) -> Option<Hold> {
    cursor.accept_any(&["online"]);
    cursor.accept_any(&["ignore"]);
    cursor.accept("table").then_some(())?;
    if cursor.accept("if") {
        cursor.accept("exists");
    }
    let from = table(cursor)?;
    let mut depth = 0_usize;
    while let Some(token) = cursor.next_here() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ if depth > 0 || !is(cursor, token, "rename") => {}
            _ if ["column", "index", "key"].iter().any(|word| cursor.sees(word)) => {}
            _ => {
                if !cursor.accept_any(&["to", "as"])
                    && cursor.ahead().is_some_and(|token| cursor.of(token) == b"=")
                {
                    cursor.next();
                }
                return Some(Hold::Renames(from, table(cursor)?));
            }
        }
    }
    None
}

/// `RENAME TABLE name TO name, ...`.
fn renamed(cursor: &mut Cursor<'_>) -> Vec<Hold> {
    let mut holds = Vec::new();
    if !cursor.accept_any(&["table", "tables"]) {
        return holds;
    }
    if cursor.accept("if") {
        cursor.accept("exists");
    }
    while let Some(from) = table(cursor) {
        if cursor.accept("wait") {
            cursor.next_here();
        } else {
            cursor.accept("nowait");
        }
        let Some(to) = Some(()).filter(|()| cursor.accept("to")).and_then(|()| table(cursor))
        else {
            break;
        };
        holds.push(Hold::Renames(from, to));
        if !cursor.accept_kind(Kind::Comma) {
            break;
        }
    }
    holds
}

/// `HANDLER table OPEN [[AS] alias]`, `HANDLER name CLOSE`.
fn handler(cursor: &mut Cursor<'_>) -> Option<Hold> {
    let table = table(cursor)?;
    if cursor.accept("open") {
        cursor.accept("as");
        let alias = cursor.next_here().filter(|token| is_name(*token));
        let name = alias.map_or(table.name, |token| bare(cursor.of(token)).into());
        return Some(Hold::Takes(Held::Handler(name)));
    }
    cursor.accept("close").then_some(Hold::Releases(Held::Handler(table.name)))
}

/// `BACKUP LOCK table`, `BACKUP UNLOCK`, `BACKUP STAGE {START | ... | END}`.
fn backup(cursor: &mut Cursor<'_>) -> Option<Hold> {
    if cursor.accept("unlock") {
        return Some(Hold::Releases(Held::BackupLock));
    }
    let stage = cursor.accept("stage");
    if stage && cursor.sees("end") {
        return Some(Hold::Releases(Held::BackupLock));
    }
    (stage || cursor.accept("lock")).then_some(Hold::Takes(Held::BackupLock))
}

/// `name` or `schema.name`; moves behind it.
fn table(cursor: &mut Cursor<'_>) -> Option<Table> {
    let mut part = || {
        let token = cursor.ahead().filter(|token| is_name(*token))?;
        cursor.next();
        let name = bare(cursor.of(token));
        // A doubled quote stands for one.
        (!name.contains(&b'`') && !name.contains(&b'"')).then(|| Box::<[u8]>::from(name))
    };
    let first = part()?;
    if !cursor.accept_kind(Kind::Dot) {
        return Some(Table { schema: None, name: first });
    }
    let token = cursor.next_here().filter(|token| is_name(*token))?;
    Some(Table { schema: Some(first), name: bare(cursor.of(token)).into() })
}

fn is(cursor: &Cursor<'_>, token: Token, word: &str) -> bool {
    token.kind == Kind::Word && cursor.of(token).eq_ignore_ascii_case(word.as_bytes())
}
