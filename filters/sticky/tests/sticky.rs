//! What `sticky` promises, without a socket.

use Next::{Answered, Offline, Runs};
use chain::{
    Chain, Command, Error, Hostgroup, HostgroupId, Registry, Reply, Server, Session, Topology,
    command::Asker,
    error::code,
    facts::{
        Affinity, Explain, Hints, RuleVerdict, ServedBy, Statement, StickyMode, Target, key_hash,
    },
    testing::{self, Client},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use wire::{command::CommandCode, status::Status};

fn registry() -> Registry {
    Registry::default()
        .with::<testing::Statements>()
        .with::<sticky::Factory>()
        .with_layer("hints", testing::passes)
        .with_layer("route", testing::passes)
}

/// What the bottom does with the next command.
#[derive(Clone, Copy)]
enum Next {
    /// A server of a hostgroup answers it.
    Runs(u32, u32),
    /// A filter answers it.
    Answered,
    /// No server is there for it.
    Offline,
}

/// What the last command said at the bottom.
type Seen = Arc<Mutex<Option<Affinity>>>;
/// What the bottom does with those to come.
type Coming = Arc<Mutex<VecDeque<Next>>>;

/// A session, and what its commands said when they reached the bottom.
struct Bed {
    session: Session,
    chain: Chain,
    client: Client,
    seen: Seen,
    next: Coming,
}

/// Hostgroup 0 with `db1`, hostgroup 1 with `db2` and `db3`; their ids are their numbers.
fn session() -> Session {
    let servers = |names: &[&str], first: u32| {
        names.iter().zip(first..).map(|(name, id)| Arc::new(Server::new(id, *name, 1))).collect()
    };
    testing::session_of(Topology::new(vec![
        Hostgroup { id: HostgroupId(0), name: None, servers: servers(&["db1"], 1) },
        Hostgroup { id: HostgroupId(1), name: None, servers: servers(&["db2", "db3"], 2) },
    ]))
}

impl Bed {
    fn new(settings: &str) -> Self {
        Self::of(settings, session())
    }

    fn of(settings: &str, session: Session) -> Self {
        let text = format!("session = [{{ use = 'parse' }}, {{ use = 'sticky', {settings} }}]");
        let chain = testing::chain(&text, &registry()).expect("the settings are right");
        let (seen, next) = (Seen::default(), Coming::default());
        let (note, given) = (seen.clone(), next.clone());
        let bottom = testing::answering(move |command| {
            *note.lock().expect("no test panics with it held") = command.fact().cloned();
            let reply = Reply::ok(&command, command.session().status());
            match given.lock().expect("no test panics with it held").pop_front().unwrap_or(Answered)
            {
                Answered => Ok(reply),
                Offline => Err(Error::backend("no").with_code(code::SERVER_OFFLINE, *b"08S01")),
                Runs(hostgroup, id) => {
                    let hostgroup = HostgroupId(hostgroup);
                    let group = command.session().topology.hostgroup(hostgroup).expect("there");
                    let server = group.servers.iter().find(|server| server.id == id);
                    let server = server.expect("it is in this hostgroup").clone();
                    Ok(reply.with(ServedBy(Target { hostgroup, server })))
                }
            }
        });
        let client = Client::with_session(chain.session(bottom), session.clone());
        Self { session, chain, client, seen, next }
    }

    /// Sends a command; gives mode and servers as the bottom saw them. No fact is mode 0.
    fn send(&mut self, command: Command, next: Next) -> (u32, Vec<(u32, u32)>) {
        self.next.lock().expect("no test panics with it held").push_back(next);
        let answer = self.client.send(command);
        assert_eq!(answer.is_err(), matches!(next, Offline));
        let seen = self.seen.lock().expect("no test panics with it held").take();
        let Some(Affinity { mode, servers, .. }) = seen else { return (0, Vec::new()) };
        let mode = (0..3).find(|number| StickyMode::from_number(*number) == Some(mode));
        (
            mode.expect("it has a number"),
            servers.into_iter().map(|(HostgroupId(id), server)| (id, server)).collect(),
        )
    }

    fn query(&mut self, sql: &str, next: Next) -> (u32, Vec<(u32, u32)>) {
        self.send(Command::query(self.session.clone(), sql), next)
    }

    /// A query with a hint.
    fn hinted(&mut self, mode: u32, next: Next) -> (u32, Vec<(u32, u32)>) {
        let command = Command::query(self.session.clone(), "SELECT 1").with(hint(mode));
        self.send(command, next)
    }

    fn counts(&self, name: &str) -> Vec<String> {
        let family = self.chain.counters().find(|family| family.name() == name);
        let counts = family.expect("there is one of this name").counts().into_iter();
        let counts = counts.filter(|(_, count)| *count > 0);
        counts.map(|(label, count)| format!("{label}={count}")).collect()
    }
}

fn hint(mode: u32) -> Hints {
    Hints { sticky: StickyMode::from_number(mode), beats_rules: true, ..Hints::default() }
}

fn rule(sticky: bool) -> RuleVerdict {
    RuleVerdict { sticky: Some(sticky), ..RuleVerdict::default() }
}

const NOTHING: [(u32, u32); 0] = [];

#[test]
fn a_hint_lasts_and_the_first_server_stays() {
    let mut bed = Bed::new("");
    assert_eq!(bed.query("SELECT 1", Runs(1, 2)), (0, NOTHING.into()));
    assert_eq!(bed.hinted(1, Runs(1, 3)), (1, NOTHING.into()), "chosen anew, by balance");
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (1, vec![(1, 3)]));
    assert_eq!(bed.hinted(1, Runs(1, 3)), (1, vec![(1, 3)]), "said again, nothing changes");
    assert_eq!(bed.hinted(0, Runs(1, 2)), (0, NOTHING.into()));
    assert_eq!(bed.query("SELECT 1", Runs(1, 2)), (0, NOTHING.into()));
    assert_eq!(bed.hinted(2, Runs(1, 2)), (2, NOTHING.into()), "the old one is forgotten");
    assert_eq!(bed.query("SELECT 1", Runs(1, 2)), (2, vec![(1, 2)]));
    assert_eq!(bed.counts("sticky_modes"), ["off=1", "while-alive=1", "strict=1"]);
}

