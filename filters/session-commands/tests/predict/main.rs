//! What `mode = "predict"` promises, without a socket: which commands reach the bottom.

mod verdicts;

use bytes::{Bytes, BytesMut};
use chain::{
    Answer, Body, Chain, Command, End, Hostgroup, HostgroupId, Registry, Reply, Server, Session,
    Topology,
    facts::{LogEntry, Multiplex, RuleVerdict, ServedBy, SessionLog, Target, Verdict},
    testing::{self, Client, Log},
    topology::ServerState,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tower::util::MapRequestLayer;
use wire::{
    capability::Capabilities,
    command::CommandCode,
    err::ErrPacket,
    ok::OkPacket,
    packet::{HEADER_LEN, put_packet},
    session_state::Tracker,
    status::Status,
};

/// Two servers of one hostgroup, and a chain before them.
struct World {
    chain: Chain,
    session: Session,
    servers: Vec<Arc<Server>>,
    /// The server that answers.
    at: Arc<AtomicUsize>,
    answer: Arc<Mutex<Answer>>,
    /// What has reached the bottom.
    log: Log,
    entries: Arc<Mutex<Vec<Arc<LogEntry>>>>,
}

const TRACKING: Capabilities =
    Capabilities(Capabilities::PROTOCOL_41.0 | Capabilities::SESSION_TRACK.0);

impl World {
    /// Both servers are of version 1.
    fn new(settings: &str) -> Self {
        let world = Self::of_unknown(settings);
        world.servers.iter().for_each(|server| server.profile.set("1"));
        world
    }

    fn of_unknown(settings: &str) -> Self {
        let registry = Registry::default()
            .with::<testing::Statements>()
            .with::<session_commands::Factory>()
            .with_layer("rules", ruled)
            .with_layer("catch-up", testing::passes);
        let text = format!(
            "session = [{{ use = 'parse' }}, {{ use = 'rules' }}, {{ use = 'session-commands', mode = 'predict'{settings} }}]
             backend = [{{ use = 'catch-up' }}]"
        );
        let servers: Vec<_> = ["a", "b"]
            .into_iter()
            .zip(1..)
            .map(|(name, id)| Arc::new(Server::new(id, name, 1)))
            .collect();
        let group = Hostgroup { id: HostgroupId(0), name: None, servers: servers.clone() };
        let mut session = testing::session_of(Topology::new(vec![group]));
        session.update(|view| view.capabilities = TRACKING);
        Self {
            chain: testing::chain(&text, &registry).expect("right settings"),
            session,
            servers,
            at: Arc::default(),
            answer: Arc::new(Mutex::new(ok(OkPacket::default()))),
            log: Log::default(),
            entries: Arc::default(),
        }
    }

    /// A session of its own.
    fn session(&self) -> Session {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut session = self.session.clone();
        let id = NEXT.fetch_add(1, Relaxed);
        session.update(|view| view.id = (1 << 31) + id as u32);
        session
    }

    fn connect(&self) -> Client {
        let session = self.session();
        let (log, servers, at) = (self.log.clone(), self.servers.clone(), self.at.clone());
        let (answer, entries) = (self.answer.clone(), self.entries.clone());
        let bottom = testing::answering(move |command: Command| {
            log.push(testing::text(&command));
            let seen = command.fact::<SessionLog>().map(|log| log.entries.to_vec());
            *entries.lock().expect("no panic") = seen.unwrap_or_default();
            let Answer { packets, end } = answer.lock().expect("no panic").clone();
            let target =
                Target { hostgroup: HostgroupId(0), server: servers[at.load(Relaxed)].clone() };
            Ok(Reply::new(Body::whole(packets, end)).with(ServedBy(target)))
        });
        Client::with_session(self.chain.session(bottom), session)
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().expect("no panic") = answer;
    }

    /// Sends it in five sessions; how often it has reached the bottom.
    fn run(&self, text: &str) -> usize {
        self.log.take();
        for _ in 0..5 {
            self.connect().query(text).expect("an answer");
        }
        self.log.take().len()
    }

    /// What a server's answer means for the one session command of a session.
    fn verdict(&self, text: &str, server: usize, answer: &Answer) -> Option<Verdict> {
        let mut client = self.connect();
        client.query(text).expect("an answer");
        client.query("SELECT 1").expect("an answer");
        let entries = self.entries.lock().expect("no panic").clone();
        let witness = entries[0].witness.as_ref().expect("it has a witness");
        witness.saw(&self.servers[server], answer)
    }

    fn counted(&self, what: &str) -> u64 {
        let counters = self.chain.counters().filter(|family| !family.is_measured());
        let counts = counters.flat_map(|family| family.counts());
        counts.filter(|(name, _)| name == what).map(|(_, count)| count).sum()
    }
}

type Rules = MapRequestLayer<fn(Command) -> Command>;

/// Stands for `rules`: texts with these words are to be seen below.
fn ruled(_: testing::Nothing) -> Result<Rules, tower::BoxError> {
    Ok(MapRequestLayer::new(|command| {
        let text = testing::text(&command);
        let verdict = RuleVerdict {
            switch_to_fast_forward: text.contains("fast"),
            mirror: text.contains("mirror").then_some(HostgroupId(1)),
            multiplex: text.contains("pin").then_some(Multiplex::Pin),
            ..RuleVerdict::default()
        };
        command.with(verdict)
    }))
}

fn ok(packet: OkPacket) -> Answer {
    let mut status = packet.status;
    if status == Status::default() {
        status = Status::AUTOCOMMIT;
    }
    if !packet.trackers.is_empty() {
        status = Status(status.0 | Status::SESSION_STATE_CHANGED.0);
    }
    let (mut payload, mut framed) = (BytesMut::new(), BytesMut::new());
    OkPacket { status, ..packet }.encode(&mut payload, TRACKING);
    put_packet(&mut framed, 1, &payload);
    let end = End { packet: framed.freeze(), status: Some(status), ..End::default() };
    Answer { packets: Bytes::new(), end }
}

fn tracks(name: &str, value: &str) -> Answer {
    let tracker = Tracker::SystemVariable { name: name.into(), value: value.into() };
    ok(OkPacket { trackers: vec![tracker], ..OkPacket::default() })
}

/// What a statement without columns and parameters is answered with.
fn prepared() -> Answer {
    let mut framed = BytesMut::new();
    put_packet(&mut framed, 1, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    Answer { packets: framed.freeze(), end: End::default() }
}

fn err(code: u16) -> Answer {
    let (mut payload, mut framed) = (BytesMut::new(), BytesMut::new());
    let code = wire::err::ErrorCode { code, sqlstate: *b"42000" };
    ErrPacket::new(code, "no").encode(&mut payload);
    put_packet(&mut framed, 1, &payload);
    let end = End { packet: framed.freeze(), error: Some(code.code), ..End::default() };
    Answer { packets: Bytes::new(), end }
}

const SET: &str = "SET time_zone = '+01:00'";

/// H5, H84: a version is known by its own replies, and all of them must give the same.
#[test]
fn h05_h84_each_version_is_known_by_itself() {
    let world = World::of_unknown("");
    world.servers[0].profile.set("8.4");
    assert_eq!(world.run(SET), 5);
    assert_eq!(world.run(SET), 0, "nobody knows yet what the other server is");
    world.servers[1].profile.set("9.7");
    assert_eq!(world.run(SET), 5);
    world.at.store(1, Relaxed);
    assert_eq!(world.run(SET), 5);
    assert_eq!(world.run(SET), 0, "both give the same");
    // Another command, to which they do not.
    let other = "SET time_zone = '+02:00'";
    assert_eq!(world.run(other), 5);
    world.at.store(0, Relaxed);
    world.answers(ok(OkPacket { info: b"another".into(), ..OkPacket::default() }));
    assert_eq!(world.run(other), 5);
    assert_eq!(world.run(other), 5);
}

#[test]
fn an_account_that_no_server_has_accepted_is_answered_for_so_long() {
    let world = World::new(", predict.require_backend_auth_within = '1h'");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    let world = World::new(", predict.require_backend_auth_within = '0s'");
    assert_eq!((world.run(SET), world.run(SET)), (5, 5));
    let mut client = world.connect();
    world.log.take();
    for text in ["SELECT 1", SET] {
        client.query(text).expect("an answer");
    }
    assert_eq!(world.log.take(), ["SELECT 1"], "a server has answered");
}

#[test]
fn a_server_that_went_and_came_is_asked() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    world.servers[1].standing.set_state(ServerState::Shunned);
    world.servers[1].standing.set_state(ServerState::Online);
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    world.servers[0].standing.set_member(false);
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
}

#[test]
fn what_says_how_it_was_executed_is_not_given_again() {
    let statuses = [
        Status::IN_TRANS,
        Status::MORE_RESULTS_EXISTS,
        Status::NO_INDEX_USED,
        Status::NO_GOOD_INDEX_USED,
        Status::QUERY_WAS_SLOW,
        Status::LAST_ROW_SENT,
    ];
    let odd = statuses.map(|status| OkPacket { status, ..OkPacket::default() });
    let affected = OkPacket { affected_rows: 1, ..OkPacket::default() };
    let inserted = OkPacket { last_insert_id: 1, ..OkPacket::default() };
    let warning = OkPacket { warnings: 1, ..OkPacket::default() };
    for packet in odd.into_iter().chain([affected, inserted, warning.clone()]) {
        let world = World::new("");
        world.answers(ok(packet.clone()));
        assert_eq!((world.run(SET), world.run(SET)), (5, 5), "{packet:?}");
    }
    let world = World::new(", predict.with_warnings = true");
    world.answers(ok(warning));
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
}

#[test]
fn what_was_interrupted_says_nothing() {
    let world = World::new("");
    assert_eq!(world.run(SET), 5);
    assert_eq!(world.run(SET), 0);
    assert_eq!(world.verdict(SET, 0, &err(1317)), None);
    assert_eq!(world.run(SET), 0);
    let world = World::new("");
    world.answers(err(1317));
    assert_eq!(world.run(SET), 5);
    world.answers(ok(OkPacket::default()));
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
}

#[test]
fn only_session_commands_are_asked_for() {
    for text in [
        "SELECT 1",
        "SET @a = NOW()",
        "SET @a = (SELECT 1)",
        "SET GLOBAL max_error_count = 5",
        "SET nobody_knows = 1",
        "SET TRANSACTION READ ONLY",
        "SET @a = 1; SET @b = 2",
        "SET last_insert_id = 5",
        "SET insert_id = 5",
        "BEGIN",
    ] {
        let world = World::new("");
        assert_eq!((world.run(text), world.run(text)), (5, 5), "{text}");
    }
    for text in ["SET @a = 1", "USE d", "SET ROLE r", "SET NAMES DEFAULT", "PREPARE p FROM 'DO 1'"]
    {
        let world = World::new("");
        assert_eq!((world.run(text), world.run(text)), (5, 0), "{text}");
    }
}

#[test]
fn what_others_are_to_see_goes_down() {
    for text in ["SET @fast = 1", "SET @mirror = 1", "SET @pin = 1"] {
        let world = World::new("");
        assert_eq!((world.run(text), world.run(text)), (5, 5), "{text}");
    }
    let mut world = World::new("");
    world.session.update(|view| view.fast_forward = true);
    assert_eq!((world.run(SET), world.run(SET)), (5, 5));
}

#[test]
fn another_session_is_another_command() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    let changes: [fn(&mut chain::session::View); 5] = [
        |view| view.user = "other".into(),
        |view| view.current_schema = Some("d".into()),
        |view| view.capabilities = Capabilities::PROTOCOL_41,
        |view| view.collation = 8,
        |view| view.hostgroup = HostgroupId(9),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut other = World { session: world.session.clone(), ..World::new("") };
        other.session.update(change);
        let other = World { chain: world.chain.clone(), ..other };
        assert_eq!(other.run(SET), 5, "{at}");
    }
    let mut off = World { session: world.session.clone(), ..World::new("") };
    off.session.set_status(Status::default());
    off.chain = world.chain.clone();
    off.answers(ok(OkPacket { status: Status::NO_BACKSLASH_ESCAPES, ..OkPacket::default() }));
    assert_eq!(off.run(SET), 5, "without autocommit");
    assert_eq!(world.run(SET), 0);
}

