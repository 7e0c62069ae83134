//! What stands anywhere in a text and changes what it is.

mod blocks;

use crate::{
    Dialect, Needs, Server,
    cursor::Cursor,
    functions::{Call, call},
    lexer::{Kind, Token},
    words::Words,
};
use blocks::Blocks;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Something that a plain read has not: a lock, a target, an assignment, a function that is
    /// not known to be harmless, or text that a server may read in another way.
    pub(crate) unsafe_read: bool,
    /// A second statement.
    pub(crate) multi: bool,
    pub(crate) needs: Needs,
}

/// Where to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everywhere.
    #[default]
    Plain,
    /// From WHERE on: what stands before it are names of things to show.
    Show,
    /// `:=` is how variables are set here.
    Set,
    /// A stored program, whose blocks hold semicolons of their own.
    Program {
        /// Blocks that are open already.
        open: usize,
    },
}

/// Looks at every token that `cursor` has left, also behind a semicolon.
pub(crate) fn scan(mut cursor: Cursor<'_>, dialect: Dialect, mode: Mode) -> Findings {
    let mut scan = Scan {
        dialect,
        mode,
        armed: mode != Mode::Show,
        last: Last::Other,
        keyword: None,
        after_quotes: false,
        ended: false,
        found: Findings::default(),
    };
    let mut blocks = match mode {
        Mode::Program { open } => Blocks::new(open),
        _ => Blocks::new(0),
    };
    while let Some(token) = cursor.next() {
        if let Mode::Program { .. } = mode {
            blocks.step(token, &cursor);
        }
        if token.kind == Kind::Semicolon {
            scan.ended |= blocks.is_outside();
            (scan.last, scan.keyword, scan.after_quotes) = (Last::Other, None, false);
        } else {
            scan.found.multi |= scan.ended;
            scan.step(token, &cursor);
        }
    }
    scan.found.unsafe_read |= cursor.is_doubtful();
    scan.found
}

struct Scan {
    dialect: Dialect,
    mode: Mode,
    /// Whether what is found counts yet.
    armed: bool,
    last: Last,
    /// The last token, if it was one of these.
    keyword: Option<Keyword>,
    after_quotes: bool,
    ended: bool,
    found: Findings,
}

/// What the last token was, as far as an opening parenthesis must know.
#[derive(Clone, Copy)]
enum Last {
    Other,
    /// A word or name that calls a function if a parenthesis follows; `alias` if what it stands
    /// behind says that it does not: the end of a derived table, of MATCH (), a string.
    Callable {
        token: Token,
        alias: bool,
    },
    /// The same behind a dot: never the server's own function.
    Qualified,
    Dot,
    Close,
    /// `) AS`.
    CloseAs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyword {
    As,
    For,
    Into,
    Lock,
    Next,
    Procedure,
    Share,
    Update,
    Value,
    Where,
}

static KEYWORDS: Words<Keyword, 128> = Words::new(&[
    (Keyword::As, &["as"]),
    (Keyword::For, &["for"]),
    (Keyword::Into, &["into"]),
    (Keyword::Lock, &["lock"]),
    (Keyword::Next, &["next", "previous"]),
    (Keyword::Procedure, &["procedure"]),
    (Keyword::Share, &["share"]),
    (Keyword::Update, &["update"]),
    (Keyword::Value, &["value"]),
    (Keyword::Where, &["where"]),
]);

/// Variables that only one connection knows.
static VARIABLES: Words<Call, 32> = Words::new(&[
    (Call::LastWrite, &["identity", "last_insert_id", "insert_id", "last_gtid"]),
    (Call::LastUsed, &["warning_count", "error_count"]),
]);

impl Scan {
    fn step(&mut self, token: Token, cursor: &Cursor<'_>) {
        let mut keyword = None;
        self.last = match token.kind {
            Kind::Word if matches!(self.last, Last::Dot) => {
                self.sequence(cursor.of(token));
                Last::Qualified
            }
            Kind::QuotedName if matches!(self.last, Last::Dot) => Last::Qualified,
            Kind::Word => {
                keyword = KEYWORDS.get(cursor.of(token));
                self.word(token, keyword)
            }
            Kind::QuotedName => self.callable(token),
            // Under ANSI_QUOTES this would be a name.
            Kind::String if cursor.of(token).starts_with(b"\"") => self.callable(token),
            Kind::Open => {
                self.open(cursor);
                Last::Other
            }
            Kind::Close => Last::Close,
            Kind::Dot => Last::Dot,
            Kind::UserVariable => {
                // Behind a name or string in quotes it is the host of an account.
                self.found.needs.user_variables |= !self.after_quotes;
                Last::Other
            }
            Kind::SystemVariable => {
                self.system_variable(cursor.of(token));
                Last::Other
            }
            Kind::Operator => {
                if self.mode != Mode::Set && cursor.of(token) == b":=" {
                    self.distrust();
                }
                Last::Other
            }
            _ => Last::Other,
        };
        self.keyword = keyword;
        self.after_quotes = matches!(token.kind, Kind::String | Kind::QuotedName);
    }

