//! A statement in a few words: what it does, and to which tables.

use crate::{
    Dialect, Verb,
    cursor::Cursor,
    lexer::{Kind, Lexer, Token},
};

/// How long a summary is at most, in characters.
pub const SUMMARY_LIMIT: usize = 255;

/// What `text` does and to which tables, in its order: `SELECT orders items`, `INSERT log SELECT
/// orders`, `CREATE TABLE t`. Names are as they are written, without quotes; no value is ever in it.
/// Of several statements, the first. Empty where no verb is known.
///
/// Whole words alone, of [`SUMMARY_LIMIT`] characters at most. Source: OpenTelemetry, "Semantic
/// conventions for database client spans", generating a summary of the query.
///
/// ```
/// use sql::{Dialect, summary};
///
/// let text = b"SELECT a FROM orders o, `my items` JOIN x.y ON 1 WHERE b IN (SELECT c FROM d)";
/// assert_eq!(summary(text, Dialect::default()), "SELECT orders my items x.y SELECT d");
/// ```
pub fn summary(text: &[u8], dialect: Dialect) -> String {
    let mut writer = Writer {
        cursor: Cursor::new(Lexer::new(text, dialect)),
        out: String::new(),
        levels: vec![Level::default()],
        full: false,
    };
    writer.run();
    writer.out
}

/// What has been seen between two parentheses.
#[derive(Clone, Copy, Default)]
struct Level {
    /// A verb that has a FROM. Functions have one of their own: `EXTRACT(YEAR FROM d)`.
    reads: bool,
    /// In a list of tables: a comma is followed by another.
    listing: bool,
}

struct Writer<'a> {
    cursor: Cursor<'a>,
    out: String,
    levels: Vec<Level>,
    full: bool,
}

/// Words between a verb and the table that it is about.
const PASSED: &[&str] = &[
    "low_priority",
    "high_priority",
    "delayed",
    "quick",
    "ignore",
    "into",
    "from",
    "if",
    "not",
    "exists",
    "only",
    "table",
    "temporary",
    "concurrent",
];

/// Kinds of things that definitions are about, and whether the name that follows is told.
const OBJECTS: &[(&str, bool)] = &[
    ("table", true),
    ("view", true),
    ("database", true),
    ("schema", true),
    ("index", false),
    ("procedure", true),
    ("function", true),
    ("trigger", true),
    ("event", true),
    ("user", false),
    ("role", false),
    ("sequence", true),
    ("server", false),
    ("tablespace", false),
];

impl<'a> Writer<'a> {
    fn run(&mut self) {
        let (mut first, mut with) = (true, false);
        while let Some(token) = self.cursor.next_here() {
            match token.kind {
                Kind::Open => self.levels.push(Level::default()),
                Kind::Close if self.levels.len() > 1 => drop(self.levels.pop()),
                Kind::Comma if self.level().listing => self.table(),
                Kind::Word => {
                    let word = self.cursor.of(token);
                    // Behind WITH there are names and parentheses, then the verb.
                    let verb = Verb::of(word);
                    let begins = first || with && self.levels.len() == 1 && changes_or_reads(verb);
                    let went_on = if begins { self.verb(word) } else { self.later(word) };
                    if !went_on {
                        return;
                    }
                    with = verb == Verb::With && first || with && !begins;
                    first = false;
                }
                _ => {}
            }
            if self.full {
                return;
            }
        }
    }

    /// The first word. False if nothing is to be looked for behind it.
    fn verb(&mut self, word: &[u8]) -> bool {
        let verb = Verb::of(word);
        match verb {
            Verb::Unknown => return false,
            Verb::With => return true,
            _ => self.put(&verb.as_str().to_ascii_uppercase()),
        }
        match verb {
            Verb::Select => self.level().reads = true,
            Verb::Delete => {
                self.level().reads = true;
                self.skip_to_from();
            }
            Verb::Insert | Verb::Replace | Verb::Update | Verb::Truncate | Verb::Table => {
                self.pass();
                self.table();
                self.level().listing = verb == Verb::Update;
            }
            Verb::Call => self.table(),
            Verb::Create | Verb::Alter | Verb::Drop => return self.definition(),
            Verb::Load => self.load(),
            Verb::Show | Verb::Lock | Verb::Unlock | Verb::Start | Verb::Xa => {
                self.keyword();
                return false;
            }
            Verb::Explain | Verb::Describe => return !self.cursor.at_end(),
            _ => return false,
        }
        true
    }

    fn later(&mut self, word: &[u8]) -> bool {
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        if is("select") {
            self.put("SELECT");
            *self.level() = Level { reads: true, listing: false };
        } else if (is("from") && self.level().reads) || is("join") || is("straight_join") {
            self.table();
            self.level().listing = true;
        } else if ["where", "set", "group", "order", "limit", "having", "union"]
            .iter()
            .any(|end| is(end))
        {
            self.level().listing = false;
        }
        true
    }

    /// `DELETE a, b FROM t` names `t` last.
    fn skip_to_from(&mut self) {
        self.cursor.accept_any(&["low_priority", "quick", "ignore"]);
    }

    /// CREATE, ALTER, DROP: the kind of thing, and the name of one that holds data.
    fn definition(&mut self) -> bool {
        while let Some(token) = self.cursor.next_here() {
            if token.kind != Kind::Word {
                continue;
            }
            let word = self.cursor.of(token);
            let kind = OBJECTS.iter().find(|(kind, _)| word.eq_ignore_ascii_case(kind.as_bytes()));
            if let Some((kind, named)) = kind {
                self.put(&kind.to_ascii_uppercase());
                if *named {
                    self.pass();
                    self.table();
                }
                return false;
            }
        }
        false
    }