#[test]
fn not_in_a_transaction_nor_while_tied() {
    let mut world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    let session = world.session.clone();
    for status in [Status::IN_TRANS, Status::IN_TRANS_READONLY] {
        world.session.set_status(Status(status.0 | Status::AUTOCOMMIT.0));
        assert_eq!((world.run(SET), world.run(SET)), (5, 5), "{status:?}");
    }
    world.session = session;
    let mut client = world.connect();
    client.query("CREATE TEMPORARY TABLE t (a INT)").expect("an answer");
    world.log.take();
    client.query(SET).expect("an answer");
    assert_eq!(world.log.take().len(), 1);
    assert_eq!(world.run(SET), 0);
}

#[test]
fn without_autocommit_not_behind_work() {
    let mut world = World::new("");
    world.session.set_status(Status::default());
    world.answers(ok(OkPacket { status: Status::NO_BACKSLASH_ESCAPES, ..OkPacket::default() }));
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    let mut client = world.connect();
    client.query("DO 1").expect("an answer");
    world.log.take();
    client.query(SET).expect("an answer");
    assert_eq!(world.log.take().len(), 1);
}

#[test]
fn what_changes_for_all_is_asked_anew() {
    let world = World::new("");
    let schema = "USE d";
    let learnt = || assert_eq!((world.run(SET), world.run(schema)), (0, 0));
    assert_eq!((world.run(SET), world.run(schema)), (5, 5));
    learnt();
    let run = |text| drop(world.connect().query(text).expect("an answer"));
    run("INSERT INTO t VALUES (1)");
    learnt();
    run("DROP DATABASE d");
    assert_eq!((world.run(SET), world.run(schema)), (0, 5));
    learnt();
    run("SET GLOBAL max_error_count = 5");
    assert_eq!((world.run(SET), world.run(schema)), (5, 5));
    learnt();
}

