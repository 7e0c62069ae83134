//! The session as filters may see it.

use crate::{
    facts::StickyMode,
    topology::{HostgroupId, Topology},
};
use bytes::Bytes;
use std::{
    net::{IpAddr, SocketAddr},
    ops::Deref,
    sync::Arc,
};
use wire::{attributes::Attributes, capability::Capabilities, status::Status};

/// A read-only snapshot of one client session.
///
/// The session loop is the only writer. It updates its copy between commands, from the status a
/// reply ended with, so no reader ever waits. Cloning costs one reference count.
#[derive(Clone, Debug)]
pub struct Session {
    view: Arc<View>,
    status: Status,
}

/// What is known of a session.
#[derive(Clone, Debug)]
pub struct View {
    /// The id that clients see (greeting, `CONNECTION_ID()`): unique within the process, at least
    /// 2^31, so that one that ever reaches a server untranslated hits nobody.
    pub id: u32,
    /// The authenticated user.
    pub user: Arc<str>,
    /// The schema given at login, in the client's character set.
    pub schema: Option<Bytes>,
    /// The schema that the session is in, as far as the proxy can know it: what the server says
    /// (session tracking), else what USE and COM_INIT_DB name.
    pub current_schema: Option<Bytes>,
    /// Where the client connected from, as a load balancer in front says where it is trusted.
    pub peer: Peer,
    /// The TCP address that the client connected to, which is the load balancer's where one says
    /// so; `None` for a unix socket.
    pub destination: Option<SocketAddr>,
    /// The listener's address, as configured.
    pub listener: Arc<str>,
    /// Port the client connected to; 0 for a unix socket.
    pub port: u16,
    /// What client and proxy have agreed on; backend connections are opened with the same wire
    /// format.
    pub capabilities: Capabilities,
    /// The collation id of the client's handshake, or of its COM_CHANGE_USER.
    pub collation: u16,
    /// What the client says about itself, such as its `program_name`.
    pub attributes: Attributes,
    /// The user's default hostgroup.
    pub hostgroup: HostgroupId,
    /// Whether a transaction stays on its connection whatever rules and hints say.
    pub transaction_persistent: bool,
    /// How the user's sessions stick to their servers when they begin.
    pub sticky: StickyMode,
    /// Whether the user's sessions are forwarded without a chain from their first command on.
    pub fast_forward: bool,
    /// The servers there are.
    pub topology: Arc<Topology>,
}

/// The far end of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// TCP: the client's address and port.
    Tcp(IpAddr, u16),
    /// A unix socket, which has no address.
    Unix,
}

impl Session {
    /// A snapshot of `view`, outside a transaction.
    pub fn new(view: View) -> Self {
        Self { view: Arc::new(view), status: Status::AUTOCOMMIT }
    }

    /// The same session, as it was when it had just logged in.
    #[must_use]
    pub fn anew(mut self) -> Self {
        self.update(|view| view.current_schema = view.schema.clone());
        Self { view: self.view, status: Status::AUTOCOMMIT }
    }

    /// What the last reply said of the session.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether a transaction is open, as the server said in its last reply.
    pub fn in_transaction(&self) -> bool {
        self.status.contains(Status::IN_TRANS) || self.status.contains(Status::IN_TRANS_READONLY)
    }

    /// Sets the status in the session loop's copy; snapshots already handed out keep theirs.
    pub fn set_status(&mut self, status: Status) {
        self.status = status;
    }

    /// Changes the session loop's copy; snapshots already handed out keep what they saw.
    pub fn update(&mut self, change: impl FnOnce(&mut View)) {
        change(Arc::make_mut(&mut self.view));
    }
}

impl Deref for Session {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

/// As servers write it in `'user'@'host'`.
impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address, _) => address.fmt(f),
            Self::Unix => f.write_str("localhost"),
        }
    }
}
