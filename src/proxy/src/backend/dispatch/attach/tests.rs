//! Which servers are tried, and for how long.

use super::{Wanted, available};
use chain::{
    Command, Hostgroup, HostgroupId, Server, Session, Topology,
    facts::{Affinity, StickyMode, Target},
    testing,
    topology::ServerState::{self, Lagging, OfflineSoft, Online, Shunned},
};
use std::{sync::Arc, time::Duration};

const BUDGET: Duration = Duration::from_secs(10);
const GROUP: HostgroupId = HostgroupId(7);

/// Servers 1, 2, ... of one hostgroup, each with its weight and state.
fn session(servers: &[(u32, ServerState)]) -> Session {
    let made = (1..).zip(servers).map(|(id, (weight, state))| {
        let server = Server::new(id, format!("db{id}"), *weight);
        server.standing.set_state(*state);
        Arc::new(server)
    });
    let group = Hostgroup { id: GROUP, name: None, servers: made.collect() };
    let mut session = testing::session();
    session.update(|view| view.topology = Arc::new(Topology::new(vec![group])));
    session
}

fn target(session: &Session, id: u32) -> Target {
    let group = session.topology.hostgroup(GROUP).expect("it is there");
    let server = group.servers.iter().find(|server| server.id == id).expect("it is there");
    Target { hostgroup: GROUP, server: server.clone() }
}

/// The servers that a command for `named` tries, in order.
fn tried(session: &Session, named: u32, affinity: Option<Affinity>) -> Vec<u32> {
    let (target, mut command) =
        (target(session, named), Command::query(session.clone(), "SELECT 1"));
    if let Some(affinity) = affinity {
        command.note(affinity);
    }
    let wanted = Wanted::of(&target, &command, BUDGET);
    wanted.candidates(session, true).iter().map(|server| server.id).collect()
}

fn sticks(mode: StickyMode, server: u32) -> Option<Affinity> {
    let strict_wait = Duration::from_secs(3);
    let servers = [(GROUP, server)].into_iter().collect();
    Some(Affinity { mode, servers, strict_wait, ..Affinity::default() })
}

#[test]
fn the_named_one_goes_first_and_only_those_that_take_work_are_tried() {
    let session = session(&[(1, Online), (1, Shunned), (1, Online), (0, Online), (1, Lagging)]);
    assert_eq!(tried(&session, 1, None), [1, 3]);
    assert_eq!(tried(&session, 3, None), [3, 1]);
    assert_eq!(tried(&session, 2, None), [1, 3]);
    assert_eq!(tried(&session, 4, None), [4, 1, 3], "by name also without a weight");
}

#[test]
fn a_strict_session_has_its_server_or_none() {
    let session = session(&[(1, Online), (1, Online), (1, OfflineSoft)]);
    assert_eq!(tried(&session, 1, sticks(StickyMode::Strict, 2)), [2]);
    assert_eq!(tried(&session, 3, sticks(StickyMode::Strict, 3)), [0; 0]);
    assert_eq!(tried(&session, 3, sticks(StickyMode::WhileAlive, 3)), [1, 2]);
    assert_eq!(tried(&session, 2, sticks(StickyMode::WhileAlive, 2)), [2, 1]);
}

#[test]
fn how_long_is_waited() {
    let session = session(&[(1, Online), (1, Online)]);
    let wanted = |affinity: Option<Affinity>| {
        let (target, mut command) =
            (target(&session, 1), Command::query(session.clone(), "SELECT 1"));
        if let Some(affinity) = affinity {
            command.note(affinity);
        }
        let Wanted { patience, rather, .. } = Wanted::of(&target, &command, BUDGET);
        (patience, rather)
    };
    assert_eq!(wanted(None), (BUDGET, false));
    assert_eq!(wanted(sticks(StickyMode::Strict, 1)), (Duration::from_secs(3), false));
    assert_eq!(wanted(sticks(StickyMode::WhileAlive, 1)), (BUDGET, true));
    assert_eq!(wanted(sticks(StickyMode::WhileAlive, 2)), (BUDGET, false));
}

#[test]
fn where_nobody_watches_a_shunned_server_is_better_than_none() {
    let ids = |servers: &[(u32, ServerState)], monitored: bool| -> Vec<u32> {
        let session = session(servers);
        let group = session.topology.hostgroup(GROUP).expect("it is there");
        available(group, None, monitored).iter().map(|server| server.id).collect()
    };
    let down = [(1, Shunned), (1, OfflineSoft)];
    assert_eq!(ids(&down, false), [1]);
    assert_eq!(ids(&down, true), [0; 0]);
    assert_eq!(ids(&[(1, Shunned), (1, Online)], false), [2]);
}
