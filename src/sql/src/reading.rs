//! Statements that change how the texts behind them are read.
//!
//! Two settings of a session do: `sql_mode` (ANSI_QUOTES) and `character_set_client`. MariaDB says
//! in its replies whether ANSI_QUOTES is on; MySQL does not, so it has to be read off the statement
//! that sets it. MySQL manual, "Server SQL Modes", "SET NAMES Statement", "SET CHARACTER SET
//! Statement"; MariaDB manual, "SQL_MODE", "SET NAMES".

#[cfg(test)]
mod tests;

use crate::{
    Charset, Dialect,
    cursor::Cursor,
    lexer::{Kind, Lexer, Token},
};

/// What a text changes about how those behind it are read, once it has succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Whether `"x"` is a name.
    pub ansi_quotes: Change<bool>,
    /// In which charset texts come.
    pub charset: Change<Charset>,
}

/// What becomes of a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// It stays.
    #[default]
    Kept,
    /// It becomes this.
    To(T),
    /// It becomes what it was when the session began.
    Default,
    /// It may have changed, to what cannot be read here.
    Unsure,
}

/// Which of the two is set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    SqlMode,
    Charset,
    Other,
}

/// ANSI_QUOTES, as a number's bit.
const ANSI_QUOTES_BIT: u64 = 4;

/// Says what `text` changes about how texts are read; `several`: it may be several statements. One
/// that sets nothing costs a look at its first letters, and a search for a semicolon where there
/// may be several. Allocates nothing.
pub fn reading(text: &[u8], dialect: Dialect, several: bool) -> Reading {
    if !may_set(text, several) {
        return Reading::default();
    }
    let mut cursor = Cursor::new(Lexer::new(text, dialect));
    let mut found = Reading::default();
    loop {
        match word(&mut cursor) {
            b"" => {}
            first if first.eq_ignore_ascii_case(b"set") => set(&mut cursor, &mut found),
            first if hides(first) => found = found.or(mentioned(text)),
            _ => {}
        }
        // To the next statement of the text.
        loop {
            match cursor.next() {
                None if cursor.is_doubtful() => return found.or(mentioned(text)),
                None => return found,
                Some(token) if token.kind == Kind::Semicolon => break,
                Some(_) => {}
            }
        }
    }
}

impl Reading {
    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// What is left of it if nobody can say whether the text has had its effect.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        Self { ansi_quotes: self.ansi_quotes.in_doubt(), charset: self.charset.in_doubt() }
    }

    fn or(self, other: Self) -> Self {
        let (ansi_quotes, charset) = (other.ansi_quotes, other.charset);
        Self {
            ansi_quotes: if ansi_quotes == Change::Kept { self.ansi_quotes } else { ansi_quotes },
            charset: if charset == Change::Kept { self.charset } else { charset },
        }
    }
}

impl<T> Change<T> {
    fn in_doubt(self) -> Self {
        if matches!(self, Self::Kept) { Self::Kept } else { Self::Unsure }
    }
}

/// Whether a text can have a SET in it that counts: it begins with one, or with something that one
/// may hide behind.
fn may_set(text: &[u8], several: bool) -> bool {
    let begin = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
    let begins = |word: &[u8]| {
        text.get(begin..begin + word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word))
    };
    begins(b"set")
        || matches!(text.get(begin), Some(b'/' | b'#' | b'-' | b';'))
        || [&b"prepare"[..], b"execute", b"begin"].into_iter().any(begins)
        || several
            && memchr::memchr(b';', text).is_some_and(|at| at + 1 < text.trim_ascii_end().len())
}

/// Statements that may run another one.
fn hides(first: &[u8]) -> bool {
    [&b"prepare"[..], b"execute"].into_iter().any(|word| first.eq_ignore_ascii_case(word))
}

/// What is named anywhere in a text may be changed by it.
fn mentioned(text: &[u8]) -> Reading {
    let names = |name: &[u8]| text.windows(name.len()).any(|some| some.eq_ignore_ascii_case(name));
    let unsure = |is: bool| if is { Change::Unsure } else { Change::Kept };
    let charset = names(b"character") || names(b"charset") || names(b"names");
    Reading {
        ansi_quotes: if names(b"sql_mode") { Change::Unsure } else { Change::Kept },
        charset: unsure(charset),
    }
}

/// The word ahead, behind which it moves.
fn word<'a>(cursor: &mut Cursor<'a>) -> &'a [u8] {
    let word = cursor.word_ahead();
    if !word.is_empty() {
        cursor.next();
    }
    word
}

/// Behind `SET`, up to the statement's end.
fn set(cursor: &mut Cursor<'_>, found: &mut Reading) {
    if cursor.sees("statement") {
        return; // for one statement only
    }
    let mut global = false;
    while !cursor.at_end() {
        let (setting, is_global) = target(cursor, global);
        global = is_global;
        let (first, more) = value(cursor);
        let change = match first {
            Some(token) if !more => Some(of(cursor, token)),
            _ => None,
        };
        match setting {
            Setting::SqlMode => found.ansi_quotes = change.map_or(Change::Unsure, ansi_quotes),
            Setting::Charset => found.charset = change.map_or(Change::Unsure, charset),
            Setting::Other => {}
        }
    }
}

