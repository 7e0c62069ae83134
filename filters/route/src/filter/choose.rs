//! A server of a hostgroup, for one command.

use super::Route;
use crate::{
    place::Place,
    settings::{NoReplica, Pair},
};
use chain::{
    Command, Error, HostgroupId, Result,
    balance::{Holds, by_key, nearest, takes},
    error::code,
    facts::{Affinity, Near, StickyMode, Target},
};
use std::{sync::Arc, time::Duration};

/// Where a command goes.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) target: Target,
    /// For people.
    pub(super) why: &'static str,
    /// Where it went becomes the session's server in that hostgroup.
    pub(super) settles: bool,
    /// It reads on a replica, which may lack what it must see.
    pub(super) on_replica: bool,
    /// It waits for a server that is no further behind.
    pub(super) near: Option<Near>,
    /// A transaction that is open there is ended first.
    pub(super) ends: Option<Target>,
}

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// It may be this far behind.
    pub(super) lag: Option<Duration>,
    /// It is chosen for this command alone.
    pub(super) each: bool,
}

impl Wanted {
    pub(super) const PRIMARY: Self = Self { lag: None, each: false };
}

impl Decision {
    pub(super) fn fixed(target: &Target, why: &'static str) -> Self {
        let (target, near, ends) = (target.clone(), None, None);
        Self { target, why, settles: false, on_replica: false, near, ends }
    }
}

impl Route {
    pub(super) fn on_replica(
        &self,
        command: &Command,
        pair: Pair,
        no_replica: NoReplica,
        place: Place,
        why: &'static str,
    ) -> Result<Decision> {
        let lag = self.shared.lag(command);
        let wanted = Wanted { lag, each: self.shared.each_command && place == Place::Replica };
        let on_replica = place == Place::Replica;
        let waits = on_replica && no_replica == NoReplica::Wait;
        let near = lag.filter(|_| waits).map(Near);
        if let Some(decision) = self.willing(command, pair.replicas, wanted, why)? {
            return Ok(Decision { on_replica, near, ..decision });
        }
        let group = command.session().topology.hostgroup(pair.replicas);
        let mut servers = group.iter().flat_map(|group| &group.servers);
        if lag.is_some() && !waits && servers.any(|server| takes(server, None)) {
            let why = "no replica is near enough to its primary";
            return self.in_group(command, pair.primary, Wanted::PRIMARY, why);
        }
        let why_not = "no replica takes work";
        if no_replica == NoReplica::Primary
            && let Some(decision) = self.willing(command, pair.primary, Wanted::PRIMARY, why_not)?
        {
            return Ok(decision);
        }
        let decision = self.in_group(command, pair.replicas, wanted, why)?;
        Ok(Decision { on_replica, near, ..decision })
    }

    /// A server of a hostgroup: one that takes work, else the one that is closest to it, for the
    /// dispatcher to wait for.
    pub(super) fn in_group(
        &self,
        command: &Command,
        id: HostgroupId,
        wanted: Wanted,
        why: &'static str,
    ) -> Result<Decision> {
        if let Some(decision) = self.willing(command, id, wanted, why)? {
            return Ok(decision);
        }
        let group = command.session().topology.hostgroup(id);
        let server = group.and_then(nearest).ok_or_else(|| {
            let error = Error::backend(format!("hostgroup {id} has no server to choose"));
            error.with_code(code::SERVER_OFFLINE, *b"08S01")
        })?;
        let target = Target { hostgroup: id, server: server.clone() };
        Ok(Decision { settles: true, ..Decision::fixed(&target, why) })
    }

    /// A server of a hostgroup that takes work, or that the session is bound to.
    fn willing(
        &self,
        command: &Command,
        id: HostgroupId,
        wanted: Wanted,
        why: &'static str,
    ) -> Result<Option<Decision>> {
        let Some(group) = command.session().topology.hostgroup(id) else { return Ok(None) };
        let target = |server: &Arc<_>| Target { hostgroup: id, server: Arc::clone(server) };
        if let Some(affinity) = command.fact::<Affinity>() {
            let stuck = affinity.server(id).filter(|_| affinity.mode != StickyMode::Off);
            let server = stuck.and_then(|stuck| group.servers.iter().find(|it| it.id == stuck));
            match (affinity.mode, server) {
                (StickyMode::Strict, None) if stuck.is_some() => return Err(gone(id)),
                (StickyMode::Strict, Some(server)) => {
                    return Ok(Some(Decision::fixed(&target(server), "the session sticks to it")));
                }
                (_, Some(server)) if takes(server, wanted.lag) => {
                    return Ok(Some(Decision::fixed(&target(server), "the session sticks to it")));
                }
                _ => {}
            }
            if let Some(key) = affinity.key {
                let server = by_key(group, key, wanted.lag);
                let server = server.filter(|server| takes(server, wanted.lag));
                return Ok(server.map(|server| Decision::fixed(&target(server), "its key")));
            }
        }
        let known = self.known.iter().find(|known| known.hostgroup == id && !wanted.each);
        let bound = |known: &&Target| !self.shared.keeps_state || takes(&known.server, wanted.lag);
        if let Some(known) = known.filter(bound) {
            return Ok(Some(Decision { settles: true, ..Decision::fixed(known, why) }));
        }
        let holds = if wanted.each { Holds::Command } else { Holds::Session };
        let server = self.shared.choice.taking(group, wanted.lag, holds);
        Ok(server.map(|server| Decision { settles: true, ..Decision::fixed(&target(server), why) }))
    }
}

/// The server that a strict session sticks to is no longer configured.
fn gone(id: HostgroupId) -> Error {
    let text = format!(
        "the server of hostgroup {id} that this session sticks to (sticky_backend=2) is no longer there"
    );
    Error::backend(text).with_code(code::SERVER_OFFLINE, *b"08S01")
}
