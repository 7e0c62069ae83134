//! What stands behind the sign of an assignment.
//!
//! MySQL manual, "Expression Syntax", "Built-In Function and Operator Reference"; MariaDB manual,
//! "Built-In Functions". An allow-list: what is not surely the same on every server, given the cells
//! it reads, has to be evaluated once.

use super::{Cell, Unreadable, variables};
use crate::{
    Span,
    cursor::Cursor,
    lexer::{Kind, Token},
    words::Words,
};

/// What a part of a SET gives its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// What it depends on.
    pub kind: ValueKind,
    /// Where it stands.
    pub span: Span,
    /// Whether it may be NULL.
    pub null: Null,
}

/// Whether a value may be NULL. A user variable to which NULL is assigned keeps the type that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Null {
    /// It is not.
    Never,
    /// It is not, unless a user variable is that it names.
    AsRead,
    /// It may be.
    Perhaps,
    /// It is.
    Always,
}

/// What a value depends on. Of several reasons the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKind {
    /// `DEFAULT`: the server's value.
    Default,
    /// It stands in the text: a number, a string, a word.
    Literal,
    /// An expression over nothing but literals.
    Constant,
    /// An expression that reads user variables, or system variables of the session.
    Derived,
    /// It is bound when the statement is executed: `?`.
    Placeholder,
    /// A function or name that is not known to give the same everywhere, a system variable that is
    /// not the session's.
    Volatile,
    /// It has a subquery.
    Subquery,
}

impl ValueKind {
    /// Whether one server has to find the value for all.
    pub fn is_evaluated_once(self) -> bool {
        self >= Self::Placeholder
    }
}

impl Value {
    /// One that is a word, or several, with a meaning of their own.
    pub(super) fn word(kind: ValueKind, span: Span) -> Self {
        Self { kind, span, null: Null::Never }
    }
}

/// Reads the value ahead, up to a comma or the end. With `words`, a word alone is a string. Adds what
/// it depends on to `reads`.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    words: bool,
    reads: &mut Vec<Cell>,
) -> Result<Value, Unreadable> {
    let first = cursor.ahead().ok_or(Unreadable::Grammar)?;
    if let Some((kind, last)) = simple(&mut cursor.clone(), words) {
        while cursor.next().is_some_and(|token| token != last) {}
        let null = match kind {
            ValueKind::Literal if cursor.of(last).eq_ignore_ascii_case(b"null") => Null::Always,
            ValueKind::Literal => Null::Never,
            _ => Null::Perhaps,
        };
        return Ok(Value { kind, span: first.start..last.end, null });
    }
    let (kind, null) = (ValueKind::Constant, Null::Never);
    let mut value = Reader { kind, null, depth: 0, computes: false, reads };
    let mut end = None;
    while !(cursor.at_end() || value.depth == 0 && is(cursor, Kind::Comma)) {
        let Some(token) = cursor.next() else { break };
        value.step(token, cursor)?;
        end = Some(token.end);
    }
    let Reader { kind, null, depth, computes, reads } = value;
    let end = end.filter(|_| depth == 0).ok_or(Unreadable::Grammar)?;
    if computes {
        reads.extend([Cell::SQL_MODE, Cell::System("div_precision_increment".into())]);
    }
    Ok(Value { kind, span: first.start..end, null })
}

/// How the bytes of a value are read depends on the session where they are more than plain letters;
/// what a string is, on the charset of the connection if it is kept as a string. Comments in it count
/// too.
pub(super) fn text_reads(text: &[u8], kept: bool, reads: &mut Vec<Cell>) {
    if !text.is_ascii() {
        reads.push(Cell::CharsetClient);
    }
    if text.iter().any(|byte| matches!(byte, b'\\' | b'"')) {
        reads.push(Cell::SQL_MODE);
    }
    if text.iter().any(|byte| matches!(byte, b'\'' | b'"')) && (kept || !text.is_ascii()) {
        reads.push(Cell::CollationConnection);
    }
}

/// A literal or a word alone, and its last token. `None` for anything that goes on.
fn simple(cursor: &mut Cursor<'_>, words: bool) -> Option<(ValueKind, Token)> {
    let mut token = cursor.next_here()?;
    let mut kind = ValueKind::Literal;
    match token.kind {
        Kind::Operator => {
            while matches!(cursor.of(token), b"-" | b"+") {
                token = cursor.next_here()?;
            }
            (token.kind == Kind::Number).then_some(())?;
        }
        Kind::Number => {}
        Kind::Introducer => token = cursor.next_here().filter(|next| next.kind == Kind::String)?,
        Kind::String => {
            while is(cursor, Kind::String) {
                token = cursor.next_here()?;
            }
        }
        Kind::Placeholder => kind = ValueKind::Placeholder,
        Kind::QuotedName if words => {}
        Kind::Word => match word(cursor.of(token)) {
            Some(Word::Default) => kind = ValueKind::Default,
            Some(Word::Literal) => {}
            Some(Word::Volatile) => kind = ValueKind::Volatile,
            _ if words => {}
            _ => return None,
        },
        _ => return None,
    }
    (cursor.at_end() || is(cursor, Kind::Comma)).then_some((kind, token))
}

struct Reader<'r> {
    kind: ValueKind,
    null: Null,
    depth: usize,
    /// It has an operator or a word.
    computes: bool,
    reads: &'r mut Vec<Cell>,
}

