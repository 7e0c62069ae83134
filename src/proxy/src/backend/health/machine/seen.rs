//! What is seen of a server, and what becomes of it.

use crate::config::ServerWord;
use chain::topology::ServerState;
use std::{fmt, time::Duration};

/// What is seen of a server.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// It has answered the monitor.
    Answered,
    /// It has not: no connection, a lost one, or too late.
    Failed(String),
    /// A session has connected to it.
    Reached,
    /// A session could not; counts where nobody else asks the server.
    Unreachable(String),
    /// It can be written to, or is read-only.
    Writable(bool),
    /// How far it is behind its primary.
    Behind(Lag),
    /// Its operator has spoken.
    Ordered(ServerWord),
    /// Time has passed.
    Time,
}

/// What a server is in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nobody has asked it yet.
    #[default]
    Unknown,
    /// It can be written to.
    Primary,
    /// It is read-only.
    Replica,
}

/// How far a server is behind its primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lag {
    /// Nobody knows, or it follows nobody.
    #[default]
    Unknown,
    /// It follows no more: farther every moment.
    Stopped,
    By(Duration),
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) state: Option<(ServerState, ServerState)>,
    pub(crate) role: Option<(Role, Role)>,
    pub(crate) cause: String,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
