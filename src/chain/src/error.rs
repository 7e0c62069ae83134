//! What goes wrong in the proxy itself. An `ERR` packet from a server is a reply, not an error.

use bytes::Bytes;
use tower::BoxError;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A command that got no reply.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {source}")]
pub struct Error {
    origin: Origin,
    code: u16,
    sqlstate: [u8; 5],
    source: BoxError,
}

/// Whose fault it was, and so what becomes of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Origin {
    /// The client broke the protocol or left; the session ends.
    #[error("client")]
    Client,
    /// A backend failed; the client gets an `ERR`, and the session goes on if nothing was lost.
    #[error("backend")]
    Backend,
    /// A filter refused or failed; the client gets an `ERR` and the session goes on.
    #[error("filter")]
    Filter,
}

/// What a server has sent by itself before it closed the connection: packets, headers included, for
/// the client to see (ERR 1927, 4031, ...).
#[derive(Debug, thiserror::Error)]
#[error("the server has ended the connection")]
pub struct LastWords(pub Bytes);

/// What a session has set cannot be made true on a connection: the connection is not to be used.
/// The command that was to run there was not sent, or changes nothing and has no reply yet.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CatchUpFailed(pub String);

/// A KILL QUERY has met what was to go before the command, which was not sent or changes nothing:
/// the connection is not to be used, the session goes on.
#[derive(Debug, thiserror::Error)]
#[error("Query execution was interrupted")]
pub struct CatchUpKilled;

/// The commands before this one were not all answered: see
/// [`Preamble`](crate::facts::Preamble).
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PreambleLost(pub String);

/// The proxy's own error numbers. Servers use none from 9000 on.
pub mod code {
    /// No server could be reached within the connect budget.
    pub const CONNECT_BUDGET: u16 = 9001;
    /// A server refused the connection or the login.
    pub const CONNECT_FAILED: u16 = 9002;
    /// The proxy cannot do this.
    pub const UNSUPPORTED: u16 = 9003;
    /// The server is offline, or the hostgroup has none.
    pub const SERVER_OFFLINE: u16 = 9004;
    /// A filter refused the command, or failed.
    pub const FILTER: u16 = 9005;
    /// The session is bound to another server.
    pub const PINNED_ELSEWHERE: u16 = 9006;
    /// The connection to the server broke; what the command did there is not known.
    pub const BACKEND_LOST: u16 = 9007;
}

impl Error {
    /// An error from `origin`, with the number and SQLSTATE usual for it: 1158 (08S01) for the
    /// client's, 9007 (08S01) for a backend's, 9005 (HY000) for a filter's.
    pub fn new(origin: Origin, source: impl Into<BoxError>) -> Self {
        let (code, sqlstate) = match origin {
            Origin::Client => (1158, *b"08S01"),
            Origin::Backend => (code::BACKEND_LOST, *b"08S01"),
            Origin::Filter => (code::FILTER, *b"HY000"),
        };
        Self { origin, code, sqlstate, source: source.into() }
    }

    /// The client's fault.
    pub fn client(source: impl Into<BoxError>) -> Self {
        Self::new(Origin::Client, source)
    }

    /// A backend's failure.
    pub fn backend(source: impl Into<BoxError>) -> Self {
        Self::new(Origin::Backend, source)
    }

    /// A filter's refusal.
    pub fn filter(source: impl Into<BoxError>) -> Self {
        Self::new(Origin::Filter, source)
    }

    /// The same error under another number and SQLSTATE (five ASCII characters).
    #[must_use]
    pub fn with_code(self, code: u16, sqlstate: [u8; 5]) -> Self {
        Self { code, sqlstate, ..self }
    }

    /// Whose fault it was.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The number the client's `ERR` packet carries.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The SQLSTATE the client's `ERR` packet carries.
    pub fn sqlstate(&self) -> [u8; 5] {
        self.sqlstate
    }

    /// What the client is told: the cause without whose fault it was.
    pub fn message(&self) -> String {
        self.source.to_string()
    }

    /// The cause, if it is an `E`.
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }
}

/// Lets layers that box their errors, as tower's own do, join the chain without losing ours.
impl From<BoxError> for Error {
    fn from(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(ours) => *ours,
            Err(theirs) => Self::filter(theirs),
        }
    }
}