impl Reader<'_> {
    /// `cursor` is behind `token`.
    fn step(&mut self, token: Token, cursor: &Cursor<'_>) -> Result<(), Unreadable> {
        let text = cursor.of(token);
        match token.kind {
            Kind::Open => self.depth += 1,
            Kind::Close => self.depth = self.depth.checked_sub(1).ok_or(Unreadable::Grammar)?,
            Kind::Comma | Kind::Number | Kind::String | Kind::Introducer => {}
            Kind::Operator if text == b":=" => return Err(Unreadable::Nested),
            Kind::Operator => {
                self.computes = true;
                // A division by zero is NULL.
                self.may_be(if matches!(text, b"/" | b"%") { Null::Perhaps } else { Null::Never });
            }
            Kind::UserVariable => {
                self.may_be(Null::AsRead);
                self.reads.push(Cell::user(text)?);
                self.raise(ValueKind::Derived);
            }
            Kind::SystemVariable => match session_variable(text) {
                Some(cell) if !is(cursor, Kind::Dot) => {
                    if matches!(&cell, Cell::CharsetResults)
                        || cell == Cell::System("session_track_system_variables".into())
                    {
                        self.may_be(Null::Perhaps);
                    }
                    self.reads.push(cell);
                    self.raise(ValueKind::Derived);
                }
                _ => self.raise(ValueKind::Volatile),
            },
            Kind::Placeholder => self.raise(ValueKind::Placeholder),
            Kind::Word => {
                self.computes = true;
                if !TOTAL.contains(&text.to_ascii_lowercase().as_slice()) {
                    self.may_be(Null::Perhaps);
                }
                self.word(token, cursor);
            }
            _ => self.raise(ValueKind::Volatile),
        }
        Ok(())
    }

    fn word(&mut self, token: Token, cursor: &Cursor<'_>) {
        let call = cursor.ahead().filter(|next| next.kind == Kind::Open);
        // With a blank between, what is a function's name for one server is a stored one for the
        // other, and for either with another sql_mode.
        let adjacent = call.is_some_and(|open| open.start == token.end);
        let text_follows = cursor.ahead().is_some_and(|next| next.kind == Kind::String);
        match word(cursor.of(token)) {
            Some(Word::Subquery) => self.raise(ValueKind::Subquery),
            Some(Word::Grammar) => {}
            Some(Word::Literal | Word::Default) if call.is_none() => {}
            Some(Word::Function) if adjacent => {}
            Some(Word::Date) if text_follows => {}
            Some(Word::Timestamp) if text_follows => {
                self.reads.push(Cell::System("time_zone".into()));
            }
            _ => self.raise(ValueKind::Volatile),
        }
    }

    fn may_be(&mut self, null: Null) {
        self.null = self.null.max(null);
    }

    fn raise(&mut self, kind: ValueKind) {
        self.kind = self.kind.max(kind);
    }
}

/// The cell of `@@name`, `@@session.name`.
fn session_variable(token: &[u8]) -> Option<Cell> {
    let name = token.strip_prefix(b"@@")?;
    let name = match name.iter().position(|&byte| byte == b'.') {
        Some(dot) => {
            let scope = &name[..dot];
            let session =
                [&b"session"[..], b"local"].iter().any(|&word| scope.eq_ignore_ascii_case(word));
            session.then(|| &name[dot + 1..])?
        }
        None => name,
    };
    variables::read(super::cell::bare(name))
}

fn is(cursor: &Cursor<'_>, kind: Kind) -> bool {
    cursor.ahead().is_some_and(|token| token.kind == kind)
}

/// Words that make nothing NULL of what is not.
const TOTAL: [&[u8]; 12] = [
    b"abs", b"concat", b"hex", b"ifnull", b"lcase", b"length", b"lower", b"md5", b"replace",
    b"trim", b"ucase", b"upper",
];

/// What a word in a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Default,
    Literal,
    Grammar,
    /// Gives the same for the same arguments.
    Function,
    /// Before a string, a literal.
    Date,
    Timestamp,
    Subquery,
    /// A function that needs no parentheses.
    Volatile,
}

fn word(text: &[u8]) -> Option<Word> {
    WORDS.get(text)
}

static WORDS: Words<Word, 256> = Words::new(&[
    (Word::Default, &["default"]),
    (Word::Literal, &["null", "true", "false", "on", "off"]),
    (Word::Grammar, GRAMMAR),
    (Word::Function, FUNCTIONS),
    (Word::Date, &["date"]),
    (Word::Timestamp, &["timestamp"]),
    (Word::Subquery, &["select", "table", "values", "with", "exists"]),
    (Word::Volatile, VOLATILE),
]);

#[rustfmt::skip]
const GRAMMAR: &[&str] = &[
    "and", "as", "between", "binary", "case", "decimal", "div", "else", "end", "escape", "in",
    "integer", "is", "like", "mod", "not", "or", "signed", "then", "unknown", "unsigned", "when",
    "xor",
];

#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "abs", "ascii", "bin", "bit_length", "cast", "ceil", "ceiling", "char", "char_length",
    "character_length", "coalesce", "concat", "concat_ws", "crc32", "elt", "field",
    "find_in_set", "floor", "greatest", "hex", "if", "ifnull", "instr", "isnull", "lcase",
    "least", "left", "length", "locate", "lower", "lpad", "ltrim", "md5", "mid", "nullif", "oct",
    "octet_length", "ord", "pow", "power", "repeat", "replace", "reverse", "right", "round",
    "rpad", "rtrim", "sha1", "sha2", "sign", "space", "strcmp", "substr", "substring",
    "substring_index", "trim", "truncate", "ucase", "unhex", "upper",
];

#[rustfmt::skip]
const VOLATILE: &[&str] = &[
    "current_date", "current_role", "current_time", "current_timestamp", "current_user",
    "localtime", "localtimestamp", "rownum", "session_user", "sysdate", "system_user", "user",
    "utc_date", "utc_time", "utc_timestamp",
];