    fn load(&mut self) {
        while let Some(token) = self.cursor.next_here() {
            if token.kind == Kind::Word && self.cursor.of(token).eq_ignore_ascii_case(b"into") {
                self.pass();
                self.table();
                return;
            }
        }
    }

    fn pass(&mut self) {
        while self.cursor.accept_any(PASSED) {}
    }

    /// The word ahead, if there is one: a keyword.
    fn keyword(&mut self) {
        let word = self.cursor.word_ahead();
        let plain = word.iter().all(u8::is_ascii_alphabetic);
        if !word.is_empty() && plain {
            self.put(&String::from_utf8_lossy(word).to_ascii_uppercase());
        }
    }

    /// The name ahead, with its parts. Nothing if something else is.
    fn table(&mut self) {
        while self.cursor.accept_any(&["lateral", "only"]) {}
        let names = |token: &Token| matches!(token.kind, Kind::Word | Kind::QuotedName);
        if !self.cursor.ahead().as_ref().is_some_and(names) {
            return;
        }
        let mut name = String::new();
        while let Some(token) = self.cursor.ahead().filter(names) {
            self.cursor.next();
            name.push_str(&plain(self.cursor.of(token), token.kind));
            if !self.cursor.accept_kind(Kind::Dot) {
                break;
            }
            name.push('.');
        }
        self.put(&name);
    }

    fn level(&mut self) -> &mut Level {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn put(&mut self, word: &str) {
        let length = self.out.chars().count() + word.chars().count() + 1;
        if self.full || length > SUMMARY_LIMIT + usize::from(self.out.is_empty()) {
            self.full = true;
            return;
        }
        if !self.out.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(word);
    }
}

fn changes_or_reads(verb: Verb) -> bool {
    matches!(verb, Verb::Select | Verb::Insert | Verb::Replace | Verb::Update | Verb::Delete)
}

/// A name without its quotes.
fn plain(name: &[u8], kind: Kind) -> String {
    let name = String::from_utf8_lossy(name);
    match kind {
        Kind::QuotedName => name.trim_matches(['`', '"']).to_owned(),
        _ => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{SUMMARY_LIMIT, summary};
    use crate::Dialect;

    #[test]
    fn verbs_and_tables_in_their_order() {
        for (text, expected) in [
            ("SELECT 1", "SELECT"),
            ("select c from sbtest1 where id=5", "SELECT sbtest1"),
            ("/* a */ SELECT a FROM t1 AS x LEFT JOIN t2 ON 1, t3 LIMIT 1, 2", "SELECT t1 t2 t3"),
            ("SELECT EXTRACT(YEAR FROM d), TRIM('x' FROM e) FROM t", "SELECT t"),
            ("INSERT INTO a.b (x, y) SELECT x, y FROM c", "INSERT a.b SELECT c"),
            ("INSERT t VALUES (1) ON DUPLICATE KEY UPDATE x = 1", "INSERT t"),
            ("REPLACE DELAYED `t` SET a = 'from s'", "REPLACE t"),
            ("UPDATE LOW_PRIORITY a, b SET a.x = 1, b.y = 2", "UPDATE a b"),
            ("DELETE FROM t WHERE a IN (SELECT b FROM u)", "DELETE t SELECT u"),
            ("DELETE a, b FROM t JOIN a", "DELETE t a"),
            ("SELECT * FROM (SELECT 1 FROM x) y, z FOR UPDATE", "SELECT SELECT x z"),
            ("WITH q AS (SELECT 1) SELECT * FROM q", "SELECT SELECT q"),
            (
                "WITH q AS (SELECT 1), r(a) AS (SELECT 2) UPDATE t, q SET b = 1",
                "SELECT SELECT UPDATE t q",
            ),
            ("CREATE TEMPORARY TABLE IF NOT EXISTS t (a INT)", "CREATE TABLE t"),
            ("CREATE USER 'u'@'%' IDENTIFIED BY 'secret'", "CREATE USER"),
            ("ALTER USER u IDENTIFIED BY 'secret'", "ALTER USER"),
            ("DROP TABLE IF EXISTS a, b", "DROP TABLE a"),
            ("SET PASSWORD = 'secret'", "SET"),
            ("SHOW TABLES LIKE 'a'", "SHOW TABLES"),
            ("CALL p(1)", "CALL p"),
            ("LOAD DATA LOCAL INFILE 'f' INTO TABLE t", "LOAD t"),
            ("START TRANSACTION", "START TRANSACTION"),
            ("TRUNCATE TABLE t", "TRUNCATE t"),
            ("EXPLAIN SELECT a FROM t", "EXPLAIN SELECT t"),
            ("SELECT 1 FROM a; SELECT 2 FROM b", "SELECT a"),
            ("nonsense", ""),
            ("", ""),
            (")))) SELECT a FROM t", "SELECT t"),
        ] {
            assert_eq!(summary(text.as_bytes(), Dialect::default()), expected, "{text}");
        }
    }

    #[test]
    fn it_is_short_and_of_whole_words() {
        let tables: Vec<_> = (0..200).map(|n| format!("table{n}")).collect();
        let text = format!("SELECT 1 FROM {}", tables.join(", "));
        let short = summary(text.as_bytes(), Dialect::default());
        assert!(short.len() <= SUMMARY_LIMIT && short.len() > SUMMARY_LIMIT - 10, "{short}");
        assert!(short.split(' ').skip(1).all(|word| tables.iter().any(|table| table == word)));
    }
}
