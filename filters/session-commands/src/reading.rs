//! Reading one statement: what it does to the session's state.

use crate::{
    cell::{self, Cell},
    set,
    ties::Cause,
    words::Words,
};
use sql::{Dialect, Kind, Lexer, Token, Verb};

/// What a statement does to the session's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) class: Class,
    pub(crate) reads: Vec<Cell>,
    pub(crate) writes: Vec<Cell>,
    /// What to log instead of the text.
    pub(crate) text: Option<Vec<u8>>,
    /// Cells that hold something afterwards that only this connection has.
    pub(crate) local: Vec<Cell>,
    pub(crate) ties: Vec<Change>,
}

/// What becomes of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Nothing of the session's (E).
    #[default]
    Other,
    /// Every connection executes it (A, B).
    Replayed,
    /// The same, and what it reads and writes is not known (U).
    Verbatim,
    /// Evaluated once: what it sets is on this connection alone (C).
    Once,
    /// It gives LAST_INSERT_ID() another value.
    LastInsertId,
    /// For the next statement or transaction on this connection (D).
    OneShot,
    /// What it sets means something on this connection alone.
    Local,
}

/// What a statement does to what ties the session to its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tie(Cause, Box<str>),
    Untie(Cause, Box<str>),
    UntieAll(Cause),
}

impl Reading {
    pub(crate) fn of(class: Class) -> Self {
        Self { class, ..Self::default() }
    }

    pub(crate) fn reads<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        self.reads.extend(cells.into_iter().map(Cell::from));
    }

    pub(crate) fn writes<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        self.writes.extend(cells.into_iter().map(Cell::from));
    }

    /// Of two things that a statement does, the one that binds more counts.
    pub(crate) fn raise(&mut self, class: Class) {
        self.class = self.class.max(class);
    }

    /// A value that is evaluated once goes to `cell`, or to a system variable.
    pub(crate) fn once(&mut self, cell: Option<&Cell>) {
        match cell {
            Some(cell) => {
                self.raise(Class::Once);
                self.local.push(cell.clone());
            }
            None => self.raise(Class::Local),
        }
    }

    /// Not read fully. What binds it to its connection still does.
    pub(crate) fn verbatim(mut self) -> Self {
        self.raise(Class::Verbatim);
        self.reads([cell::ANYTHING]);
        self.writes([cell::ANYTHING]);
        self
    }

    /// How the text itself is read depends on the session where it has more than plain letters;
    /// what a string is, on the connection's charset if it becomes a `value`.
    pub(crate) fn text_reads(&mut self, text: &[u8], value: bool) {
        if !text.is_ascii() {
            self.reads([cell::CLIENT]);
        }
        if text.iter().any(|byte| matches!(byte, b'\\' | b'"')) {
            self.reads([cell::SQL_MODE]);
        }
        if value && text.iter().any(|byte| matches!(byte, b'\'' | b'"')) {
            self.reads([cell::CONNECTION]);
        }
    }
}

/// Reads one statement, which nothing follows.
pub(crate) fn read(text: &[u8], dialect: Dialect) -> Reading {
    let mut words = Words::new(text, dialect);
    let Some(first) = words.next() else { return Reading::default() };
    let verb = sql::peek(words.of(first));
    let mut reading = match verb {
        Verb::Set => set::read(&mut words),
        Verb::Use => {
            let mut reading = Reading::of(Class::Replayed);
            reading.writes([cell::SCHEMA]);
            reading.text_reads(text, false);
            reading
        }
        Verb::Prepare => prepare(&mut words),
        Verb::Deallocate => deallocate(&mut words),
        Verb::Drop if words.word_ahead() == "prepare" => deallocate(&mut words),
        _ => Reading::default(),
    };
    // Which of its comments are code is the server's to say.
    let versioned = dialect.server.is_none() && (contains(text, b"/*!") || contains(text, b"/*M!"));
    if reading.class != Class::Other && (words.is_doubtful() || versioned) {
        reading = reading.verbatim();
    }
    ties(verb, text, &mut words, &mut reading);
    reading
}

