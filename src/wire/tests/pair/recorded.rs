//! The scanner against replies that real servers have sent.

use wire::{
    Capabilities, CommandCode, ErrPacket, ReplyScanner, Scan, Status,
    command::statement::PrepareOk,
    packet::{HEADER_LEN, Header},
    session_state::Tracker,
};

struct Recorded {
    server: &'static str,
    caps: Capabilities,
    command: CommandCode,
    name: &'static str,
    bytes: Vec<u8>,
}

fn all() -> impl Iterator<Item = Recorded> {
    let lines = include_str!("replies.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let [server, caps, command, name, bytes] =
            line.split(' ').collect::<Vec<_>>().try_into().expect("five fields");
        Recorded {
            server,
            caps: Capabilities(u64::from_str_radix(caps, 16).unwrap()),
            command: CommandCode(u8::from_str_radix(command, 16).unwrap()),
            name,
            bytes: unhex(bytes),
        }
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn named(name: &'static str) -> impl Iterator<Item = Recorded> {
    let mut found = all().filter(move |reply| reply.name == name).peekable();
    assert!(found.peek().is_some(), "no reply named {name}");
    found
}

impl Recorded {
    fn scanner(&self) -> ReplyScanner {
        ReplyScanner::new(self.command, self.caps).with_cursor(self.name.contains("cursor"))
    }

    /// Scans the reply whole; it must end with its last byte.
    fn scan(&self) -> (ReplyScanner, wire::ReplyEnd) {
        let mut scanner = self.scanner();
        match scanner.scan(&self.bytes) {
            Ok(Scan::End { at, end }) if at == self.bytes.len() => (scanner, end),
            other => panic!("{} on {} ({:?}): {other:?}", self.name, self.server, self.caps),
        }
    }
}

#[test]
fn every_reply_ends_with_its_last_byte_and_not_before() {
    for reply in all() {
        let (_, whole) = reply.scan();
        let mut scanner = reply.scanner();
        for (at, byte) in reply.bytes.iter().enumerate() {
            let last = at + 1 == reply.bytes.len();
            match scanner.scan(&[*byte]).unwrap() {
                Scan::More if !last => {}
                Scan::End { at: 1, end } if last => assert_eq!(end, whole, "{}", reply.name),
                other => panic!("{} at {at} of {}: {other:?}", reply.name, reply.bytes.len()),
            }
        }
    }
}

#[test]
fn every_cut_into_two_finds_the_same_end() {
    for reply in all() {
        let (_, whole) = reply.scan();
        for cut in 0..reply.bytes.len() {
            let (first, second) = reply.bytes.split_at(cut);
            let mut scanner = reply.scanner();
            assert_eq!(scanner.scan(first), Ok(Scan::More), "{} cut at {cut}", reply.name);
            let end = Scan::End { at: second.len(), end: whole };
            assert_eq!(scanner.scan(second), Ok(end), "{} cut at {cut}", reply.name);
        }
    }
}

#[test]
fn what_follows_the_end_is_left_alone() {
    for reply in all() {
        let mut bytes = reply.bytes.clone();
        bytes.extend(b"\x01\x00\x00\x01\x02");
        let mut scanner = reply.scanner();
        let Ok(Scan::End { at, .. }) = scanner.scan(&bytes) else { panic!("{}", reply.name) };
        assert_eq!(at, reply.bytes.len(), "{}", reply.name);
    }
}

#[test]
fn the_terminator_is_the_last_packet_on_the_wire() {
    for reply in all() {
        let (scanner, end) = reply.scan();
        let mut last = 0;
        let mut at = 0;
        while let Some(header) = Header::parse(&reply.bytes[at..]) {
            last = HEADER_LEN + header.len;
            at += last;
        }
        assert_eq!(end.terminator, last, "{}", reply.name);
        if !scanner.last_packet().is_empty() {
            let payload = &reply.bytes[reply.bytes.len() - last + HEADER_LEN..];
            assert_eq!(scanner.last_packet(), payload, "{}", reply.name);
        }
    }
}

#[test]
fn errors_have_their_code_and_the_status_of_results_before() {
    let none = None;
    let before = Some(Status::AUTOCOMMIT);
    for (name, code, status) in
        [("error", 1054, none), ("prepare-error", 1064, none), ("several-with-error", 1054, before)]
    {
        for reply in named(name) {
            let (scanner, end) = reply.scan();
            assert_eq!((end.error.unwrap().code, end.status), (code, status), "{name}");
            assert_eq!(ErrPacket::decode(scanner.last_packet()).unwrap().code, code, "{name}");
        }
    }
}

#[test]
fn status_follows_the_transaction() {
    for reply in named("begin") {
        assert!(reply.scan().1.status.unwrap().contains(Status::IN_TRANS));
    }
    for reply in named("start-tracked") {
        assert!(!reply.scan().1.status.unwrap().contains(Status::IN_TRANS));
    }
}

#[test]
fn cursors_say_so() {
    for name in ["execute-cursor", "fetch"] {
        for reply in named(name) {
            assert!(reply.scan().1.status.unwrap().contains(Status::CURSOR_EXISTS), "{name}");
        }
    }
    for reply in named("fetch-end") {
        assert!(reply.scan().1.status.unwrap().contains(Status::LAST_ROW_SENT));
    }
}

#[test]
fn prepared_counts() {
    for (name, parameters, columns) in
        [("prepare", 1, 2), ("prepare-nothing", 0, 0), ("prepare-parameter", 1, 0)]
    {
        for reply in named(name) {
            let prepared = reply.scan().0.prepared().unwrap();
            let PrepareOk { parameters: p, columns: c, .. } = prepared;
            assert_eq!((p, c), (parameters, columns), "{name}");
        }
    }
}

#[test]
fn session_state_is_gathered_over_all_results() {
    let tracks = |reply: &Recorded| reply.caps.contains(Capabilities::SESSION_TRACK);
    for reply in named("start-tracked").filter(tracks) {
        // The read-only transaction is opened and closed within one reply.
        let (scanner, end) = reply.scan();
        let trackers = Tracker::decode_all(scanner.session_state().unwrap()).unwrap();
        let texts = trackers.iter().filter_map(|tracker| match tracker {
            Tracker::TransactionCharacteristics(text) => Some(String::from_utf8_lossy(text)),
            _ => None,
        });
        let texts: Vec<_> = texts.collect();
        assert!(end.tracked);
        assert!(texts.iter().any(|text| text.contains("START TRANSACTION READ ONLY")), "{texts:?}");
        assert_eq!(texts.last().map(|text| &**text), Some(""), "{texts:?}");
    }
    for reply in named("use").filter(tracks) {
        let (scanner, _) = reply.scan();
        let trackers = Tracker::decode_all(scanner.session_state().unwrap()).unwrap();
        assert!(trackers.contains(&Tracker::Schema(b"app".to_vec())), "{trackers:?}");
    }
}