#[test]
fn what_no_server_has_answered_sets_the_mode_and_no_server() {
    let mut bed = Bed::new("");
    assert_eq!(bed.hinted(1, Answered), (1, NOTHING.into()));
    assert_eq!(bed.query("SELECT 1", Answered), (1, NOTHING.into()));
    assert_eq!(bed.query("SELECT 1", Runs(1, 2)), (1, NOTHING.into()));
    assert_eq!(bed.query("SELECT 1", Answered), (1, vec![(1, 2)]));
}

#[test]
fn each_hostgroup_has_its_own() {
    let mut bed = Bed::new("");
    bed.hinted(1, Runs(1, 3));
    assert_eq!(bed.query("INSERT", Runs(0, 1)), (1, vec![(1, 3)]));
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (1, vec![(1, 3), (0, 1)]));
}

#[test]
fn another_server_is_taken_over_unless_the_session_is_strict() {
    let mut bed = Bed::new("");
    bed.hinted(1, Runs(1, 2));
    bed.query("SELECT 1", Runs(1, 3));
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (1, vec![(1, 3)]));
    assert_eq!(bed.counts("sticky_events"), ["re-pick=1"]);
    assert_eq!(bed.hinted(2, Runs(1, 2)), (2, vec![(1, 3)]), "stricter, with the same server");
    assert_eq!(bed.query("SELECT 1", Offline), (2, vec![(1, 3)]));
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (2, vec![(1, 3)]));
    assert_eq!(bed.counts("sticky_events"), ["re-pick=1", "strict-failure=1"]);
    assert_eq!(bed.hinted(1, Runs(1, 2)), (1, vec![(1, 3)]), "less strict, with the same server");
    assert_eq!(bed.query("SELECT 1", Offline), (1, vec![(1, 2)]));
    assert_eq!(bed.counts("sticky_events"), ["re-pick=2", "strict-failure=1"]);
}

