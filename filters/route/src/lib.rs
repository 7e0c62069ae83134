//! `route`: which server a command goes to.
//!
//! It names a server and opens nothing. The first of these that applies: the server of an open
//! transaction, the one that state pins the session to, the hostgroup that a rule names, the
//! policy. A session keeps the server it was given in a hostgroup.

use chain::{
    Command, Error, Filter, FilterFactory, Hostgroup, HostgroupId, Next, Reply, Result, Server,
    each_session,
    error::code,
    facts::{Fact, Pin, RuleVerdict, ServedBy, Target},
    registry::IntoLayer,
};
use schemars::JsonSchema;
use serde::Deserialize;
use smallvec::SmallVec;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tower::BoxError;

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What decides.
    #[serde(default)]
    policy: Policy,
    /// Which server of the hostgroup a session gets.
    #[serde(default)]
    balance: Balance,
    /// The hostgroup for every session of this chain, instead of the user's own.
    hostgroup: Option<u32>,
}

/// What decides where a command goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The user's default hostgroup, or the one named by `hostgroup` here.
    #[default]
    Hostgroup,
}

/// How a server is chosen among those of a hostgroup.
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

impl FilterFactory for Factory {
    const NAME: &'static str = "route";
    const GIVES: &'static [&'static str] = &[Target::NAME];
    type Config = Config;

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        let Config { policy: Policy::Hostgroup, balance, hostgroup } = config;
        let hostgroup = hostgroup.map(HostgroupId);
        let choice = Arc::new(Choice { balance, turns: Mutex::default() });
        Ok(each_session(move || Route {
            hostgroup,
            choice: choice.clone(),
            known: SmallVec::new(),
            last: None,
        }))
    }
}

/// The filter, in one session.
struct Route {
    hostgroup: Option<HostgroupId>,
    choice: Arc<Choice>,
    /// The session's server in each hostgroup that it has used.
    known: SmallVec<[Target; 2]>,
    /// Where the last command ran.
    last: Option<Target>,
}

impl Filter for Route {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        let target = self.target(&command)?;
        let reply = next.run(command.with(target)).await?;
        if let Some(ServedBy(target)) = reply.fact() {
            self.served_by(target);
        }
        Ok(reply)
    }
}

impl Route {
    fn target(&self, command: &Command) -> Result<Target> {
        let session = command.session();
        let ruled = command.fact::<RuleVerdict>().and_then(|verdict| verdict.hostgroup);
        let stays = session.transaction_persistent || ruled.is_none();
        if session.in_transaction()
            && stays
            && let Some(last) = &self.last
        {
            return Ok(last.clone());
        }
        if let Some(pin) = command.fact::<Pin>() {
            return Ok(pin.target.clone());
        }
        let hostgroup = ruled.or(self.hostgroup).unwrap_or(session.hostgroup);
        if let Some(known) = self.known.iter().find(|known| known.hostgroup == hostgroup) {
            return Ok(known.clone());
        }
        let group = session.topology.hostgroup(hostgroup);
        let server = group.and_then(|group| self.choice.server(group)).ok_or_else(|| {
            let error = Error::backend(format!("hostgroup {hostgroup} has no server to choose"));
            error.with_code(code::SERVER_OFFLINE, *b"08S01")
        })?;
        Ok(Target { hostgroup, server })
    }

    /// The dispatcher may have taken another server of the hostgroup than the one that was named.
    fn served_by(&mut self, target: &Target) {
        let is_last = |last: &Target| last.server.id == target.server.id;
        if self.last.as_ref().is_some_and(is_last) {
            return;
        }
        self.known.retain(|known| known.hostgroup != target.hostgroup);
        self.known.push(target.clone());
        self.last = Some(target.clone());
    }
}

/// Chooses servers for all sessions of one chain.
struct Choice {
    balance: Balance,
    /// Whose turn it is in each hostgroup. Locked once for a session and hostgroup, not for every
    /// command.
    turns: Mutex<BTreeMap<HostgroupId, u32>>,
}

impl Choice {
    fn server(&self, group: &Hostgroup) -> Option<Arc<Server>> {
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
