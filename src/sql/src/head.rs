//! What a statement's first tokens say.

mod explain;
mod schema;
mod set;
mod transaction;

use crate::{
    Class, Needs, Span, Verb,
    cursor::Cursor,
    lexer::{Kind, Token},
    scan::Mode,
};

/// What the first tokens say, before the rest is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) verb: Verb,
    pub(crate) class: Class,
    pub(crate) needs: Needs,
    pub(crate) implicit_commit: bool,
    pub(crate) schema: Option<Span>,
    /// An EXPLAIN that runs what it explains.
    pub(crate) runs: bool,
    /// How to look at the rest.
    pub(crate) mode: Mode,
}

/// Reads the verb and what it needs to know. Leaves `cursor` right behind the statement's first
/// word, if it starts with one, so that the rest can be looked at whole.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Head {
    let mut ahead = cursor.clone();
    let Some(first) = first_word(&mut ahead) else { return Head::default() };
    *cursor = ahead.clone();
    let verb = Verb::of(cursor.of(first));
    let head = of(verb, &mut ahead);
    // What is explained or set for one statement only has its own verb.
    let verb = if head.verb == Verb::Unknown { verb } else { head.verb };
    Head { verb, ..head }
}

impl Head {
    fn new(class: Class) -> Self {
        Self { class, ..Self::default() }
    }

    fn committing(class: Class) -> Self {
        Self { class, implicit_commit: true, ..Self::default() }
    }
}

/// The first word behind parentheses; `None` if there is something else.
fn first_word(cursor: &mut Cursor<'_>) -> Option<Token> {
    loop {
        match cursor.next()? {
            token if token.kind == Kind::Open => {}
            token => return Some(token).filter(|token| token.kind == Kind::Word),
        }
    }
}

/// `cursor` is behind the verb.
fn of(verb: Verb, cursor: &mut Cursor<'_>) -> Head {
    match verb {
        Verb::Select | Verb::Table | Verb::Values => Head::new(Class::Read),
        Verb::With => with(cursor),
        Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace => Head::new(Class::Write),
        Verb::Do | Verb::Handler | Verb::Signal | Verb::Resignal | Verb::Xa => {
            Head::new(Class::Write)
        }
        Verb::Get => {
            Head { needs: Needs { last_used: true, ..Needs::default() }, ..Head::new(Class::Write) }
        }
        Verb::Load if cursor.sees("index") => Head::committing(Class::Admin),
        Verb::Load => Head::new(Class::Write),
        Verb::Begin => transaction::begin(cursor),
        Verb::Start => transaction::start(cursor),
        Verb::Commit | Verb::Rollback => transaction::end(verb, cursor),
        Verb::Savepoint => Head::new(Class::Savepoint),
        Verb::Release if cursor.sees("savepoint") => Head::new(Class::Savepoint),
        Verb::Set => set::set(cursor),
        Verb::Use => schema::use_schema(cursor),
        Verb::Create | Verb::Alter | Verb::Drop => schema::define(verb, cursor),
        Verb::Truncate | Verb::Rename | Verb::Grant | Verb::Revoke => Head::committing(Class::Ddl),
        Verb::Prepare => Head::new(Class::Prepare),
        // EXECUTE IMMEDIATE has a text of its own.
        Verb::Execute if cursor.sees("immediate") => Head::new(Class::Write),
        Verb::Execute => Head::new(Class::Execute),
        Verb::Deallocate => Head::new(Class::Deallocate),
        Verb::Lock => Head { implicit_commit: !cursor.sees("instance"), ..Head::new(Class::Lock) },
        Verb::Unlock => {
            Head { implicit_commit: !cursor.sees("instance"), ..Head::new(Class::Unlock) }
        }
        Verb::Flush => flush(cursor),
        Verb::Show => explain::show(cursor),
        Verb::Help => Head { mode: Mode::Show, ..Head::new(Class::Show) },
        Verb::Explain | Verb::Describe => explain::explain(cursor),
        Verb::Analyze => explain::analyze(cursor),
        Verb::Call => Head::new(Class::Call),
        Verb::Kill => Head::new(Class::Kill),
        Verb::Reset => Head { implicit_commit: !cursor.sees("persist"), ..Head::new(Class::Admin) },
        Verb::Backup
        | Verb::Binlog
        | Verb::Checksum
        | Verb::Clone
        | Verb::Purge
        | Verb::Restart => Head::new(Class::Admin),
        Verb::Cache
        | Verb::Change
        | Verb::Check
        | Verb::Import
        | Verb::Install
        | Verb::Optimize
        | Verb::Repair
        | Verb::Shutdown
        | Verb::Stop
        | Verb::Uninstall => Head::committing(Class::Admin),
        Verb::Release | Verb::Unknown => Head::default(),
    }
}

/// Looks through common table expressions to the statement that uses them:
/// `WITH [RECURSIVE] name [(columns)] AS (query) [CYCLE columns RESTRICT], ... statement`.
fn with(cursor: &mut Cursor<'_>) -> Head {
    let verb = main_verb(cursor).unwrap_or_default();
    let class = match verb {
        Verb::Select | Verb::Table | Verb::Values => Class::Read,
        Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace => Class::Write,
        _ => Class::Unknown,
    };
    Head { verb, ..Head::new(class) }
}

fn main_verb(cursor: &mut Cursor<'_>) -> Option<Verb> {
    cursor.accept("recursive");
    loop {
        cursor.next_here()?;
        if cursor.ahead()?.kind == Kind::Open {
            cursor.skip_group()?;
        }
        cursor.accept("as").then_some(())?;
        cursor.skip_group()?;
        if cursor.accept("cycle") {
            while !cursor.accept("restrict") {
                cursor.next_here()?;
            }
        }
        if !cursor.accept_kind(Kind::Comma) {
            break;
        }
    }
    let word = first_word(cursor)?;
    Some(Verb::of(cursor.of(word)))
}

/// A global read lock, or one of tables, belongs to the connection until UNLOCK TABLES.
fn flush(cursor: &mut Cursor<'_>) -> Head {
    while let Some(token) = cursor.next_here() {
        if token.kind == Kind::Word
            && (two(cursor, token, "read", "lock") || two(cursor, token, "for", "export"))
        {
            return Head::committing(Class::Lock);
        }
    }
    Head::committing(Class::Admin)
}

/// Whether `token`, which `cursor` is behind, and the word ahead are these.
fn two(cursor: &Cursor<'_>, token: Token, first: &str, second: &str) -> bool {
    cursor.of(token).eq_ignore_ascii_case(first.as_bytes()) && cursor.sees(second)
}