/// What the assignment ahead sets, and whether for the whole server, which goes on for what
/// follows in the same statement. Moves behind the `=`, if there is one.
fn target(cursor: &mut Cursor<'_>, mut global: bool) -> (Setting, bool) {
    let Some(mut token) = cursor.next_here() else { return (Setting::Other, global) };
    let is = |text: &[u8], word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    let mut name = cursor.of(token);
    let assigns = cursor.ahead().is_some_and(|next| is_equals(cursor, next));
    if token.kind == Kind::Word && !assigns {
        if is(name, "names") || is(name, "charset") {
            return (Setting::Charset, global);
        }
        if is(name, "character") || is(name, "char") {
            cursor.accept("set");
            return (Setting::Charset, global);
        }
        if ["global", "persist", "persist_only"].iter().any(|word| is(name, word)) {
            global = true;
        } else if is(name, "session") || is(name, "local") {
            global = false;
        }
        let Some(next) = cursor.next_here() else { return (Setting::Other, global) };
        token = next;
        name = cursor.of(token);
    }
    let mut here = global;
    if token.kind == Kind::SystemVariable {
        name = &name[2..];
        if let Some(dot) = memchr::memchr(b'.', name) {
            let scope = &name[..dot];
            here = !is(scope, "session") && !is(scope, "local");
            name = &name[dot + 1..];
        } else {
            here = false;
        }
    }
    let name = name.trim_ascii();
    let name = name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name);
    while let Some(next) = cursor.ahead()
        && next.kind != Kind::Comma
    {
        if cursor.next_here().is_none() || is_equals(cursor, next) {
            break;
        }
    }
    let setting = match () {
        () if token.kind == Kind::UserVariable || here => Setting::Other,
        () if is(name, "sql_mode") => Setting::SqlMode,
        () if is(name, "character_set_client") => Setting::Charset,
        () => Setting::Other,
    };
    (setting, global)
}

/// The first token of the value ahead, and whether there are more that count. Moves behind the
/// comma that ends it.
fn value(cursor: &mut Cursor<'_>) -> (Option<Token>, bool) {
    let (mut first, mut more, mut depth, mut skip) = (None, false, 0_usize, false);
    while let Some(next) = cursor.ahead() {
        if next.kind == Kind::Semicolon {
            break;
        }
        cursor.next();
        match next.kind {
            Kind::Comma if depth == 0 => break,
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        if first.is_none() {
            first = Some(next);
        } else if cursor.of(next).eq_ignore_ascii_case(b"collate") {
            skip = true; // says nothing of the charset that its name does not say
        } else if !std::mem::take(&mut skip) {
            more = true;
        }
    }
    (first, more)
}

fn is_equals(cursor: &Cursor<'_>, token: Token) -> bool {
    token.kind == Kind::Operator && matches!(cursor.of(token), b"=" | b":=")
}

/// A value that stands there as it is.
enum Literal<'a> {
    Text(&'a [u8]),
    Number(u64),
    Default,
    Unreadable,
}

fn of<'a>(cursor: &Cursor<'a>, token: Token) -> Literal<'a> {
    let text = cursor.of(token);
    match token.kind {
        Kind::Word if text.eq_ignore_ascii_case(b"default") => Literal::Default,
        Kind::Word => Literal::Text(text),
        Kind::String | Kind::QuotedName if text.len() >= 2 => {
            let inner = &text[1..text.len() - 1];
            let plain =
                inner.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_, ".contains(byte));
            if plain { Literal::Text(inner) } else { Literal::Unreadable }
        }
        Kind::Number => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .map_or(Literal::Unreadable, Literal::Number),
        _ => Literal::Unreadable,
    }
}

fn ansi_quotes(value: Literal<'_>) -> Change<bool> {
    // Modes that stand for several, ANSI_QUOTES among them; all but the first are MariaDB's and
    // older MySQL's.
    const COMBINED: [&str; 7] =
        ["ansi_quotes", "ansi", "db2", "maxdb", "mssql", "oracle", "postgresql"];
    match value {
        Literal::Text(modes) => Change::To(modes.split(|byte| *byte == b',').any(|mode| {
            let mode = mode.trim_ascii();
            COMBINED.iter().any(|name| mode.eq_ignore_ascii_case(name.as_bytes()))
        })),
        Literal::Number(bits) => Change::To(bits & ANSI_QUOTES_BIT != 0),
        Literal::Default => Change::Default,
        Literal::Unreadable => Change::Unsure,
    }
}

fn charset(value: Literal<'_>) -> Change<Charset> {
    match value {
        Literal::Text(name) => Change::To(Charset::of_name(name)),
        Literal::Default => Change::Default,
        Literal::Number(id) => {
            u16::try_from(id).map_or(Change::Unsure, |id| Change::To(Charset::of_collation(id)))
        }
        Literal::Unreadable => Change::Unsure,
    }
}