    fn distrust(&mut self) {
        self.found.unsafe_read |= self.armed;
    }

    fn word(&mut self, token: Token, keyword: Option<Keyword>) -> Last {
        use Keyword::{As, For, Into, Lock, Next, Procedure, Share, Update, Value, Where};
        match (self.keyword, keyword) {
            // FOR UPDATE, LOCK IN SHARE MODE, INTO OUTFILE, PROCEDURE ANALYSE, NEXT VALUE FOR.
            (_, Some(Lock | Into | Procedure))
            | (Some(For), Some(Update | Share))
            | (Some(Next), Some(Value)) => self.distrust(),
            (_, Some(Where)) => self.armed = true,
            (_, Some(As)) if matches!(self.last, Last::Close) => return Last::CloseAs,
            _ => {}
        }
        self.callable(token)
    }

    fn callable(&self, token: Token) -> Last {
        let alias = self.after_quotes || matches!(self.last, Last::Close | Last::CloseAs);
        Last::Callable { token, alias }
    }

    /// MariaDB's `sequence.nextval`, in sql_mode=ORACLE.
    fn sequence(&mut self, word: &[u8]) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("nextval") || is("currval") {
            self.distrust();
        }
    }

    /// Behind the parenthesis that `self.last` stands before.
    fn open(&mut self, cursor: &Cursor<'_>) {
        let (token, alias) = match self.last {
            Last::Callable { token, alias } => (token, alias),
            Last::Qualified => return self.distrust(),
            _ => return,
        };
        let known = if token.kind == Kind::Word { call(cursor.of(token)) } else { None };
        let unsure = match known {
            Some(Call::Harmless) => false,
            Some(Call::HarmlessSince(since)) => !self.is_since(since),
            Some(state) => {
                // Of the statement before, which is in the same text.
                let answered =
                    self.found.multi && cursor.of(token).eq_ignore_ascii_case(b"row_count");
                if !answered {
                    self.need(state);
                }
                // LAST_INSERT_ID(expr) sets it.
                cursor.ahead().is_some_and(|token| token.kind != Kind::Close)
            }
            None => true,
        };
        // No call has a query for its argument without another parenthesis.
        if unsure && !alias && !cursor.sees("select") && !is_column_list(cursor) {
            self.distrust();
        }
    }

    fn is_since(&self, since: Server) -> bool {
        let server = self.dialect.server;
        server.is_some_and(|here| here.vendor == since.vendor && here.version >= since.version)
    }

    fn system_variable(&mut self, text: &[u8]) {
        let name = text.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
        let name = name.strip_prefix(b"@@").unwrap_or(name);
        let name = name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name);
        if let Some(state) = VARIABLES.get(name) {
            self.need(state);
        } else if name.eq_ignore_ascii_case(b"session") || name.eq_ignore_ascii_case(b"local") {
            // `@@session . name`: the name is another token, and may be any of them.
            self.need(Call::LastWrite);
            self.need(Call::LastUsed);
        }
    }

    fn need(&mut self, state: Call) {
        let needs = &mut self.found.needs;
        match state {
            Call::LastWrite => needs.last_write = true,
            Call::LastUsed => needs.last_used = true,
            Call::Harmless | Call::HarmlessSince(_) => {}
        }
    }
}

/// Whether the parenthesis just opened holds the columns of a common table expression:
/// `name (a, b) AS (`. No call looks like that.
fn is_column_list(cursor: &Cursor<'_>) -> bool {
    let mut cursor = cursor.clone();
    loop {
        if !cursor.accept_kind(Kind::Word) && !cursor.accept_kind(Kind::QuotedName) {
            return false;
        }
        if !cursor.accept_kind(Kind::Comma) {
            break;
        }
    }
    cursor.accept_kind(Kind::Close) && cursor.accept("as") && cursor.accept_kind(Kind::Open)
}
