//! What a session has set, for the connections that lack a part of it.

use super::Fact;
use crate::{reply::Answer, topology::Server};
use bytes::Bytes;
use std::{fmt, sync::Arc};
use wire::command::CommandCode;

/// A place in a session's log: counted from 1, and never used twice.
pub type Lsn = u64;

/// What a connection is like after the commands that made it so: a keyed hash, of this process
/// alone. Equal ids are equal states. Aligned as other numbers are: sessions keep many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(Rust, packed(8))]
pub struct StateId(pub u128);

/// The session's log as it was when the command was sent, and what the command adds to it. On a
/// command only where there is something to say. Writer: `session-commands`; readers: `route`,
/// `catch-up`, the dispatcher.
#[derive(Clone, Debug, Default)]
pub struct SessionLog {
    /// What a connection must have executed before the command, in this order.
    pub entries: Arc<Vec<Arc<LogEntry>>>,
    /// The command is a session command itself.
    pub this: Option<This>,
    /// Counts what the log cannot repeat: connections from before are beyond repair, all but the
    /// one used last. (The session's schema was dropped: nothing takes another connection there.)
    pub generation: u32,
    /// Whether the session has left the schema of its login for none.
    pub schemaless: bool,
    /// Whether it is in none since a schema was dropped: nothing takes another connection there.
    pub nowhere: bool,
    /// What the entries make of a connection that has just logged in, without the statements that
    /// COM_STMT_PREPARE has prepared. `None` if nobody can say.
    pub state: Option<StateId>,
}

/// What a session command becomes if its reply is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct This {
    /// Its place in the log.
    pub lsn: Lsn,
    /// The session's id for the statement that it prepares.
    pub statement: Option<u32>,
}

/// One session command that has succeeded.
pub struct LogEntry {
    /// Its place.
    pub lsn: Lsn,
    /// The command.
    pub code: CommandCode,
    /// What follows the command byte; of COM_QUERY the statement's text alone.
    pub payload: Bytes,
    /// What a server must answer for the session to be in the same state there.
    pub expected: Expected,
    /// Of a statement that COM_STMT_PREPARE has prepared: its text, and all that it takes from its
    /// connection. Entries with equal ids are one statement to a server. `None` if nobody can say.
    pub context: Option<StateId>,
    /// Is shown what servers answer, and may know better than `expected` what that means.
    pub witness: Option<Arc<dyn Witness>>,
}

/// Sees what servers answer to an entry of a log. Called once for each connection that executes it.
pub trait Witness: Send + Sync {
    /// What `answer` of `server` means. `None`: no more than `expected` says.
    fn saw(&self, server: &Server, answer: &Answer) -> Option<Verdict>;
}

/// What a server's reply says of an entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has done the same.
    Same,
    /// The statement is prepared here under the server's id.
    Prepared {
        /// The session's id.
        id: u32,
        /// The server's.
        server: u32,
    },
    /// The statement cannot be executed here; nothing else is lost.
    Broken {
        /// The session's id.
        id: u32,
        /// The ERR packet, without its header, that says why; empty if the statement is another
        /// here.
        error: Bytes,
    },
    /// This connection is not in the session's state. The ERR packet, without its header, if there
    /// was one.
    Other(Bytes),
}

/// What a session command must be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No error.
    Success,
    /// Anything: an error says all there is to say when the thing is used (PREPARE and DEALLOCATE
    /// as text).
    Anything,
    /// A statement with this many parameters, known to the session by this id.
    Statement {
        /// The session's id, at least 2^31.
        id: u32,
        /// Its number of parameters.
        parameters: u16,
    },
}

/// What ties the session to the connection that runs this command, from now on: state that no other
/// one has. On a command only where that may change. Writer: `session-commands`; readers:
/// `route`, and the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tied {
    /// What it is, for people; `None`: nothing any more.
    pub by: Option<&'static str>,
    /// It ends with this command, unless that fails.
    pub ends: bool,
    /// If the connection is lost before anything else has run there, the log gives it to another.
    pub again: bool,
}

impl Tied {
    /// A user variable whose value no other connection can be given.
    pub const USER_VARIABLE: &'static str = "a user variable of one connection";
}

impl LogEntry {
    /// An entry of which no more is known than what a server must answer.
    pub fn new(lsn: Lsn, code: CommandCode, payload: Bytes, expected: Expected) -> Self {
        Self { lsn, code, payload, expected, context: None, witness: None }
    }
}

impl SessionLog {
    /// The place of its last entry, 0 if it has none.
    pub fn head(&self) -> Lsn {
        self.entries.last().map_or(0, |entry| entry.lsn)
    }

    /// What a connection lacks that has executed everything up to `applied`.
    pub fn behind(&self, applied: Lsn) -> &[Arc<LogEntry>] {
        let at = self.entries.partition_point(|entry| entry.lsn <= applied);
        &self.entries[at..]
    }
}

/// An entry may hold secrets: its text is not shown.
impl fmt::Debug for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, size) = (self.code.name(), self.payload.len());
        write!(f, "LogEntry({}: {code}, {size} bytes, {:?})", self.lsn, self.expected)
    }
}

impl Fact for SessionLog {
    const NAME: &'static str = "session-log";
}
impl Fact for Tied {
    const NAME: &'static str = "tied";
}
