//! What is brought to connections before they are used.

use super::{Fact, SessionLog};

/// Once the command has succeeded, what the session has set is brought to others of its open
/// connections that are idle, without a command of the client's. Writer: `session-commands`; reader:
/// the dispatcher.
#[derive(Clone, Debug)]
pub struct Propagate {
    /// To which.
    pub to: Others,
    /// The log as it is then.
    pub log: SessionLog,
    /// The command's reply waits for it.
    pub first: bool,
}

/// Which of a session's connections, besides the one that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// All of them.
    All,
    /// The one that was used last.
    LastUsed,
}

impl Fact for Propagate {
    const NAME: &'static str = "propagate";
}
