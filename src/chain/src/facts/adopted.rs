//! A connection that another session had before.

use super::Fact;
use bytes::Bytes;
use std::{fmt, sync::Arc};
use wire::command::CommandCode;

/// The connection that runs this command was another session's before. On the first command that
/// it runs for the new one. Writer: the dispatcher; reader: `catch-up`.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// Whether it is in the state that the session needs, statements that COM_STMT_PREPARE has
    /// prepared apart: equal [`SessionLog::state`](super::SessionLog::state).
    pub equal: bool,
    /// What makes it as after the session's login: COM_RESET_CONNECTION, then what that does not
    /// bring back.
    pub renewal: Arc<[Renewal]>,
}

/// The session has had this connection before, and has closed statements while it was in the pool:
/// those that its log has no more. On the first command that the connection runs again. Writer: the
/// dispatcher; reader: `catch-up`.
#[derive(Clone, Copy, Debug)]
pub struct Returned;

/// One command that renews a connection.
#[derive(Clone)]
pub struct Renewal {
    /// The command.
    pub code: CommandCode,
    /// What follows the command byte; of COM_QUERY the statement's text alone.
    pub payload: Bytes,
}

/// As the log's entries are shown.
impl fmt::Debug for Renewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Renewal({}, {} bytes)", self.code.name(), self.payload.len())
    }
}

impl Fact for Returned {
    const NAME: &'static str = "returned";
}
impl Fact for Adopted {
    const NAME: &'static str = "adopted";
}
