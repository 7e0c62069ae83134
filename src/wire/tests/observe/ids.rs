//! Statement ids that are changed on their way.

use crate::talk::{CAPS, OK, packet};
use wire::{
    CommandCode,
    packet::{HEADER_LEN, MAX_PAYLOAD},
    translate::Translate,
};

const CLIENTS: u32 = 0x8000_0001;

fn named(code: CommandCode, id: u32, more: &[u8]) -> Vec<u8> {
    packet(0, &[&[code.0][..], &id.to_le_bytes(), more].concat())
}

fn looks_like_one() -> Vec<u8> {
    [&[CommandCode::STMT_EXECUTE.0][..], &CLIENTS.to_le_bytes()].concat()
}

/// What comes out of `bytes` in pieces of `size`, and whether it is done then.
fn through(bytes: &[u8], size: usize) -> (Vec<u8>, bool) {
    let mut translate = Translate::new(&[(CLIENTS, 3)], CAPS);
    let out = bytes.chunks(size).flat_map(|piece| translate.client(piece)).collect();
    (out, translate.is_done())
}

#[test]
fn ids_are_translated_until_the_statement_is_closed() {
    let execute = CommandCode::STMT_EXECUTE;
    let conversation = |first: u32| {
        [
            packet(0, &[&[CommandCode::QUERY.0][..], &CLIENTS.to_le_bytes()].concat()),
            named(execute, first, b"parameters"),
            named(CommandCode::STMT_SEND_LONG_DATA, first, b"\0\0more"),
            named(CommandCode::STMT_FETCH, first, &[1, 0, 0, 0]),
            named(CommandCode::STMT_RESET, first, b""),
            named(CommandCode::STMT_BULK_EXECUTE, first, &[0, 0]),
            named(execute, 7, b""),
            packet(0, &[execute.0, 1]),
            named(CommandCode::STMT_CLOSE, first, b""),
            named(execute, CLIENTS, b""),
        ]
        .concat()
    };
    let (commands, expected) = (conversation(CLIENTS), conversation(3));
    for size in 1..commands.len() {
        assert_eq!(through(&commands, size), (expected.clone(), true), "pieces of {size}");
    }
}

#[test]
fn a_reset_forgets_them_all() {
    for code in [CommandCode::RESET_CONNECTION, CommandCode::CHANGE_USER] {
        assert!(through(&packet(0, &[code.0]), 1).1);
    }
}

#[test]
fn data_is_no_command() {
    // A file of so many packets that the ids begin anew.
    let mut file = packet(0, &[CommandCode::QUERY.0]);
    for seq in 2..=u8::MAX {
        file.extend(packet(seq, &looks_like_one()));
    }
    file.extend(packet(0, &looks_like_one()));
    assert_eq!(through(&file, 1000).0, file);
    // The end of one, with the last id, and then a command.
    let mut ended = packet(0, &[CommandCode::QUERY.0]);
    ended.extend(packet(u8::MAX, b""));
    let before = ended.clone();
    ended.extend(packet(0, &looks_like_one()));
    let out = through(&ended, 1000).0;
    assert_eq!(out[..before.len()], before);
    assert_eq!(out[before.len() + 5..], 3_u32.to_le_bytes());
}

#[test]
fn a_file_that_begins_with_the_first_id_is_no_command() {
    let mut translate = Translate::new(&[(CLIENTS, 3)], CAPS);
    translate.sent(&packet(0, b"\x03DO 1; ...; LOAD DATA LOCAL ..."));
    for seq in 1..=254 {
        translate.server(&packet(seq, &[0, 0, 0, 10, 0, 0, 0]));
    }
    translate.server(&packet(255, b"\xFBname"));
    let file = [packet(0, &looks_like_one()), packet(1, b"")].concat();
    assert_eq!(translate.client(&file), file);
    translate.server(&packet(2, OK));
    let command = translate.client(&packet(0, &looks_like_one()));
    assert_eq!(command[5..], 3_u32.to_le_bytes());
}

#[test]
fn what_follows_16_mebibytes_is_no_command() {
    let mut bytes = vec![0xFF, 0xFF, 0xFF, 0, CommandCode::QUERY.0];
    bytes.resize(HEADER_LEN + MAX_PAYLOAD, b'x');
    bytes.extend(packet(0, &looks_like_one()));
    assert!(through(&bytes, 1 << 16).0 == bytes);
}