#[test]
fn in_a_transaction_a_mode_waits() {
    let mut bed = Bed::new("");
    bed.session.set_status(Status::IN_TRANS);
    assert_eq!(bed.hinted(2, Runs(1, 2)), (0, NOTHING.into()));
    assert_eq!(bed.hinted(1, Runs(1, 2)), (0, NOTHING.into()), "the last one counts");
    assert_eq!(bed.query("SELECT 1", Runs(1, 2)), (0, NOTHING.into()));
    bed.session.set_status(Status::AUTOCOMMIT);
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (1, NOTHING.into()));
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (1, vec![(1, 3)]));

    bed.session.set_status(Status::IN_TRANS_READONLY);
    assert_eq!(bed.hinted(0, Runs(1, 3)), (1, vec![(1, 3)]), "sticky to the end of it");
    bed.session.set_status(Status::AUTOCOMMIT);
    assert_eq!(bed.hinted(2, Runs(1, 3)), (2, vec![(1, 3)]), "what comes later counts");
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (2, vec![(1, 3)]));
}

#[test]
fn a_reset_goes_back_to_the_user_s_setting() {
    let reset = |bed: &Bed| Command::new(bed.session.clone(), CommandCode::RESET_CONNECTION, "");
    let mut bed = Bed::new("");
    bed.hinted(1, Runs(1, 2));
    bed.session.set_status(Status::IN_TRANS);
    bed.hinted(2, Runs(1, 2));
    let command = reset(&bed);
    assert_eq!(bed.send(command, Answered), (0, NOTHING.into()));
    bed.session.set_status(Status::AUTOCOMMIT);
    assert_eq!(bed.query("SELECT 1", Runs(1, 2)), (0, NOTHING.into()));

    let mut session = session();
    session.update(|view| view.sticky = StickyMode::Strict);
    let mut bed = Bed::of("", session);
    assert_eq!(bed.query("SELECT 1", Runs(1, 2)), (2, NOTHING.into()));
    assert_eq!(bed.hinted(0, Runs(1, 3)), (0, NOTHING.into()));
    let command = reset(&bed);
    assert_eq!(bed.send(command, Answered), (2, NOTHING.into()));
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (2, NOTHING.into()));
    assert_eq!(bed.counts("sticky_modes"), ["off=1", "strict=2"]);
}

#[test]
fn a_set_is_as_good_as_a_hint() {
    let mut bed = Bed::new("");
    assert_eq!(bed.query("SET @towpath_sticky_backend = 1", Runs(0, 1)), (1, NOTHING.into()));
    assert_eq!(bed.query("SELECT 1", Runs(1, 2)), (1, vec![(0, 1)]));
    assert_eq!(bed.query("SET @towpath_sticky_backend = 9", Runs(0, 1)).0, 1);
    assert_eq!(bed.counts("sticky_events"), ["bad-value=1"]);
    assert_eq!(bed.query("SELECT 'SET @towpath_sticky_backend = 0'", Runs(1, 2)).0, 1);

    // Prepared, it counts when it runs.
    let text = "SET @towpath_sticky_backend = 0";
    let prepare = Command::new(bed.session.clone(), CommandCode::STMT_PREPARE, text);
    assert_eq!(bed.send(prepare, Runs(0, 1)).0, 1);
    let statement = Statement::new(text.into(), sql::Dialect::default()).shared();
    let run = Command::new(bed.session.clone(), CommandCode::STMT_EXECUTE, [1; 9]);
    assert_eq!(bed.send(run.with(statement), Runs(0, 1)), (0, NOTHING.into()));
}

