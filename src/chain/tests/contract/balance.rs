//! How servers are chosen.

use chain::{
    Hostgroup, HostgroupId, Server,
    balance::{Balance, Choice, Holds, by_key, nearest},
    topology::{InUse, ServerState},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

fn group(servers: &[(&str, u32)]) -> Hostgroup {
    let servers = servers.iter().zip(0..);
    let servers = servers.map(|((name, weight), id)| Arc::new(Server::new(id, *name, *weight)));
    let servers = servers.collect();
    Hostgroup { id: HostgroupId(1), name: None, servers }
}

/// Of 1200 choices, how many each server got.
fn shares(group: &Hostgroup, choice: &Choice, lag: Option<Duration>) -> BTreeMap<String, u32> {
    let mut shares = BTreeMap::new();
    for _ in 0..1200 {
        let server = choice.taking(group, lag, Holds::Command).expect("one takes work");
        *shares.entry(server.name.to_string()).or_default() += 1;
    }
    shares
}

const ALL: [Balance; 4] = [
    Balance::LeastOutstanding,
    Balance::WeightedRandom,
    Balance::RoundRobin,
    Balance::LowestLatency,
];

#[test]
fn only_servers_that_take_work_are_chosen() {
    let group = group(&[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("off", 0)]);
    let [a, b, c, d, e, _] = &group.servers[..] else { panic!("six servers") };
    a.standing.set_state(ServerState::Shunned);
    b.standing.set_member(false);
    c.standing.set_lag(Some(Duration::from_secs(3)));
    d.standing.set_lag(Some(Duration::from_secs(1)));
    for balance in ALL {
        let choice = Choice::new(balance);
        let found = shares(&group, &choice, Some(Duration::from_secs(2)));
        assert!(found.keys().eq(["d", "e"]), "{balance:?}: {found:?}");
        let found = shares(&group, &choice, None);
        assert!(found.keys().eq(["c", "d", "e"]), "{balance:?}: {found:?}");
    }
    for server in [c, d, e] {
        server.standing.set_state(ServerState::OfflineSoft);
    }
    for balance in ALL {
        assert!(Choice::new(balance).taking(&group, None, Holds::Command).is_none());
    }
}

#[test]
fn where_none_takes_work_the_closest_to_it_is_named() {
    let group = group(&[("down", 1), ("far", 1), ("near", 1), ("other", 1), ("off", 0)]);
    let states = [
        ServerState::OfflineHard,
        ServerState::Lagging,
        ServerState::Lagging,
        ServerState::Lagging,
        ServerState::Lagging,
    ];
    for (server, state) in group.servers.iter().zip(states) {
        server.standing.set_state(state);
    }
    group.servers[1].standing.set_lag(Some(Duration::from_secs(9)));
    group.servers[2].standing.set_lag(Some(Duration::from_secs(1)));
    group.servers[3].standing.set_member(false);
    assert_eq!(&*nearest(&group).unwrap().name, "near");
    assert_eq!(&*Choice::default().server(&group).unwrap().name, "near");
    assert!(nearest(&self::group(&[("off", 0)])).is_none());
}

#[test]
fn weights_are_shares() {
    let group = group(&[("a", 1), ("b", 2), ("c", 3)]);
    let turns = shares(&group, &Choice::new(Balance::RoundRobin), None);
    assert_eq!(turns.values().copied().collect::<Vec<_>>(), [200, 400, 600]);
    let lots = shares(&group, &Choice::new(Balance::WeightedRandom), None);
    // Each is more than six standard deviations away from these.
    assert!((110..300).contains(&lots["a"]), "{lots:?}");
    assert!((290..510).contains(&lots["b"]), "{lots:?}");
    assert!((490..710).contains(&lots["c"]), "{lots:?}");
}

#[test]
fn idle_servers_share_commands_by_weight_however_many_sessions_they_have() {
    let group = group(&[("a", 1), ("b", 3)]);
    let _held: Vec<_> = (0..9).map(|_| InUse::connection(group.servers[1].clone())).collect();
    let found = shares(&group, &Choice::new(Balance::LeastOutstanding), None);
    assert_eq!(found.values().copied().collect::<Vec<_>>(), [300, 900]);
}

#[test]
fn of_two_that_are_drawn_the_less_busy_one_is_chosen() {
    let group = group(&[("a", 1), ("b", 1), ("busy", 1)]);
    let _busy = InUse::command(group.servers[2].clone());
    let found = shares(&group, &Choice::new(Balance::LeastOutstanding), None);
    assert!(found.keys().eq(["a", "b"]), "{found:?}");
}

#[test]
fn the_soonest_server_is_chosen_and_the_others_are_looked_at_now_and_then() {
    let group = group(&[("slow", 1), ("fast", 1)]);
    let choice = Choice::new(Balance::LowestLatency);
    group.servers[0].load.note_latency(Duration::from_millis(5));
    group.servers[1].load.note_latency(Duration::from_micros(500));
    let found = shares(&group, &choice, None);
    assert!((20..50).contains(&found["slow"]), "{found:?}");
    for _ in 0..50 {
        group.servers[1].load.note_latency(Duration::from_millis(50));
    }
    let found = shares(&group, &choice, None);
    assert!((20..50).contains(&found["fast"]), "{found:?}");
    let latency = group.servers[1].load.latency().unwrap();
    assert!(latency > Duration::from_millis(40) && latency <= Duration::from_millis(50));
}

#[test]
fn a_key_leads_to_one_server_and_its_failure_moves_no_other_key() {
    let group = group(&[("a", 1), ("b", 1), ("c", 2), ("off", 0)]);
    let of = |key| by_key(&group, key, None).unwrap().name.clone();
    let before: Vec<_> = (0..4000).map(of).collect();
    let count = |name| before.iter().filter(|server| &***server == name).count();
    assert!((800..1200).contains(&count("a")), "{}", count("a"));
    assert!((1800..2200).contains(&count("c")), "{}", count("c"));
    group.servers[0].standing.set_state(ServerState::Shunned);
    for (key, server) in (0..4000).zip(&before) {
        let now = of(key);
        assert!(&*now != "a" && (&**server == "a" || now == *server), "{key}: {server}, {now}");
    }
    // Where none takes work the key's own is named.
    for server in &group.servers {
        server.standing.set_state(ServerState::Shunned);
    }
    assert_eq!((0..4000).map(of).collect::<Vec<_>>(), before);
}

/// Other proxies, and those of other versions, choose by it.
#[test]
fn what_a_key_leads_to_never_changes() {
    let group = group(&[("db1:3306", 1), ("db2:3306", 1), ("db3:3306", 1)]);
    let found: String =
        (0..24).map(|key| by_key(&group, key, None).unwrap().name[2..3].to_owned()).collect();
    assert_eq!(found, "112122333112221232331123");
}
