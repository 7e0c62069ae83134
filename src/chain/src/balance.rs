//! How a server is chosen among those of a hostgroup.
//!
//! Nothing here waits: whose turn it is, what is under way and whether a server takes work are
//! atomics.

mod key;
mod turns;

use crate::topology::{Hostgroup, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use smallvec::SmallVec;
use std::{sync::Arc, time::Duration};
use turns::Turns;

pub use key::by_key;

/// How a server is chosen among those of a hostgroup. One of weight 0 never is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// The one with the fewest commands under way for its weight; among equals, the one with the
    /// fewest sessions, or where it is for one command the one whose turn it is by its weight. Of
    /// more than two servers, two are drawn and compared.
    #[default]
    LeastOutstanding,
    /// By lot, each as often as its weight says.
    WeightedRandom,
    /// One after the other, each as often as its weight says.
    RoundRobin,
    /// The one whose replies have begun soonest, on a moving average.
    LowestLatency,
}

/// How long a choice holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// For all that a session does there: sessions count where commands are equal.
    Session,
    /// For one command: where as many are under way, weights alone count.
    Command,
}

/// Chooses servers for all sessions of one chain.
#[derive(Debug, Default)]
pub struct Choice {
    balance: Balance,
    /// Whose turn it is in each hostgroup.
    turns: Turns,
}

/// With the lowest latency, one choice of so many goes to the servers in turn: what is never asked
/// is never measured again.
const LOOKS_ROUND: u32 = 16;

impl Choice {
    /// Nothing chosen yet.
    pub fn new(balance: Balance) -> Self {
        Self { balance, turns: Turns::default() }
    }

    /// How it chooses.
    pub fn balance(&self) -> Balance {
        self.balance
    }

    /// A server for one session: one that takes work, else the one that is closest to it. `None` if
    /// there is none with a weight.
    pub fn server(&self, group: &Hostgroup) -> Option<Arc<Server>> {
        self.taking(group, None, Holds::Session).or_else(|| nearest(group)).cloned()
    }

    /// A server that takes work which bears a lag of at most `max_lag`. `None` if none does.
    pub fn taking<'a>(
        &self,
        group: &'a Hostgroup,
        max_lag: Option<Duration>,
        holds: Holds,
    ) -> Option<&'a Arc<Server>> {
        let servers = &group.servers[..];
        let turn = self.turns.next(group.id);
        let draws = self.balance == Balance::LeastOutstanding && holds == Holds::Session;
        if draws && servers.len() > 2 {
            let (one, other) = two_of(servers);
            if takes(one, max_lag) && takes(other, max_lag) {
                return Some(less_used(one, other, turn, holds));
            }
        }
        let fit: SmallVec<[&Arc<Server>; 8]> =
            servers.iter().filter(|server| takes(server, max_lag)).collect();
        match self.balance {
            Balance::LeastOutstanding => match fit[..] {
                [] => None,
                [only] => Some(only),
                [one, other] => Some(less_used(one, other, turn, holds)),
                _ if holds == Holds::Command => in_turn(&fit, turn),
                _ => {
                    let (one, other) = two_of(&fit);
                    Some(less_used(one, other, turn, holds))
                }
            },
            Balance::WeightedRandom => at_weight(&fit, |total| fastrand::u64(..total)),
            Balance::RoundRobin => at_weight(&fit, |total| u64::from(turn) % total),
            Balance::LowestLatency => soonest(&fit, turn),
        }
    }
}

/// Where no server takes work, the one that is closest to taking it. `None` if there is none with a
/// weight.
pub fn nearest(group: &Hostgroup) -> Option<&Arc<Server>> {
    let weighty = group.servers.iter().filter(|server| server.weight() > 0);
    weighty.min_by_key(|server| {
        let standing = &server.standing;
        (!standing.is_member(), standing.state(), standing.lag())
    })
}

/// Whether a server may be chosen for work that bears a lag of at most `max_lag`.
pub fn takes(server: &Server, max_lag: Option<Duration>) -> bool {
    server.weight() > 0 && server.standing.takes(max_lag)
}

/// Two that are drawn by lot, in their order.
fn two_of<T>(servers: &[T]) -> (&T, &T) {
    let first = fastrand::usize(..servers.len());
    let second = fastrand::usize(..servers.len() - 1);
    let second = second + usize::from(second >= first);
    (&servers[first.min(second)], &servers[first.max(second)])
}

/// The one whose turn it is by the weights, unless one of the others, drawn by lot, has less to do.
fn in_turn<'a>(servers: &[&'a Arc<Server>], turn: u32) -> Option<&'a Arc<Server>> {
    let one = at_weight(servers, |total| u64::from(turn) % total)?;
    let others = servers.iter().copied().filter(|other| !Arc::ptr_eq(other, one));
    let other = others.clone().nth(fastrand::usize(..others.count().max(1))).unwrap_or(one);
    let use_of = |server: &Server| weighted(server, server.load.outstanding());
    Some(if use_of(other) < use_of(one) { other } else { one })
}

/// Among equals, sessions that come at once take turns, and commands do as the weights say.
fn less_used<'a>(
    one: &'a Arc<Server>,
    other: &'a Arc<Server>,
    turn: u32,
    holds: Holds,
) -> &'a Arc<Server> {
    let sessions = |server: &Server| match holds {
        Holds::Session => weighted(server, server.load.attached()),
        Holds::Command => 0,
    };
    let use_of = |server: &Server| (weighted(server, server.load.outstanding()), sessions(server));
    match use_of(one).cmp(&use_of(other)) {
        std::cmp::Ordering::Less => one,
        std::cmp::Ordering::Greater => other,
        std::cmp::Ordering::Equal => {
            let shares = match holds {
                Holds::Session => (1, 1),
                Holds::Command => (u64::from(one.weight()), u64::from(other.weight())),
            };
            if u64::from(turn) % (shares.0 + shares.1) < shares.0 { one } else { other }
        }
    }
}

/// The server in whose share of the total weight the place lies that `place` gives.
fn at_weight<'a>(
    servers: &[&'a Arc<Server>],
    place: impl FnOnce(u64) -> u64,
) -> Option<&'a Arc<Server>> {
    let total: u64 = servers.iter().map(|server| u64::from(server.weight())).sum();
    let mut place = if total > 0 { place(total) } else { return None };
    let server = servers.iter().find(|server| {
        let weight = u64::from(server.weight());
        let here = place < weight;
        place = place.saturating_sub(weight);
        here
    });
    // A weight that has changed meanwhile may leave the place beyond all of them.
    server.or(servers.last()).copied()
}

/// What has not been measured comes first.
fn soonest<'a>(servers: &[&'a Arc<Server>], turn: u32) -> Option<&'a Arc<Server>> {
    let round = (turn / LOOKS_ROUND) as usize;
    let next = round.checked_rem(servers.len())?;
    if turn % LOOKS_ROUND == LOOKS_ROUND - 1 {
        return servers.get(next).copied();
    }
    let (before, after) = servers.split_at(turn as usize % servers.len());
    after.iter().chain(before).min_by_key(|server| server.load.latency()).copied()
}

/// `uses` in proportion to the server's weight, in thousandths.
fn weighted(server: &Server, uses: u32) -> u64 {
    u64::from(uses) * 1000 / u64::from(server.weight().max(1))
}