fn prepare(words: &mut Words<'_>) -> Reading {
    let mut reading = Reading::of(Class::Replayed);
    let Some(name) = words.next() else { return reading.verbatim() };
    reading.writes([&*cell::prepared(words.of(name))]);
    reading.reads([cell::SCHEMA, cell::CLIENT, cell::CONNECTION, cell::SQL_MODE, cell::ROLE]);
    words.next();
    match words.next() {
        Some(token) if token.kind == Kind::UserVariable => {
            reading.reads([&*cell::user(words.of(token))]);
        }
        Some(token) if token.kind == Kind::String => {}
        // MariaDB takes any expression.
        _ => return reading.verbatim(),
    }
    reading
}

/// `{DEALLOCATE | DROP} PREPARE name`.
fn deallocate(words: &mut Words<'_>) -> Reading {
    let mut reading = Reading::of(Class::Replayed);
    words.next();
    let Some(name) = words.next() else { return reading.verbatim() };
    reading.writes([&*cell::prepared(words.of(name))]);
    reading
}

/// What ties the session to the connection that runs the statement.
fn ties(verb: Verb, text: &[u8], words: &mut Words<'_>, reading: &mut Reading) {
    let tie = |reading: &mut Reading, cause| reading.ties.push(Change::Tie(cause, "".into()));
    match verb {
        Verb::Create => {
            let found = words.all_words();
            let temporary = found.iter().take(3).any(|word| word == "temporary");
            if temporary && let Some(name) = words.table_behind("table") {
                reading.ties.push(Change::Tie(Cause::TemporaryTable, name));
            }
        }
        Verb::Drop => {
            for name in words.tables_dropped() {
                reading.ties.push(Change::Untie(Cause::TemporaryTable, name));
            }
        }
        Verb::Handler => handler(words, reading),
        Verb::Call => reading.local.push(cell::ANYTHING.into()),
        Verb::Xa => match words.word_ahead().as_str() {
            "commit" | "rollback" => reading.ties.push(Change::UntieAll(Cause::Xa)),
            "start" | "begin" => tie(reading, Cause::Xa),
            _ => {}
        },
        // The server closes the connection, and that is the session's end: not one to be replaced.
        Verb::Kill => tie(reading, Cause::Ending),
        Verb::Commit | Verb::Rollback if sql::statement(text, Dialect::default()).releases() => {
            tie(reading, Cause::Ending)
        }
        _ => {}
    }
    reading.ties.extend(locks(text));
}

/// What a text with functions for locks in it does.
pub(crate) fn locks(text: &[u8]) -> Option<Change> {
    if !contains(text, b"_lock") {
        return None;
    }
    if contains(text, b"get_lock") {
        Some(Change::Tie(Cause::UserLock, "".into()))
    } else {
        contains(text, b"release_all_locks").then_some(Change::UntieAll(Cause::UserLock))
    }
}

/// `HANDLER table OPEN [AS alias]`, `HANDLER alias CLOSE`.
fn handler(words: &mut Words<'_>, reading: &mut Reading) {
    let all = words.all_words();
    match all.iter().position(|word| word == "open" || word == "close") {
        Some(at) if all[at] == "open" => {
            let name = all.last().filter(|_| at + 1 < all.len()).or(all.get(at.wrapping_sub(1)));
            let name = name.map_or("", String::as_str);
            reading.ties.push(Change::Tie(Cause::Handler, name.into()));
        }
        Some(at) => {
            let name = all.get(at.wrapping_sub(1)).map_or("", String::as_str);
            reading.ties.push(Change::Untie(Cause::Handler, name.into()));
        }
        None => {}
    }
}

