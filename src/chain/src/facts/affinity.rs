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

impl StickyMode {
    /// The mode that `sticky_backend` writes as this number.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::WhileAlive),
            2 => Some(Self::Strict),
            _ => None,
        }
    }

    /// Its name, for people and for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::WhileAlive => "while-alive",
            Self::Strict => "strict",
        }
    }
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
    /// The hash of an `affinity_key` (see [`key_hash`]): the same server for everybody who has the
    /// same.
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

/// FNV-1a, 64 bits: what an `affinity_key` becomes. The same in every process, in every version and
/// on every machine, so that proxies which know nothing of each other choose alike. Its low bits
/// change with every byte; who compares servers by it mixes it with their names.
///
/// ```
/// use chain::facts::key_hash;
///
/// assert_eq!(key_hash(b""), 0xCBF2_9CE4_8422_2325);
/// assert_eq!(key_hash(b"foobar"), 0x8594_4171_F739_67E8);
/// ```
pub fn key_hash(key: &[u8]) -> u64 {
    const BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x100_0000_01B3;
    key.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

impl Fact for Affinity {
    const NAME: &'static str = "affinity";
}
