//! Texts that an observer keeps.

use crate::talk::{CAPS, ERR, OK, Said, add, answers, asks, packet, seen_by};
use wire::{
    Capabilities, CommandCode,
    observe::{Event, KEPT_PREPARED, KEPT_WAITING, Observer},
    packet::MAX_PAYLOAD,
};

const EXECUTE: CommandCode = CommandCode::STMT_EXECUTE;
const PREPARE: CommandCode = CommandCode::STMT_PREPARE;

#[track_caller]
fn must_see(limit: usize, talk: &[Said], expected: &str) {
    for size in [1, 2, 3, 7, 1 << 20] {
        let mut observer = Observer::new(CAPS).keeping_texts(limit);
        assert_eq!(seen_by(&mut observer, talk, size), expected, "in pieces of {size}");
    }
}

/// That statement `id` has been prepared.
fn prepared(id: u32) -> Said {
    answers(&[&[&[0][..], &id.to_le_bytes(), &[0; 7]].concat()])
}

fn named(command: CommandCode, id: u32) -> Said {
    asks(command, &[&id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat())
}

#[test]
fn what_is_asked_comes_back_with_the_answer() {
    must_see(
        20,
        &[
            asks(CommandCode::QUERY, b"DO 1"),
            answers(&[OK]),
            asks(CommandCode::INIT_DB, b"shop"),
            answers(&[ERR]),
            asks(CommandCode::PING, b"not a text"),
            answers(&[OK]),
            asks(CommandCode::QUERY, b"SELECT 1234567890123"),
            answers(&[ERR]),
            asks(CommandCode::QUERY, b""),
            answers(&[ERR]),
        ],
        "QUERY QUERY[DO 1]@0=ok INIT_DB INIT_DB[shop]@2=1064 PING PING@4=ok \
         QUERY QUERY[SELECT 123456789012]@6=1064 QUERY QUERY[]@8=1064",
    );
}

#[test]
fn a_statement_keeps_its_text_until_it_is_closed() {
    must_see(
        99,
        &[
            asks(PREPARE, b"SELECT ?"),
            prepared(7),
            asks(PREPARE, b"DO ?"),
            prepared(8),
            named(EXECUTE, 7),
            answers(&[OK]),
            named(CommandCode::STMT_FETCH, 8),
            answers(&[ERR]),
            asks(PREPARE, b"SELEC"),
            answers(&[ERR]),
            named(CommandCode::STMT_CLOSE, 7),
            named(EXECUTE, 7),
            answers(&[ERR]),
            asks(CommandCode::RESET_CONNECTION, b""),
            answers(&[OK]),
            named(EXECUTE, 8),
            answers(&[ERR]),
        ],
        "STMT_PREPARE STMT_PREPARE[SELECT ?]@0=ok STMT_PREPARE STMT_PREPARE[DO ?]@2=ok \
         STMT_EXECUTE STMT_EXECUTE[SELECT ?]@4=ok STMT_FETCH STMT_FETCH[DO ?]@6=1064 \
         STMT_PREPARE STMT_PREPARE[SELEC]@8=1064 STMT_CLOSE STMT_EXECUTE STMT_EXECUTE@11=1064 \
         RESET_CONNECTION RESET_CONNECTION@13=ok STMT_EXECUTE STMT_EXECUTE@15=1064",
    );
}

/// MariaDB's id for what was prepared last, sent before that has been answered.
#[test]
fn the_statement_that_was_prepared_last_has_a_name_of_its_own() {
    let all =
        [packet(0, b"\x16DO ?"), packet(0, &[EXECUTE.0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 1, 0, 0, 0])];
    must_see(
        99,
        &[
            asks(PREPARE, b"SELECT ?"),
            prepared(7),
            Said::Client(all.concat()),
            prepared(8),
            answers(&[OK]),
            named(CommandCode::STMT_CLOSE, u32::MAX),
            named(EXECUTE, 8),
            answers(&[ERR]),
            named(EXECUTE, u32::MAX),
            answers(&[ERR]),
        ],
        "STMT_PREPARE STMT_PREPARE[SELECT ?]@0=ok STMT_PREPARE STMT_EXECUTE \
         STMT_PREPARE[DO ?]@2=ok STMT_EXECUTE[DO ?]@2=ok STMT_CLOSE \
         STMT_EXECUTE STMT_EXECUTE@6=1064 STMT_EXECUTE STMT_EXECUTE@8=1064",
    );
}

#[test]
fn the_head_of_a_text_is_kept_of_however_many_packets_it_has() {
    let long = [&b"\x03DO 1 /* "[..], &vec![b'x'; MAX_PAYLOAD]].concat();
    let talk = [
        Said::Client(packet(0, &long)),
        answers(&[OK]),
        asks(CommandCode::QUERY, b"DO 2"),
        answers(&[OK]),
    ];
    let mut observer = Observer::new(CAPS).keeping_texts(9);
    let expected = "QUERY QUERY[DO 1 /* ]@0=ok QUERY QUERY[DO 2]@2=ok";
    assert_eq!(seen_by(&mut observer, &talk, 1 << 16), expected);
}

#[test]
fn an_answer_before_the_end_of_its_command_takes_what_there_is() {
    let command = packet(0, b"\x03SELECT 1 + 1 + 1");
    let (first, rest) = command.split_at(16);
    must_see(
        99,
        &[
            Said::Client(first.to_vec()),
            answers(&[ERR]),
            Said::Client(rest.to_vec()),
            asks(CommandCode::QUERY, b"DO 1"),
            answers(&[OK]),
        ],
        "QUERY QUERY[SELECT 1 + ]@0=1064 QUERY QUERY[DO 1]@3=ok",
    );
}

#[test]
fn what_waits_and_what_is_prepared_is_bounded() {
    let (long, limit) = (vec![b'x'; 40 << 10], 48 << 10);
    let mut observer = Observer::new(CAPS).keeping_texts(limit);
    let mut kept = Vec::new();
    let mut note = |event| {
        if let Event::Answered(asked, _) = event {
            kept.push(asked.text.map_or(0, |text| text.payload().len()));
        }
    };
    for _ in 0..3 {
        observer.client(&packet(0, &[&[CommandCode::QUERY.0], &long[..]].concat()), 0, &mut note);
    }
    for _ in 0..3 {
        observer.server(&packet(1, OK), 0, &mut note);
    }
    for id in 0_u8..12 {
        observer.client(&packet(0, &[&[PREPARE.0], &long[..]].concat()), 0, &mut note);
        let Said::Server(answer) = prepared(id.into()) else { panic!("it is the server's") };
        observer.server(&answer, 0, &mut note);
    }
    for id in 0..12 {
        observer.client(&packet(0, &[EXECUTE.0, id, 0, 0, 0, 0, 1, 0, 0, 0]), 0, &mut note);
        observer.server(&packet(1, OK), 0, &mut note);
    }
    let long = long.len() + 1;
    assert_eq!(kept[..3], [long, 0, 0], "{KEPT_WAITING} bytes for all that wait");
    assert_eq!(kept[3..15], [long; 12]);
    let held = kept[15..].iter().filter(|&&kept| kept == long).count();
    assert_eq!(held, KEPT_PREPARED / (long + 64));
    assert_eq!(kept[15 + held..], vec![0; 12 - held]);
}

#[test]
fn a_reply_s_size_and_its_beginning_are_told() {
    let mut observer = Observer::new(CAPS);
    let mut told = Vec::new();
    let reply = packet(1, OK);
    observer.client(&packet(0, b"\x03DO 1"), 1, |_| {});
    observer.server(&reply[..2], 2, |_| {});
    let mut tell = |event| {
        if let Event::Answered(asked, answer) = event {
            told.push((asked.mark, answer.begun, answer.bytes, answer.status.is_some()));
        }
    };
    observer.server(&reply[2..], 3, &mut tell);
    observer.client(&[packet(0, b"\x03DO 1"), packet(0, b"\x0E")].concat(), 4, &mut tell);
    observer.server(&[reply.clone(), packet(1, ERR)].concat(), 5, &mut tell);
    let (ok, error) = (reply.len() as u64, packet(1, ERR).len() as u64);
    assert_eq!(told, [(1, 2, ok, true), (4, 5, ok, true), (4, 5, error, false)]);
}

#[test]
fn at_the_end_what_was_not_answered_is_told() {
    let mut observer = Observer::new(Capabilities::PROTOCOL_41).keeping_texts(99);
    let talk = [asks(CommandCode::QUERY, b"DO 1"), asks(CommandCode::PING, b""), answers(&[OK])];
    let mut words = seen_by(&mut observer, &talk, 3);
    observer.end(|event| add(&mut words, event));
    assert_eq!(words, "QUERY PING QUERY[DO 1]@0=ok PING@1=nothing");
    observer.end(|_| panic!("it has been told"));
    assert!(observer.is_silent());
}