/// Whether `word`, in lower case, is somewhere in the text.
fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// User variables that a statement names, for one that may set them.
pub(crate) fn user_variables(text: &[u8], dialect: Dialect) -> Vec<Cell> {
    let tokens = Lexer::new(text, dialect).filter(|token| token.kind == Kind::UserVariable);
    tokens.map(|token| cell::user(token.of(text))).collect()
}

/// Whether a statement that is no SET may set user variables.
pub(crate) fn may_set(text: &[u8]) -> bool {
    contains(text, b":=") || contains(text, b"into")
}

/// The name behind a statement's first word, or behind PREPARE.
pub(crate) fn name_behind(text: &[u8], dialect: Dialect) -> &[u8] {
    let mut tokens = Lexer::new(text, dialect).filter(Token::is_code).skip(1);
    let name = tokens.find(|token| !token.of(text).eq_ignore_ascii_case(b"prepare"));
    name.map_or(b"", |token| token.of(text))
}

/// The text of `PREPARE name FROM 'text'`, if it can be read without knowing how it is quoted.
pub(crate) fn literal(text: &[u8], dialect: Dialect) -> Option<Vec<u8>> {
    let mut strings = Lexer::new(text, dialect).filter(|token| token.kind == Kind::String);
    let (string, None) = (strings.next()?.of(text), strings.next()) else { return None };
    let [quote, inner @ .., _] = string else { return None };
    let plain = !inner.contains(quote) && !inner.contains(&b'\\');
    plain.then(|| inner.to_vec())
}

/// Whether a text has placeholders.
pub(crate) fn has_parameters(text: &[u8], dialect: Dialect) -> bool {
    Lexer::new(text, dialect).any(|token| token.kind == Kind::Placeholder)
}

/// The statements of a text.
pub(crate) fn parts(text: &[u8], dialect: Dialect) -> Vec<&[u8]> {
    let mut start = 0;
    let mut parts = Vec::new();
    for token in Lexer::new(text, dialect).filter(|token| token.kind == Kind::Semicolon) {
        parts.push(&text[start..token.start]);
        start = token.end;
    }
    parts.push(&text[start..]);
    parts.retain(|part| Lexer::new(part, dialect).any(|token| token.is_code()));
    parts
}

#[cfg(test)]
mod tests {
    use super::{Class, parts, read};
    use sql::Dialect;

    #[test]
    fn statements_have_their_class() {
        for (text, class) in [
            ("SET NAMES utf8mb4", Class::Replayed),
            ("SET NAMES 'latin1' COLLATE latin1_bin;", Class::Replayed),
            ("SET CHARACTER SET DEFAULT", Class::Replayed),
            ("SET @a = 1, @b := @a + 1", Class::Replayed),
            ("SET sql_mode = '', @@session.time_zone = '+00:00'", Class::Replayed),
            ("SET LOCAL group_concat_max_len = DEFAULT", Class::Replayed),
            ("SET sql_mode = CONCAT(@@sql_mode, ',ANSI')", Class::Replayed),
            ("SET SESSION TRANSACTION READ ONLY", Class::Replayed),
            ("SET transaction_isolation = 'SERIALIZABLE'", Class::Replayed),
            ("SET ROLE r", Class::Replayed),
            ("USE d", Class::Replayed),
            ("PREPARE p FROM 'SELECT 1'", Class::Replayed),
            ("DROP PREPARE p", Class::Replayed),
            ("SET TRANSACTION READ ONLY", Class::OneShot),
            ("SET @@transaction_isolation = 'SERIALIZABLE'", Class::OneShot),
            ("SET insert_id = 5", Class::OneShot),
            ("SET rand_seed1 = 5", Class::Local),
            ("SET sql_log_bin = 0", Class::Local),
            ("SET last_insert_id = 5", Class::LastInsertId),
            ("SET @a = NOW()", Class::Once),
            ("SET @a = CURRENT_TIMESTAMP", Class::Once),
            ("SET @a = (SELECT 1)", Class::Once),
            ("SET @a = LAST_INSERT_ID()", Class::Once),
            ("SET @a = @@global.sql_mode", Class::Once),
            ("SET @a = @@warning_count", Class::Once),
            ("SET @a = f(1)", Class::Once),
            ("SET sql_mode = f(1)", Class::Local),
            ("SET no_such_variable = 1", Class::Verbatim),
            ("SET @a = (@b := 1)", Class::Local),
            ("SET @a = (@b := NOW())", Class::Local),
            ("SET NAMES latin1, time_zone = '+00:00'", Class::Verbatim),
            ("SET CHARACTER SET latin1, @a = 1", Class::Verbatim),
            ("SET ROLE r, s", Class::Verbatim),
            ("SET STATEMENT a = 1 FOR USE d", Class::Verbatim),
            ("SET", Class::Verbatim),
            ("SET @a", Class::Verbatim),
            ("SET @a = 1 1, ", Class::Verbatim),
            ("SET GLOBAL a = 1", Class::Other),
            ("SET @@persist.a = 1", Class::Other),
            ("SET PASSWORD = 'x'", Class::Other),
            ("SET DEFAULT ROLE r TO u", Class::Other),
            ("SET GLOBAL a = 1, b = 2", Class::Other),
            ("SET GLOBAL a = 1, @@persist.c = 1, b = 2", Class::Other),
            ("DROP TABLE t", Class::Other),
            ("SELECT 1", Class::Other),
            ("", Class::Other),
        ] {
            assert_eq!(read(text.as_bytes(), Dialect::default()).class, class, "{text}");
        }
    }

