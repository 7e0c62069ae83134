//! Conversations, and what an observer sees of them.

use crate::talk::{CAPS, END, ERR, OK, Said, answers, asks, packet, seen};
use wire::{Capabilities, CommandCode, observe::Observer, packet::MAX_PAYLOAD};

const COLUMN: &[u8] = b"\x03def\0\0\0\x011\0\x0C\x3F\0\x01\0\0\0\x08\x81\0\0\0\0";

#[track_caller]
fn must_see(talk: &[Said], expected: &str) {
    for size in [1, 2, 3, 7, 1 << 20] {
        assert_eq!(seen(CAPS, talk, size), expected, "in pieces of {size}");
    }
}

#[test]
fn each_command_has_its_answer() {
    must_see(
        &[
            asks(CommandCode::QUERY, b"DO 1"),
            answers(&[OK]),
            asks(CommandCode::QUERY, b"SELEC"),
            answers(&[ERR]),
            asks(CommandCode::STMT_CLOSE, &[1, 0, 0, 0]),
            asks(CommandCode::PING, b""),
            answers(&[OK]),
            asks(CommandCode::QUIT, b""),
        ],
        "QUERY QUERY@0=ok QUERY QUERY@2=1064 STMT_CLOSE PING PING@5=ok QUIT",
    );
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let all = [
        packet(0, b"\x03SELECT 1"),
        packet(0, &[CommandCode::STMT_SEND_LONG_DATA.0, 1, 0, 0, 0, 0, 0, b'x']),
        packet(0, &[CommandCode::PING.0]),
    ];
    must_see(
        &[Said::Client(all.concat()), answers(&[&[1], COLUMN, b"\x011", END]), answers(&[OK])],
        "QUERY STMT_SEND_LONG_DATA PING QUERY@0=ok PING@0=ok",
    );
}

#[test]
fn rows_that_look_like_an_end_are_rows() {
    // An empty value first, NULL first, and a binary row.
    let rows: [&[u8]; 3] = [&[0, 0, 0, 2, 0, 0, 0], &[0xFB], &[0, 0, 1, 0, 0, 0]];
    must_see(
        &[
            asks(CommandCode::QUERY, b"SELECT 1"),
            answers(&[&[1], COLUMN, rows[0], rows[1], rows[2], END]),
            asks(CommandCode::PING, b""),
            answers(&[OK]),
        ],
        "QUERY QUERY@0=ok PING PING@2=ok",
    );
}

#[test]
fn several_results_are_one_answer() {
    let more = [0, 0, 0, 10, 0, 0, 0];
    must_see(
        &[
            asks(CommandCode::QUERY, b"DO 1; SELECT 1; SELEC"),
            answers(&[&more, &[1], COLUMN, b"\x011", &[0xFE, 0, 0, 10, 0, 0, 0], ERR]),
        ],
        "QUERY QUERY@0=1064",
    );
}

#[test]
fn a_cursor_and_its_fetches_are_samples_of_their_own() {
    let opened = [0xFE, 0, 0, 66, 0, 0, 0];
    let execute = [1, 0, 0, 0, 1, 1, 0, 0, 0];
    let without_deprecation = Capabilities::PROTOCOL_41;
    let talk = [
        asks(CommandCode::STMT_EXECUTE, &execute),
        answers(&[&[1], COLUMN, &[0xFE, 0, 0, 66, 0]]),
        asks(CommandCode::STMT_FETCH, &[1, 0, 0, 0, 5, 0, 0, 0]),
        answers(&[&[0, 0, 1, 0], &[0xFE, 0, 0, 66, 0]]),
    ];
    let expected = "STMT_EXECUTE STMT_EXECUTE@0=ok STMT_FETCH STMT_FETCH@2=ok";
    assert_eq!(seen(without_deprecation, &talk, 1), expected);
    let talk = [
        asks(CommandCode::STMT_EXECUTE, &execute),
        answers(&[&[1], COLUMN, &opened]),
        asks(CommandCode::STMT_FETCH, &[1, 0, 0, 0, 5, 0, 0, 0]),
        answers(&[&[0, 0, 1, 0], &opened]),
    ];
    must_see(&talk, expected);
}

