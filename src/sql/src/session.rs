//! What a text does to the session that runs it.
//!
//! ```text
//! text ──▶ session_command() ──▶ Nothing                   most texts, without an allocation
//!                            ├─▶ Steps: one per statement  class, cells read and written, holds
//!                            └─▶ Unreadable                nobody may guess what it does
//! ```
//!
//! A [`Cell`] is a piece of a session's state: two commands can change places, or the first be
//! left out, if no cell forbids it. What stored programs, triggers and views do is not seen here.
//!
//! Sources: MySQL manual, "SET Syntax for Variable Assignment", "Prepared Statements", "USE
//! Statement"; MariaDB manual, "SET", "SET STATEMENT", "PREPARE Statement". Where the manuals are
//! silent it was tried with MySQL 9.7 and MariaDB 10.11, and the table of the tests tries it again.

mod assignment;
mod cell;
mod class;
mod held;
mod locks;
mod prepared;
mod read;
mod set;
mod taken;
mod value;
mod variables;
mod work;

pub use assignment::{Assignment, Scope, Target};
pub use cell::Cell;
pub use class::Class;
pub use held::{Held, Hold, Table};
pub use prepared::Source;
pub use read::{session_command, user_variables};
pub use taken::prepared_with;
pub use value::{Null, Value, ValueKind};
pub use variables::{Variable, variable};

use crate::{
    Span,
    cursor::Cursor,
    lexer::{Kind, Token},
};

/// What a text does to its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing of the session's is changed, as far as the text shows.
    Nothing,
    /// Every statement of the text, in order; at least one of them is of interest.
    Steps(Vec<Step>),
    /// It may change anything, and read anything.
    Unreadable(Unreadable),
}

/// One statement of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// From its first token to its last.
    pub span: Span,
    /// How a proxy may treat it. Of several assignments, the one that binds most; those that are
    /// not the session's count only if there are no others.
    pub class: Class,
    /// What it is.
    pub action: Action,
    /// Cells that its outcome depends on.
    pub reads: Vec<Cell>,
    /// Cells that have another value afterwards. If it succeeds they are surely written, except by
    /// what is no session command ([`Class::NotSession`]) or is unknown: that may have written them.
    pub writes: Vec<Cell>,
    /// What it takes or gives back that only this connection has, in order.
    pub holds: Vec<Hold>,
}

/// What a statement is, as far as it concerns a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// `SET`, except `SET STATEMENT`.
    Set(Vec<Assignment>),
    /// `USE`.
    Use {
        /// The name, with its quotes.
        schema: Span,
    },
    /// `PREPARE name FROM ...`. A failure drops a statement of that name all the same.
    Prepare {
        /// The name, with its quotes.
        name: Span,
        /// What is prepared.
        source: Source,
    },
    /// `EXECUTE name`: does what was prepared under it.
    Execute {
        /// The name, with its quotes.
        name: Span,
    },
    /// `DEALLOCATE PREPARE`, `DROP PREPARE`.
    Deallocate {
        /// The name, with its quotes.
        name: Span,
    },
    /// Anything else.
    #[default]
    Work,
}

/// Why a text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreadable {
    /// Servers may cut it in another way: something is left open, is no character of the charset,
    /// or is code for some of them only.
    Doubtful,
    /// It follows no form that is known; servers may refuse it.
    Grammar,
    /// A name in it is written such that servers differ in which other names are the same.
    Name,
    /// A value assigns to a variable itself: `SET @a = (@b := 1)`.
    Nested,
    /// It is a block of statements, or has one in a place where its end is not seen.
    Program,
    /// Its first word begins no statement that is known.
    Statement,
    /// It runs a text that is not a statement of its own: `EXECUTE IMMEDIATE`.
    Immediate,
    /// `SET STATEMENT ... FOR` a session command: what lasts of it is not known.
    ForOneStatement,
}

impl Effect {
    /// The statements that were read; empty if there is nothing to say, or if it cannot be said.
    pub fn steps(&self) -> &[Step] {
        match self {
            Self::Steps(steps) => steps,
            Self::Nothing | Self::Unreadable(_) => &[],
        }
    }
}

impl Step {
    /// The parts of a `SET`; empty for any other statement.
    pub fn assignments(&self) -> &[Assignment] {
        match &self.action {
            Action::Set(assignments) => assignments,
            _ => &[],
        }
    }

    /// Whether it also sets something that is not the session's: such a statement is to be executed
    /// once, and the session has only [`own_text`](Self::own_text) of it.
    pub fn is_mixed(&self) -> bool {
        let foreign = |part: &Assignment| part.class == Class::NotSession;
        let assignments = self.assignments();
        assignments.iter().any(foreign) && !assignments.iter().all(foreign)
    }

    /// A `SET` of nothing but what is the session's, each variable with its scope. `None` where the
    /// statement itself is that, or where nothing of it is the session's.
    pub fn own_text(&self, text: &[u8]) -> Option<Vec<u8>> {
        if !self.is_mixed() {
            return None;
        }
        self.text_of(text, |part| part.class != Class::NotSession)
    }

    /// A `SET` of those parts that `keeps` takes, each variable with its scope. `None` if there are
    /// none. As all values of a SET are found before the first is set, it gives the same as the whole
    /// does where nothing of what it reads was set by the others.
    pub fn text_of(&self, text: &[u8], keeps: impl Fn(&Assignment) -> bool) -> Option<Vec<u8>> {
        let parts = self.assignments().iter().filter(|part| keeps(part));
        let parts: Vec<_> = parts.map(|part| part.alone(text)).collect();
        (!parts.is_empty()).then(|| [b"SET ".as_slice(), &parts.join(&b", "[..])].concat())
    }

    /// Whether there is nothing to say about it.
    pub(crate) fn is_plain(&self) -> bool {
        self.class == Class::NotSession
            && self.action == Action::Work
            && self.reads.is_empty()
            && self.writes.is_empty()
            && self.holds.is_empty()
    }
}

impl Unreadable {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Doubtful => "servers may read it in another way",
            Self::Grammar => "it follows no form that is known",
            Self::Name => "a name in it may be the same as another",
            Self::Nested => "a value in it assigns to a variable",
            Self::Program => "it has a block of statements",
            Self::Statement => "its first word begins no known statement",
            Self::Immediate => "it runs a text that it makes",
            Self::ForOneStatement => "it is a session command for one statement",
        }
    }
}

/// The bytes at `span` of what `cursor` reads.
fn bytes<'a>(cursor: &Cursor<'a>, span: &Span) -> &'a [u8] {
    cursor.of(Token { kind: Kind::Operator, start: span.start, end: span.end })
}

/// Whether a token can be a name.
fn is_name(token: Token) -> bool {
    matches!(token.kind, Kind::Word | Kind::QuotedName)
}

/// The next token of a statement; stays before a semicolon.
fn next(cursor: &mut Cursor<'_>) -> Option<Token> {
    let mut ahead = cursor.clone();
    let token = ahead.next_here()?;
    *cursor = ahead;
    Some(token)
}