#[test]
fn what_no_server_ever_executes_is_counted() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    assert_eq!((world.counted("predicted"), world.counted("sent")), (5, 5));
    assert_eq!((world.counted("avoided"), world.counted("replayed")), (5, 0));
}

#[test]
fn a_server_counts_once_for_each_entry() {
    let world = World::new(", predict.min_sessions = 1");
    let mut client = world.connect();
    client.query(SET).expect("an answer");
    client.query("SELECT 1").expect("an answer");
    let entries = world.entries.lock().expect("no panic").clone();
    let witness = entries[0].witness.as_ref().expect("it has a witness");
    for _ in 0..9 {
        witness.saw(&world.servers[1], &ok(OkPacket::default()));
    }
    world.log.take();
    world.connect().query(SET).expect("an answer");
    assert_eq!(world.log.take().len(), 1, "two of five");
}

/// A server that was not sent what prepares a statement has nothing to close.
#[test]
fn a_statement_that_no_server_has_seen_is_closed_by_none() {
    let world = World::new("");
    world.answers(prepared());
    let (prepare, close) = (CommandCode::STMT_PREPARE, CommandCode::STMT_CLOSE);
    let open = |client: &mut Client, session: &Session| {
        let command = Command::new(session.clone(), prepare, "SELECT 1");
        let answer = client.send(command).expect("an answer");
        Bytes::copy_from_slice(&answer.packets[HEADER_LEN + 1..HEADER_LEN + 5])
    };
    for _ in 0..5 {
        open(&mut world.connect(), &world.session());
    }
    let (mut client, session) = (world.connect(), world.session());
    let mut closed = |seen: bool| {
        client.query("SELECT 1").expect("an answer");
        let id = open(&mut client, &session);
        if seen {
            client.query("SELECT 2").expect("an answer");
        }
        world.log.take();
        client.send(Command::new(session.clone(), close, id)).expect("nothing");
        world.log.take().len()
    };
    assert_eq!([closed(false), closed(true), closed(false)], [0, 1, 0]);
}

/// What the session has set before is part of what the reply depends on, if it can be.
#[test]
fn what_was_set_before_counts() {
    let world = World::new("");
    let after = |before: &str, text: &str| {
        (0..5)
            .filter(|_| {
                let mut client = world.connect();
                client.query(before).expect("an answer");
                world.log.take();
                client.query(text).expect("an answer");
                !world.log.take().is_empty()
            })
            .count()
    };
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    assert_eq!(after("SET NAMES latin1", SET), 5);
    assert_eq!(after("SET NAMES latin1", SET), 0);
    assert_eq!(after("SET sql_mode = 'ANSI'", SET), 5);
    assert_eq!(after("SET @a = 1", SET), 0, "it does not show");
    assert_eq!(after("SET @a = 1", "SET @b = @a + 1"), 5);
    assert_eq!(after("SET @a = 1", "SET @b = @a + 1"), 0);
    assert_eq!(after("SET @a = 'x'", "SET @b = @a + 1"), 5, "it reads that");
    assert_eq!(after("SET nobody_knows = 1", SET), 5);
    assert_eq!(after("SET nobody_knows = 1", SET), 5, "nobody knows what that was");
}
