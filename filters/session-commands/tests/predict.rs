//! What `mode = "predict"` promises, without a socket: which commands reach the bottom, and what
//! is made of servers' answers to what the client was told.

use bytes::{Bytes, BytesMut};
use chain::{
    Answer, Body, Chain, Command, End, Hostgroup, HostgroupId, Registry, Reply, Server, Session,
    Topology,
    facts::{LogEntry, ServedBy, SessionLog, Target, Verdict},
    testing::{self, Client, Log},
    topology::ServerState,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use wire::{
    capability::Capabilities, command::CommandCode, err::ErrPacket, ok::OkPacket,
    packet::put_packet, session_state::Tracker, status::Status,
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
            .with_layer("catch-up", testing::passes);
        let text = format!(
            "session = [{{ use = 'parse' }}, {{ use = 'session-commands', mode = 'predict'{settings} }}]
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
fn v0_a_server_does_the_same() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    assert_eq!(world.verdict(SET, 1, &ok(OkPacket::default())), None);
    assert_eq!((world.counted("hard"), world.counted("soft")), (0, 0));
    assert_eq!(world.counted("replayed"), 1);
}

#[test]
fn v1_only_warnings_differ() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    let warned = ok(OkPacket { warnings: 1, ..OkPacket::default() });
    assert_eq!(world.verdict(SET, 1, &warned), None);
    assert_eq!((world.counted("hard"), world.counted("soft")), (0, 1));
    assert_eq!(world.run(SET), 5, "it is volatile");
}

#[test]
fn v2_the_session_has_another_value_there() {
    let world = World::new("");
    world.answers(tracks("time_zone", "+01:00"));
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    let other = tracks("time_zone", "+02:00");
    assert_eq!(world.verdict(SET, 1, &other), Some(Verdict::Other(Bytes::new())));
    assert_eq!((world.counted("hard"), world.counted("volatile")), (1, 1));
    // What a server has answered itself was no lie.
    assert_eq!(world.verdict(SET, 1, &other), None);
    // Compacted, what it depended on may be gone from the log.
    let other = "SET time_zone = '+03:00'";
    assert_eq!((world.run(other), world.run(other)), (5, 0));
    assert_eq!(world.verdict(other, 1, &ok(OkPacket::default())), None);
    assert_eq!(world.run(other), 0);
}

#[test]
fn v3_a_server_refuses_it() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    assert_eq!(world.verdict(SET, 1, &err(1231)), None, "the entry itself must succeed");
    assert_eq!((world.counted("hard"), world.counted("volatile")), (1, 1));
    assert_eq!(world.run(SET), 5);
}

#[test]
fn three_wrong_answers_are_enough_for_a_session() {
    let world = World::new("");
    let texts: Vec<_> = (0..4).map(|n| format!("SET @v{n} = 1")).collect();
    // In one session each is known by what went before it.
    world.log.take();
    for _ in 0..5 {
        let mut client = world.connect();
        texts.iter().for_each(|text| drop(client.query(text).expect("an answer")));
    }
    assert_eq!(world.log.take().len(), 20);
    let mut client = world.connect();
    for text in &texts[..3] {
        client.query(text).expect("an answer");
    }
    assert_eq!(world.log.take().len(), 0);
    client.query("SELECT 1").expect("an answer");
    for entry in world.entries.lock().expect("no panic").iter() {
        let witness = entry.witness.as_ref().expect("it has a witness");
        witness.saw(&world.servers[0], &err(1231));
    }
    world.log.take();
    client.query(&texts[3]).expect("an answer");
    assert_eq!(world.log.take().len(), 1);
    let mut client = world.connect();
    client.query(&texts[3]).expect("an answer");
    assert_eq!(world.log.take().len(), 0, "others go on");
}

#[test]
fn too_many_wrong_answers_stop_them_all() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    for n in 0..5 {
        let text = format!("SET @v{n} = 1");
        assert_eq!((world.run(&text), world.run(&text)), (5, 0));
        world.verdict(&text, 1, &err(1231));
    }
    assert_eq!(world.counted("tripped"), 1);
    assert_eq!(world.run(SET), 5);
}

/// A statement: the id, no columns, `parameters` parameters without definitions (which the test has
/// no use for), `warnings`.
fn prepared(id: u32, parameters: u8, name: &[u8]) -> Answer {
    let mut packets = BytesMut::new();
    let mut head = vec![0];
    head.extend(id.to_le_bytes());
    head.extend([0, 0, parameters, 0, 0, 0, 0]);
    let seq = put_packet(&mut packets, 1, &head);
    put_packet(&mut packets, seq, name);
    Answer { packets: packets.freeze(), end: End::default() }
}

#[test]
fn v6_v7_statements() {
    let world = World::new("");
    world.answers(prepared(7, 1, b"column"));
    let text = "SELECT ?";
    let prepare = |client: &mut Client| {
        client
            .send(Command::new(world.session(), CommandCode::STMT_PREPARE, text))
            .expect("an answer")
    };
    for _ in 0..5 {
        prepare(&mut world.connect());
    }
    world.log.take();
    let mut client = world.connect();
    let first = prepare(&mut client);
    let second = prepare(&mut client);
    assert_eq!(world.log.take().len(), 0);
    let id = |answer: &Answer| u32::from_le_bytes(*answer.packets[5..].first_chunk().expect("4"));
    assert_eq!((id(&first), id(&second)), (1 << 31, (1 << 31) + 1));
    assert_eq!(first.packets[9..], prepared(7, 1, b"column").packets[9..]);
    client.query("SELECT 1").expect("an answer");
    let entries = world.entries.lock().expect("no panic").clone();
    let saw = |entry: usize, answer: &Answer| {
        let witness = entries[entry].witness.as_ref().expect("it has a witness");
        witness.saw(&world.servers[1], answer)
    };
    // V6: other columns are the statement's own business, and known from then on.
    assert_eq!(saw(0, &prepared(3, 1, b"other")), None);
    assert_eq!((world.counted("hard"), world.counted("soft")), (0, 1));
    world.log.take();
    let now = prepare(&mut world.connect());
    assert_eq!(world.log.take().len(), 0);
    assert_eq!(now.packets[9..], prepared(3, 1, b"other").packets[9..]);
    // V7: with other parameters it is another statement.
    assert_eq!(saw(1, &prepared(3, 2, b"column")), None);
    assert_eq!((world.counted("hard"), world.counted("soft")), (0, 2));
    prepare(&mut world.connect());
    assert_eq!(world.log.take().len(), 1);
}

#[test]
fn without_the_setting_nothing_is_given() {
    let world = World::new(", predict.prepare = false");
    world.answers(prepared(7, 0, b"column"));
    for _ in 0..10 {
        let command = Command::new(world.session(), CommandCode::STMT_PREPARE, "SELECT 1");
        world.connect().send(command).expect("an answer");
    }
    assert_eq!(world.log.take().len(), 10);
}
