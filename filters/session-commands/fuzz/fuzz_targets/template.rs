//! Whatever a server answers to a session command: it reaches the client as it was; if it is kept,
//! the next session is given the same bytes, but for a statement's id; and whatever another server
//! answers to the same, a verdict can be made of it.
#![no_main]

use bytes::{Bytes, BytesMut};
use chain::{
    Answer, Body, Chain, Command, End, Hostgroup, HostgroupId, Registry, Reply, Server, Session,
    Topology,
    facts::{LogEntry, ServedBy, SessionLog, Target},
    testing::{self, Client},
};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, Mutex};
use wire::{
    capability::Capabilities, command::CommandCode, packet::put_packet, status::Status,
};

/// Payloads, what of the last one its reader has made (status, error), and whether it is the one
/// that ends the reply.
type Said = (Vec<Vec<u8>>, Option<u16>, Option<u16>, bool);

const CHAIN: &str = "session = [
  { use = 'parse' },
  { use = 'session-commands', mode = 'predict', predict = { min_observations = 1, min_sessions = 1, audit_rate = 0, with_warnings = true } },
]
backend = [{ use = 'catch-up' }]";

/// Where the id stands in the reply to COM_STMT_PREPARE.
const ID: std::ops::Range<usize> = 5..9;

fuzz_target!(|input: (bool, u64, Said, Said)| {
    let (prepares, capabilities, first, second) = input;
    let bed = Bed::new(Capabilities(capabilities), answer(first), prepares);
    let (told, asked) = bed.run();
    assert!(asked && told == whole(&bed.answer));
    let (told, asked) = bed.run();
    if !asked {
        let (mut told, mut given) = (told, whole(&bed.answer));
        if prepares {
            let id = u32::from_le_bytes(told[ID].try_into().expect("four bytes"));
            assert!(id >= 1 << 31, "the session's own");
            told[ID].fill(0);
            given[ID].fill(0);
        }
        assert_eq!(told, given);
    }
    let entries = bed.entries.lock().expect("no panic").clone();
    let answer = answer(second);
    for witness in entries.iter().filter_map(|entry| entry.witness.as_ref()) {
        witness.saw(&bed.server, &answer);
        witness.saw(&bed.server, &bed.answer);
    }
});

/// A server, and a chain before it.
struct Bed {
    chain: Chain,
    session: Session,
    server: Arc<Server>,
    answer: Answer,
    prepares: bool,
    entries: Arc<Mutex<Vec<Arc<LogEntry>>>>,
}

impl Bed {
    fn new(capabilities: Capabilities, answer: Answer, prepares: bool) -> Self {
        let registry = Registry::default()
            .with::<testing::Statements>()
            .with::<session_commands::Factory>()
            .with_layer("catch-up", testing::passes);
        let server = Arc::new(Server::new(1, "a", 1));
        server.profile.set("1");
        let group =
            Hostgroup { id: HostgroupId(0), name: None, servers: vec![server.clone()] };
        let mut session = testing::session_of(Topology::new(vec![group]));
        session.update(|view| view.capabilities = capabilities);
        let chain = testing::chain(CHAIN, &registry).expect("right settings");
        Self { chain, session, server, answer, prepares, entries: Arc::default() }
    }

    /// Sends the command, and one more that needs a server, in a session of its own. What the client
    /// was told, and whether the server was asked.
    fn run(&self) -> (Vec<u8>, bool) {
        let asked = Arc::new(Mutex::new(0_usize));
        let (count, answer, entries) = (asked.clone(), self.answer.clone(), self.entries.clone());
        let server = self.server.clone();
        let bottom = testing::answering(move |command: Command| {
            *count.lock().expect("no panic") += 1;
            if let Some(log) = command.fact::<SessionLog>() {
                *entries.lock().expect("no panic") = log.entries.to_vec();
            }
            let Answer { packets, end } = answer.clone();
            let target = Target { hostgroup: HostgroupId(0), server: server.clone() };
            Ok(Reply::new(Body::whole(packets, end)).with(ServedBy(target)))
        });
        let mut client = Client::with_session(self.chain.session(bottom), self.session.clone());
        let (code, text) = match self.prepares {
            true => (CommandCode::STMT_PREPARE, "SELECT ?"),
            false => (CommandCode::QUERY, "SET time_zone = '+01:00'"),
        };
        let command = Command::new(self.session.clone(), code, text);
        let told = client.send(command).map(|answer| whole(&answer)).unwrap_or_default();
        let was_asked = *asked.lock().expect("no panic") > 0;
        // Its reply may say anything: the session may end with it.
        let _ = client.query("SELECT 1");
        (told, was_asked)
    }
}

fn answer((payloads, status, error, ends): Said) -> Answer {
    let (mut packets, mut seq) = (BytesMut::new(), 1);
    let (last, head) = match payloads.split_last() {
        Some((last, head)) if ends => (Some(last), head),
        _ => (None, &payloads[..]),
    };
    for payload in head {
        seq = put_packet(&mut packets, seq, payload);
    }
    let mut packet = BytesMut::new();
    if let Some(last) = last {
        put_packet(&mut packet, seq, last);
    }
    let (status, packet) = (status.map(Status), packet.freeze());
    let end = End { packet, status, error, ..End::default() };
    Answer { packets: Bytes::from(packets), end }
}

fn whole(answer: &Answer) -> Vec<u8> {
    [&answer.packets[..], &answer.end.packet].concat()
}
