//! Which servers a session sticks to.

use super::Fact;
use crate::topology::HostgroupId;
use smallvec::SmallVec;
use std::time::Duration;

/// How a session sticks to its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StickyMode {
    /// 0: every command is balanced.
    #[default]
    Off,
    /// 1: one server in each hostgroup for as long as it is alive, then another.
    WhileAlive,
    /// 2: one server in each hostgroup and never another.
    Strict,
}

/// Which servers a session sticks to; on every command of one that does. Writer: `sticky`. Readers:
/// `route`, and the dispatcher, which takes no other server where one is named and the mode is
/// strict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// How it sticks.
    pub mode: StickyMode,
    /// The server in each hostgroup that the session has used, by [`Server::id`], which is never
    /// given to another.
    ///
    /// [`Server::id`]: crate::topology::Server::id
    pub servers: SmallVec<[(HostgroupId, u32); 2]>,
    /// The hash of an `affinity_key`: the same server for everybody who has the same.
    pub key: Option<u64>,
    /// How long a command of a strict session waits for its server to come back.
    pub strict_wait: Duration,
}

impl Affinity {
    /// The server that the session sticks to in this hostgroup.
    pub fn server(&self, hostgroup: HostgroupId) -> Option<u32> {
        self.servers.iter().find(|(group, _)| *group == hostgroup).map(|(_, server)| *server)
    }
}

impl Fact for Affinity {
    const NAME: &'static str = "affinity";
}