#[test]
fn files_are_no_commands() {
    let looks_like_one = [CommandCode::QUERY.0, b'D', b'O', b' ', b'1'];
    // The request has the last sequence id, so that the file's first packet has 0.
    let mut before: Vec<u8> =
        (1..=254).flat_map(|seq| packet(seq, &[0, 0, 0, 10, 0, 0, 0])).collect();
    before.extend(packet(255, b"\xFBname"));
    must_see(
        &[
            asks(CommandCode::QUERY, b"DO 1; ...; LOAD DATA LOCAL ..."),
            Said::Server(before),
            Said::Client([packet(0, &looks_like_one), packet(1, b"")].concat()),
            Said::Server(packet(2, OK)),
            asks(CommandCode::PING, b""),
            answers(&[OK]),
        ],
        "QUERY file QUERY@0=ok PING PING@4=ok",
    );
}

#[test]
fn commands_of_16_mebibytes_are_one() {
    let long = [vec![CommandCode::QUERY.0], vec![b'x'; MAX_PAYLOAD + 9]].concat();
    let talk = [
        asks(CommandCode::PING, b""),
        answers(&[OK]),
        Said::Client(packet(0, &long)),
        answers(&[OK]),
    ];
    assert_eq!(seen(CAPS, &talk, 1 << 16), "PING PING@0=ok QUERY QUERY@2=ok");
}

#[test]
fn a_change_of_user_is_a_conversation() {
    for (last, word) in [(OK, "ok"), (ERR, "1064")] {
        must_see(
            &[
                asks(CommandCode::CHANGE_USER, b"u\0\0\0\x21\0mysql_native_password\0"),
                answers(&[b"\xFEmysql_native_password\x0012345678901234567890\0"]),
                Said::Client(packet(2, &[7; 20])),
                Said::Server(packet(3, b"\x01\x03")),
                Said::Server(packet(4, last)),
                asks(CommandCode::PING, b""),
                answers(&[OK]),
            ],
            &format!("CHANGE_USER CHANGE_USER@0={word} PING PING@5=ok"),
        );
    }
}

#[test]
fn a_binlog_is_one_long_answer() {
    let acknowledges = Said::Client(packet(0, b"\xEF\0\0\0\0\0\0\0\0bin.000001"));
    must_see(
        &[
            asks(CommandCode::BINLOG_DUMP, &[4, 0, 0, 0, 0, 0, 9, 0, 0, 0]),
            Said::Server(packet(1, b"\0event")),
            acknowledges,
            Said::Server([packet(2, b"\0event"), packet(3, &[0xFE, 0, 0, 2, 0])].concat()),
            asks(CommandCode::PING, b""),
            answers(&[OK]),
        ],
        "BINLOG_DUMP BINLOG_DUMP@0=ok PING PING@4=ok",
    );
}

#[test]
fn what_cannot_be_followed_is_given_up_for_good() {
    let after = || asks(CommandCode::PING, b"");
    let ping = || asks(CommandCode::PING, b"");
    let out_of_order = Said::Server([packet(1, &[1]), packet(3, COLUMN)].concat());
    let talks: [(Vec<Said>, &str); 5] = [
        (vec![answers(&[OK]), after()], "silent"),
        (vec![ping(), answers(&[b"what?"]), after()], "PING PING@0=nothing silent"),
        (
            vec![asks(CommandCode::QUERY, b"SELECT 1"), out_of_order, after()],
            "QUERY QUERY@0=nothing silent",
        ),
        (vec![Said::Client(packet(0, b"")), after()], "silent"),
        (vec![ping(), answers(&[OK, OK]), after()], "PING PING@0=ok silent"),
    ];
    for (talk, expected) in &talks {
        must_see(talk, expected);
    }
}

#[test]
fn it_remembers_no_more_commands_than_it_says() {
    let pings = |count| Said::Client(packet(0, &[CommandCode::PING.0]).repeat(count));
    let most = Observer::<usize>::WAITING;
    assert!(!seen(CAPS, &[pings(most)], 999).ends_with("silent"));
    assert!(seen(CAPS, &[pings(most + 1)], 999).ends_with("silent"));
}
