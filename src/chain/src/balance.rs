//! How a server is chosen among those of a hostgroup.

use crate::topology::{Hostgroup, HostgroupId, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use smallvec::SmallVec;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// How a server is chosen among those of a hostgroup. One of weight 0 never is.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// The one with the fewest commands under way for its weight; among equals, the one with the
    /// fewest sessions.
    #[default]
    LeastOutstanding,
    /// One after the other, each as often as its weight says.
    RoundRobin,
}

/// Chooses servers for all sessions of one chain.
#[derive(Debug, Default)]
pub struct Choice {
    balance: Balance,
    /// Whose turn it is in each hostgroup. Locked once for a session and hostgroup, not for every
    /// command.
    turns: Mutex<BTreeMap<HostgroupId, u32>>,
}

impl Choice {
    /// Nothing chosen yet.
    pub fn new(balance: Balance) -> Self {
        Self { balance, turns: Mutex::default() }
    }

    /// A server for one session. `None` if there is none with a weight.
    pub fn server(&self, group: &Hostgroup) -> Option<Arc<Server>> {
        let servers: SmallVec<[&Arc<Server>; 8]> =
            group.servers.iter().filter(|server| server.weight > 0).collect();
        let turn = self.turn(group.id);
        match self.balance {
            Balance::LeastOutstanding => least_outstanding(&servers, turn),
            Balance::RoundRobin => round_robin(&servers, turn),
        }
    }

    fn turn(&self, hostgroup: HostgroupId) -> u32 {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let next = turns.entry(hostgroup).or_default();
        let turn = *next;
        *next = next.wrapping_add(1);
        turn
    }
}

/// Among equals the turn decides, so that sessions which come at once spread.
fn least_outstanding(servers: &[&Arc<Server>], turn: u32) -> Option<Arc<Server>> {
    let first = (turn as usize).checked_rem(servers.len())?;
    let (before, after) = servers.split_at(first);
    let in_turn = after.iter().chain(before);
    let best = in_turn.min_by_key(|server| {
        let load = &server.load;
        (weighted(server, load.outstanding()), weighted(server, load.attached()))
    });
    best.map(|server| Arc::clone(server))
}

fn round_robin(servers: &[&Arc<Server>], turn: u32) -> Option<Arc<Server>> {
    let total = servers.iter().map(|server| u64::from(server.weight)).sum();
    let mut turn = u64::from(turn).checked_rem(total)?;
    let server = servers.iter().find(|server| {
        let weight = u64::from(server.weight);
        let here = turn < weight;
        turn = turn.saturating_sub(weight);
        here
    });
    server.map(|server| Arc::clone(server))
}

/// `uses` in proportion to the server's weight, in thousandths.
fn weighted(server: &Server, uses: u32) -> u64 {
    u64::from(uses) * 1000 / u64::from(server.weight.max(1))
}
