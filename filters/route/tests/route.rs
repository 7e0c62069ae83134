//! What `route` promises, without a socket.

use chain::{
    Chain, Command, Error, Hostgroup, HostgroupId, Registry, Reply, Server, Session, Stack,
    Topology,
    error::code,
    facts::{Pin, RuleVerdict, ServedBy, Target},
    testing::{self, Client, Log},
    topology::InUse,
};
use std::{collections::BTreeMap, sync::Arc};
use wire::status::Status;

/// Two hostgroups: 0 has `a` and `b`, 1 has `c`, `d` and `off`, whose weight is 0.
fn servers() -> Vec<(u32, Vec<(&'static str, u32)>)> {
    vec![(0, vec![("a", 1), ("b", 1)]), (1, vec![("c", 1), ("d", 1), ("off", 0)])]
}

/// A session in hostgroup 0 of a topology with these servers: name and weight, by hostgroup.
fn session_of(groups: Vec<(u32, Vec<(&str, u32)>)>) -> Session {
    let mut ids = 1..;
    let groups = groups.into_iter().map(|(id, servers)| {
        let server = |(name, weight)| {
            Arc::new(Server::new(ids.next().expect("there is a next number"), name, weight))
        };
        let servers = servers.into_iter().map(server).collect();
        Hostgroup { id: HostgroupId(id), name: None, servers }
    });
    testing::session_of(Topology::new(groups.collect()))
}

fn registry() -> Registry {
    Registry::default().with::<route::Factory>()
}

fn chain(settings: &str) -> Chain {
    let text = format!("session = [{{ use = 'route'{settings} }}]");
    testing::chain(&text, &registry()).expect("right settings")
}

/// A bottom that notes the server it was given and takes it.
fn obedient(log: &Log) -> Stack {
    let log = log.clone();
    testing::answering(move |command| {
        let target = command.fact::<Target>().expect("route gives it").clone();
        log.push(target.server.name.to_string());
        Ok(ok(Status::AUTOCOMMIT).with(ServedBy(target)))
    })
}

fn ok(status: Status) -> Reply {
    Reply::ok(&Command::query(testing::session(), ""), status)
}

/// The servers that `sessions` new sessions are given for their first command.
fn first_servers(chain: &Chain, session: &Session, sessions: usize) -> Vec<String> {
    let log = Log::default();
    for _ in 0..sessions {
        let mut client = Client::with_session(chain.session(obedient(&log)), session.clone());
        client.query("SELECT 1").expect("the bottom answers");
    }
    log.take()
}

/// How often each server was chosen.
fn counts(names: Vec<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    names.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

fn server(session: &Session, name: &str) -> Arc<Server> {
    let groups = session.topology.hostgroups().iter();
    let mut servers = groups.flat_map(|group| group.servers.iter());
    servers.find(|server| &*server.name == name).expect("the test names one that is there").clone()
}

#[test]
fn a_command_goes_to_the_users_hostgroup() {
    let mut session = session_of(servers());
    session.update(|view| view.hostgroup = HostgroupId(1));
    let chosen = counts(first_servers(&chain(""), &session, 4));
    assert_eq!(chosen, BTreeMap::from([("c".into(), 2), ("d".into(), 2)]));
}

#[test]
fn a_hostgroup_in_the_chain_replaces_the_users() {
    let chain = chain(", policy = 'hostgroup', hostgroup = 1");
    let chosen = counts(first_servers(&chain, &session_of(servers()), 4));
    assert_eq!(chosen, BTreeMap::from([("c".into(), 2), ("d".into(), 2)]));
}

#[test]
fn the_target_says_which_hostgroup_was_asked_for() {
    let seen = Log::default();
    let log = seen.clone();
    let bottom = testing::answering(move |command: Command| {
        log.push(format!("{}", command.fact::<Target>().expect("route gives it").hostgroup));
        Ok(ok(Status::AUTOCOMMIT))
    });
    let stack = chain(", hostgroup = 1").session(bottom);
    Client::with_session(stack, session_of(servers())).query("SELECT 1").unwrap();
    assert_eq!(seen.take(), ["1"]);
}

#[test]
fn round_robin_gives_each_server_its_weight() {
    let session = session_of(vec![(0, vec![("a", 3), ("off", 0), ("b", 1)])]);
    let chain = chain(", balance = 'round-robin'");
    let chosen = counts(first_servers(&chain, &session, 40));
    assert_eq!(chosen, BTreeMap::from([("a".into(), 30), ("b".into(), 10)]));
}

#[test]
fn hostgroups_take_turns_each_by_itself() {
    let here = session_of(servers());
    let mut there = here.clone();
    there.update(|view| view.hostgroup = HostgroupId(1));
    let chain = chain(", balance = 'round-robin'");
    let mut chosen = Vec::new();
    for _ in 0..4 {
        chosen.extend(first_servers(&chain, &here, 1));
        chosen.extend(first_servers(&chain, &there, 1));
    }
    assert_eq!(chosen, ["a", "c", "b", "d", "a", "c", "b", "d"]);
}

#[test]
fn chains_take_turns_each_by_itself() {
    let session = session_of(servers());
    for _ in 0..2 {
        let chain = chain(", balance = 'round-robin'");
        assert_eq!(first_servers(&chain, &session, 3), ["a", "b", "a"]);
    }
}

#[test]
fn the_server_with_the_fewest_commands_under_way_is_chosen() {
    let session = session_of(servers());
    let busy = InUse::command(server(&session, "a"));
    assert_eq!(first_servers(&chain(""), &session, 3), ["b", "b", "b"]);
    let _busier = [(); 2].map(|()| InUse::command(server(&session, "b")));
    assert_eq!(first_servers(&chain(""), &session, 3), ["a", "a", "a"]);
    drop(busy);
    assert_eq!(first_servers(&chain(""), &session, 3), ["a", "a", "a"]);
}

#[test]
fn load_counts_in_proportion_to_weight() {
    let session = session_of(vec![(0, vec![("big", 4), ("small", 1)])]);
    let _small = InUse::command(server(&session, "small"));
    let _big = [(); 3].map(|()| InUse::command(server(&session, "big")));
    assert_eq!(first_servers(&chain(""), &session, 3), ["big", "big", "big"]);
    let _more = [(); 2].map(|()| InUse::command(server(&session, "big")));
    assert_eq!(first_servers(&chain(""), &session, 3), ["small", "small", "small"]);
}

#[test]
fn among_equals_the_server_with_the_fewest_sessions_is_chosen() {
    let session = session_of(servers());
    let _held = InUse::connection(server(&session, "a"));
    assert_eq!(first_servers(&chain(""), &session, 3), ["b", "b", "b"]);
    let _busy = InUse::command(server(&session, "b"));
    assert_eq!(first_servers(&chain(""), &session, 3), ["a", "a", "a"], "commands count first");
}

#[test]
fn sessions_that_come_at_once_spread() {
    let chosen = first_servers(&chain(""), &session_of(servers()), 4);
    assert_eq!(counts(chosen), BTreeMap::from([("a".into(), 2), ("b".into(), 2)]));
}

#[test]
fn a_server_of_weight_0_is_never_chosen() {
    let mut session = session_of(servers());
    session.update(|view| view.hostgroup = HostgroupId(1));
    let _busy = ["c", "d"].map(|name| InUse::command(server(&session, name)));
    for balance in ["least-outstanding", "round-robin"] {
        let chain = chain(&format!(", balance = '{balance}'"));
        let chosen = counts(first_servers(&chain, &session, 9));
        assert_eq!(chosen.keys().collect::<Vec<_>>(), ["c", "d"], "{balance}");
    }
}

#[test]
fn a_session_keeps_its_server() {
    let (session, log) = (session_of(servers()), Log::default());
    let stack = chain(", balance = 'round-robin'").session(obedient(&log));
    let mut client = Client::with_session(stack, session.clone());
    for _ in 0..3 {
        client.query("SELECT 1").unwrap();
    }
    let _busy = [(); 9].map(|()| InUse::command(server(&session, "a")));
    client.query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["a", "a", "a", "a"]);
}

#[test]
fn a_session_keeps_a_server_in_each_hostgroup() {
    let (mut session, log) = (session_of(servers()), Log::default());
    let stack = chain(", balance = 'round-robin'").session(obedient(&log));
    let mut client = Client::with_session(stack, session.clone());
    for hostgroup in [0, 1, 0, 1] {
        session.update(|view| view.hostgroup = HostgroupId(hostgroup));
        client.send(Command::query(session.clone(), "SELECT 1")).unwrap();
    }
    assert_eq!(log.take(), ["a", "c", "a", "c"]);
}

#[test]
fn a_transaction_stays_where_it_is() {
    let (mut session, log) = (session_of(servers()), Log::default());
    let mut client = Client::with_session(chain("").session(obedient(&log)), session.clone());
    client.query("BEGIN").unwrap();
    session.update(|view| view.hostgroup = HostgroupId(1));
    for status in [Status::IN_TRANS, Status::IN_TRANS_READONLY] {
        session.set_status(status);
        client.send(Command::query(session.clone(), "SELECT 1")).unwrap();
    }
    session.set_status(Status::AUTOCOMMIT);
    client.send(Command::query(session, "SELECT 1")).unwrap();
    assert_eq!(log.take(), ["a", "a", "a", "c"]);
}

/// The first command goes to `stand_in` whatever server is named, as where a connect fails.
fn standing_in(log: &Log, stand_in: Arc<Server>, status: Status) -> Stack {
    let (log, mut stand_in) = (log.clone(), Some(stand_in));
    testing::answering(move |command| {
        let mut target = command.fact::<Target>().expect("route gives it").clone();
        log.push(target.server.name.to_string());
        target.server = stand_in.take().unwrap_or(target.server);
        Ok(ok(status).with(ServedBy(target)))
    })
}

#[test]
fn a_session_stays_with_the_server_that_stood_in() {
    let (session, log) = (session_of(servers()), Log::default());
    for status in [Status::AUTOCOMMIT, Status::IN_TRANS] {
        let bottom = standing_in(&log, server(&session, "b"), status);
        let stack = chain("").session(bottom);
        let mut client = Client::with_session(stack, session.clone());
        for _ in 0..3 {
            client.query("SELECT 1").unwrap();
        }
        assert_eq!(log.take(), ["a", "b", "b"], "{status:?}");
    }
}

#[test]
fn a_command_that_reached_no_server_binds_nothing() {
    let (session, log) = (session_of(servers()), Log::default());
    let seen = log.clone();
    let bottom = testing::answering(move |command: Command| {
        log.push(command.fact::<Target>().expect("route gives it").server.name.to_string());
        Err(Error::backend("no server answers"))
    });
    let stack = chain(", balance = 'round-robin'").session(bottom);
    let mut client = Client::with_session(stack, session);
    for _ in 0..2 {
        client.query("SELECT 1").unwrap_err();
    }
    assert_eq!(seen.take(), ["a", "b"], "the next command tries the next server");
}

#[test]
fn without_a_server_the_command_is_refused() {
    let none = session_of(vec![(0, vec![])]);
    let off = session_of(vec![(0, vec![("off", 0)])]);
    let unknown = session_of(vec![(7, vec![("a", 1)])]);
    for balance in ["least-outstanding", "round-robin"] {
        for session in [&none, &off, &unknown] {
            let log = Log::default();
            let stack = chain(&format!(", balance = '{balance}'")).session(obedient(&log));
            let mut client = Client::with_session(stack, session.clone());
            let error = client.query("SELECT 1").unwrap_err();
            assert_eq!((error.code(), error.sqlstate()), (code::SERVER_OFFLINE, *b"08S01"));
            assert_eq!(code::SERVER_OFFLINE, 9004);
            assert_eq!(error.message(), "hostgroup 0 has no server to choose");
            assert!(log.take().is_empty(), "nothing goes down");
        }
    }
}

#[test]
fn wrong_settings_are_refused_with_what_is_right() {
    let wrong = [
        ("policy = 'hostgroups'", "hostgroup"),
        ("balance = 'random'", "least-outstanding"),
        ("hostgroup = -1", "hostgroup"),
        ("balanced = 'round-robin'", "balance"),
    ];
    for (setting, said) in wrong {
        let text = format!("session = [{{ use = 'route', {setting} }}]");
        let mistakes = testing::chain(&text, &registry()).unwrap_err();
        assert_eq!(mistakes.len(), 1, "{mistakes}");
        assert!(mistakes.to_string().contains(said), "{mistakes}");
    }
}

/// Every TOML block of the page that needs no other filter is a chain that can be built.
#[test]
fn the_pages_examples_are_right() {
    let page = include_str!("../README.md");
    let examples: Vec<_> = page.split("```toml\n").skip(1).collect();
    assert!(!examples.is_empty());
    for example in examples.iter().filter(|example| !example.contains("session-commands")) {
        let text = example.split("```").next().expect("the fence is closed");
        let text = text.replace("[chain.main]\n", "");
        let chain = testing::chain(&text, &registry()).map_err(|e| e.to_string()).unwrap();
        assert_eq!(first_servers(&chain, &session_of(servers()), 1).len(), 1, "{text}");
    }
}

/// Sends a query with these facts on it.
fn send(client: &mut Client, session: &Session, facts: impl FnOnce(Command) -> Command) {
    let command = facts(Command::query(session.clone(), "SELECT 1"));
    client.send(command).expect("the bottom answers");
}

fn ruled(hostgroup: u32) -> impl FnOnce(Command) -> Command {
    let hostgroup = Some(HostgroupId(hostgroup));
    move |command| command.with(RuleVerdict { hostgroup, ..RuleVerdict::default() })
}

#[test]
fn a_rule_beats_the_policy_and_a_pin_beats_a_rule() {
    let session = session_of(servers());
    let log = Log::default();
    let chain = chain(", hostgroup = 0");
    let mut client = Client::with_session(chain.session(obedient(&log)), session.clone());
    send(&mut client, &session, ruled(1));
    send(&mut client, &session, |command| command);
    let target = Target { hostgroup: HostgroupId(1), server: server(&session, "d") };
    send(&mut client, &session, |command| {
        ruled(0)(command).with(Pin {
            target: target.clone(),
            cause: "a lock",
            soft: false,
            again: false,
        })
    });
    assert_eq!(log.take(), ["c", "a", "d"]);
}

#[test]
fn a_transaction_beats_a_rule_unless_the_user_does_not_want_it() {
    for (persistent, second) in [(true, "a"), (false, "c")] {
        let mut session = session_of(servers());
        session.update(|view| view.transaction_persistent = persistent);
        let log = Log::default();
        let mut client = Client::with_session(chain("").session(obedient(&log)), session.clone());
        send(&mut client, &session, |command| command);
        session.set_status(Status::IN_TRANS);
        send(&mut client, &session, ruled(1));
        assert_eq!(log.take(), ["a", second]);
    }
}
