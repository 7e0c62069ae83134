//! What `session-commands` says of a reply.

use super::{Fact, Lsn};
use sql::session::Class;

/// The reply is from memory: no server has executed the command yet. On the reply. Writer:
/// `session-commands`; reader: the session, for traces.
#[derive(Clone, Copy, Debug)]
pub struct Predicted;

/// The reply is to a session command. On the reply. Writer: `session-commands`; reader: the session,
/// for traces.
#[derive(Clone, Copy, Debug)]
pub struct SessionCommand {
    /// How it is treated.
    pub class: Class,
    /// Its place in the session's log, which it has once it has succeeded.
    pub lsn: Lsn,
}

impl Fact for Predicted {
    const NAME: &'static str = "predicted";
}
impl Fact for SessionCommand {
    const NAME: &'static str = "session-command";
}