#[test]
fn rules_make_sessions_sticky_and_give_way_to_hints() {
    let mut bed = Bed::new("");
    let query = |bed: &Bed| Command::query(bed.session.clone(), "SELECT 1");
    let mut ask = |facts: fn(Command) -> Command| {
        let command = facts(query(&bed));
        bed.send(command, Answered).0
    };
    assert_eq!(ask(|command| command.with(rule(true))), 1);
    assert_eq!(ask(|command| command), 1);
    assert_eq!(ask(|command| command.with(rule(false))), 0);
    assert_eq!(ask(|command| command.with(rule(false)).with(hint(2))), 2);
    assert_eq!(ask(|command| command.with(rule(true))), 2, "strict is sticky");
    fn after_rules(mode: u32) -> Hints {
        Hints { beats_rules: false, ..hint(mode) }
    }
    assert_eq!(ask(|command| command.with(rule(false)).with(after_rules(2))), 0);
    assert_eq!(ask(|command| command.with(after_rules(1))), 1);
}

#[test]
fn a_key_is_hashed_for_its_statement_alone() {
    let mut bed = Bed::new("strict_wait = '3s'");
    let keyed = |mode| Hints { affinity_key: Some((*b"req-7").into()), sticky: mode, ..hint(0) };
    let mut ask = |hints: Option<Hints>| {
        let mut command = Command::query(bed.session.clone(), "SELECT 1");
        if let Some(hints) = hints {
            command.note(hints);
        }
        bed.next.lock().expect("no test panics with it held").push_back(Runs(1, 2));
        bed.client.send(command).unwrap();
        bed.seen.lock().expect("no test panics with it held").take()
    };
    let expected = Affinity {
        key: Some(key_hash(b"req-7")),
        strict_wait: Duration::from_secs(3),
        ..Affinity::default()
    };
    assert_eq!(ask(Some(keyed(None))), Some(expected.clone()));
    assert_eq!(ask(None), None);
    let mode = StickyMode::WhileAlive;
    assert_eq!(ask(Some(keyed(Some(mode)))), Some(Affinity { mode, ..expected }));
    assert_eq!(ask(None).map(|affinity| affinity.server(HostgroupId(1))), Some(Some(2)));
}

#[test]
fn a_filter_s_own_commands_go_along_and_change_nothing() {
    let mut bed = Bed::new("");
    let own = |bed: &Bed, mode| {
        let command = Command::query(bed.session.clone(), "SELECT 1").with(hint(mode));
        command.asked_by(Asker::Filter("another"))
    };
    let command = own(&bed, 1);
    assert_eq!(bed.send(command, Runs(1, 2)), (0, NOTHING.into()));
    bed.hinted(1, Runs(1, 3));
    let command = own(&bed, 0);
    assert_eq!(bed.send(command, Runs(1, 3)), (1, vec![(1, 3)]));
    assert_eq!(bed.query("SELECT 1", Runs(1, 3)), (1, vec![(1, 3)]));
}

#[test]
fn whoever_explains_is_told_the_mode() {
    let mut bed = Bed::new("");
    let explain = Explain::default();
    let command = Command::query(bed.session.clone(), "SELECT 1").with(explain.clone());
    bed.send(command.with(hint(2)), Answered);
    assert_eq!(explain.notes()[0].what, serde_json::json!({ "mode": "strict", "key": false }));
}

#[test]
fn wrong_settings_are_refused_with_what_is_right() {
    for (setting, said) in [("strict_wait = 3", "strict_wait"), ("wait = '3s'", "strict_wait")] {
        let text = format!("session = [{{ use = 'parse' }}, {{ use = 'sticky', {setting} }}]");
        let mistakes = testing::chain(&text, &registry()).unwrap_err();
        assert!(mistakes.to_string().contains(said), "{mistakes}");
    }
    let mistakes = testing::chain("session = [{ use = 'sticky' }]", &registry()).unwrap_err();
    assert!(mistakes.to_string().contains("sticky needs `statement`"), "{mistakes}");
}

/// Every TOML block of the page is a chain that can be built.
#[test]
fn the_pages_examples_are_right() {
    let page = include_str!("../README.md");
    let examples: Vec<_> = page.split("```toml\n").skip(1).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let text = example.split("```").next().expect("the fence is closed");
        let text = text.replace("[chain.main]\n", "");
        testing::chain(&text, &registry()).map_err(|e| e.to_string()).unwrap();
    }
}