    #[test]
    fn of_a_mixed_set_the_session_s_part_is_kept() {
        let kept = |text: &str| {
            read(text.as_bytes(), Dialect::default())
                .text
                .map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(
            kept("SET GLOBAL a = 1, SESSION sql_mode = '', @b = 2").as_deref(),
            Some("SET @@SESSION.sql_mode = '', @b = 2")
        );
        assert_eq!(
            kept("SET @@global.a=1, time_zone='x'").as_deref(),
            Some("SET @@SESSION.time_zone = 'x'")
        );
        // A scope word holds until the next one, over what has none.
        assert_eq!(
            kept("SET GLOBAL a = 1, b = 2, @c = 3, d = 4, @@time_zone = 'x', LOCAL sql_mode = '', lc_time_names = 'y'").as_deref(),
            Some("SET @c = 3, @@time_zone = 'x', @@SESSION.sql_mode = '', @@SESSION.lc_time_names = 'y'")
        );
        assert_eq!(kept("SET @a = 1"), None);
    }

    #[test]
    fn what_a_statement_reads_keeps_what_it_reads() {
        let reading = read(b"SET @a = CONCAT(@b, 'x', @@sql_mode)", Dialect::default());
        for cell in ["@b", "@@sql_mode", "@@collation_connection"] {
            assert!(reading.reads.iter().any(|read| &**read == cell), "{cell}");
        }
        assert_eq!(reading.writes, ["@a".into()]);
        let reading = read(b"SET optimizer_switch = 'mrr=on'", Dialect::default());
        assert!(reading.reads.contains(&reading.writes[0]));
        assert!(read(b"SET NAMES 'utf8mb4'", Dialect::default()).reads.is_empty());
    }

    #[test]
    fn texts_of_several_statements_are_cut() {
        let found = parts(b"SET @a = ';'; /* x */ ; SELECT 1;", Dialect::default());
        assert_eq!(found, [&b"SET @a = ';'"[..], b" SELECT 1"]);
    }

    proptest::proptest! {
        /// Nothing panics on any text, and whatever begins like a SET has some class.
        #[test]
        fn any_text_is_read(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40), at in 0..6_usize) {
            let head = ["SET ", "SET @a = ", "PREPARE ", "HANDLER ", "DROP TABLE ", ""][at];
            let text = [head.as_bytes(), &bytes].concat();
            read(&text, Dialect::default());
            parts(&text, Dialect::default());
        }
    }
}
