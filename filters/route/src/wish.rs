//! What hints and rules ask for.

use crate::settings::{Pair, Shared};
use chain::{
    Command, HostgroupId, Session,
    facts::{Hints, RouteTo, RuleVerdict, Target},
    topology::Topology,
};
use std::sync::Arc;

/// Where somebody wants a command to go.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// To a server of this hostgroup.
    Hostgroup(HostgroupId),
    /// To a replica of the cluster with these hostgroups.
    Replica(Pair),
    /// To this server.
    Server(Target),
}

/// Whether the command's hints say where it goes.
pub(crate) fn is_hinted(command: &Command) -> bool {
    command.fact::<Hints>().is_some_and(|hints| hints.hostgroup.is_some() || hints.route.is_some())
}

/// The hostgroup that rules name.
pub(crate) fn ruled(command: &Command) -> Option<HostgroupId> {
    command.fact::<RuleVerdict>().and_then(|verdict| verdict.hostgroup)
}

/// What is wanted outside a transaction, by a hint or a rule; and why, for people.
pub(crate) fn wish(
    command: &Command,
    shared: &Shared,
    last: Option<&Target>,
) -> Option<(Wish, &'static str)> {
    let rule = || ruled(command).map(|id| (Wish::Hostgroup(id), "a rule"));
    let Some(hints) = command.fact::<Hints>().filter(|_| is_hinted(command)) else {
        return rule();
    };
    if !hints.beats_rules
        && let Some(rule) = rule()
    {
        return Some(rule);
    }
    match hinted(hints, command.session(), shared, last) {
        Some(wish) => Some((wish, "a hint")),
        None => {
            shared.counters.unknown.add_one();
            rule()
        }
    }
}

/// `None` for what is not there.
fn hinted(
    hints: &Hints,
    session: &Session,
    shared: &Shared,
    last: Option<&Target>,
) -> Option<Wish> {
    if let Some(id) = hints.hostgroup {
        return session.topology.hostgroup(id).map(|_| Wish::Hostgroup(id));
    }
    match hints.route.as_ref()? {
        RouteTo::Primary => Some(Wish::Hostgroup(shared.pair(session)?.primary)),
        RouteTo::Replica => shared.pair(session).map(Wish::Replica),
        RouteTo::Last => last.cloned().map(Wish::Server),
        RouteTo::Named(name) => {
            named(name, &session.topology, shared.pair(session).map(|p| p.primary))
        }
    }
}

/// The server of that name, else the hostgroup. A server that is in several hostgroups is taken
/// where it is a member now, and rather as a replica than as the primary.
fn named(name: &str, topology: &Topology, primary: Option<HostgroupId>) -> Option<Wish> {
    let groups = topology.hostgroups().iter();
    let servers =
        groups.flat_map(|group| group.servers.iter().map(move |server| (group.id, server)));
    let called = servers.filter(|(_, server)| &*server.name == name);
    let best =
        called.min_by_key(|(id, server)| (!server.standing.is_member(), Some(*id) == primary));
    if let Some((hostgroup, server)) = best {
        return Some(Wish::Server(Target { hostgroup, server: Arc::clone(server) }));
    }
    let group = topology.hostgroups().iter().find(|group| group.name.as_deref() == Some(name))?;
    Some(Wish::Hostgroup(group.id))
}
