//! Whole conversations: what one end says is what the other hears, with the ids of a plain
//! connection, whatever the frames look like.

use super::bed::{METHODS, Side, frame, headers, noise, packets, pair, query};
use proptest::prelude::*;
use wire::{
    Capabilities, CommandCode,
    compress::{End, Method},
    packet::MAX_PAYLOAD,
};

const OK: &[u8] = b"\0\0\0\x02\0\0\0";

/// A command, what its frames are cut into, and the payloads of its reply.
#[derive(Clone, Debug)]
struct Exchange {
    command: Vec<u8>,
    reply: Vec<Vec<u8>>,
    cuts: Vec<usize>,
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::collection::vec(prop::sample::select(&b"ab\0\xFF"[..]), 0..300);
    let long = (0usize..40_000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]);
    let odd = (0usize..5_000).prop_map(noise);
    prop_oneof![4 => text, 1 => long, 1 => odd]
}

prop_compose! {
    fn exchange()(
        command in payload(),
        reply in prop::collection::vec(payload(), 0..40),
        cuts in prop::collection::vec(0usize..2_000, 0..6),
    ) -> Exchange {
        // Not a query: the client's end knows the form of its reply, and these have any.
        let command = packets(0, [&[b"\x02", &command[..]].concat()[..]]);
        Exchange { command, reply, cuts }
    }
}

/// Pieces of these lengths, and the rest.
fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for len in cuts {
        let (piece, after) = rest.split_at((*len).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// `from` says `plain` in pieces; `to` gets the frames in pieces, and hears it.
fn hears(from: &mut Side, to: &mut Side, plain: &[u8], cuts: &[usize]) {
    let frames: Vec<u8> = cut(plain, cuts).into_iter().flat_map(|p| from.send(p)).collect();
    let mut heard = Vec::new();
    for piece in cut(&frames, cuts) {
        heard.extend(to.receive(piece).unwrap());
    }
    assert!(heard == plain, "{} bytes heard of {}", heard.len(), plain.len());
    assert!(to.is_done());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_conversation(
        method in prop::sample::select(&METHODS[..]),
        exchanges in prop::collection::vec(exchange(), 1..6),
    ) {
        let (mut client, mut server) = pair(method);
        for Exchange { command, reply, cuts } in exchanges {
            hears(&mut client, &mut server, &command, &cuts);
            hears(&mut server, &mut client, &packets(1, reply.iter().map(Vec::as_slice)), &cuts);
        }
    }

    /// The client sends all commands ahead of the first reply; the server takes commands and sends
    /// pieces of replies in any order that is possible.
    #[test]
    fn any_conversation_pipelined(
        method in prop::sample::select(&METHODS[..]),
        exchanges in prop::collection::vec(exchange(), 1..8),
        cuts in prop::collection::vec(0usize..2_000, 0..6),
        takes in prop::collection::vec(any::<bool>(), 0..30),
        piece in 1usize..9_000,
    ) {
        let (mut client, mut server) = pair(method);
        let commands: Vec<u8> = exchanges.iter().flat_map(|e| e.command.clone()).collect();
        let commands: Vec<u8> =
            cut(&commands, &cuts).into_iter().flat_map(|piece| client.send(piece)).collect();
        // Of one result: where others follow, the client's end goes by ids that may mislead it.
        let count = &b"\x05"[..];
        let reply = |e: &Exchange| {
            packets(1, [count].into_iter().chain(e.reply.iter().map(Vec::as_slice)).chain([OK]))
        };
        let replies: Vec<Vec<u8>> = exchanges.iter().map(reply).collect();
        let (mut commands, mut taken) = (&commands[..], 0);
        let (mut frames, mut sent, mut within) = (Vec::new(), 0, 0);
        let mut takes = takes.into_iter();
        while sent < replies.len() {
            let may_take = taken < exchanges.len();
            if may_take && (sent == taken || takes.next().unwrap_or(false)) {
                let command = &exchanges[taken].command;
                let mut heard = Vec::new();
                while heard.len() < command.len() {
                    let (frame, rest) = commands.split_at(7 + body_len(commands));
                    heard.extend(server.receive(frame).unwrap());
                    commands = rest;
                }
                prop_assert_eq!(&heard, command, "a command has frames of its own");
                taken += 1;
                continue;
            }
            let rest = &replies[sent][within..];
            let piece = piece.min(rest.len());
            frames.extend(server.send(&rest[..piece]));
            within += piece;
            if within == replies[sent].len() {
                (sent, within) = (sent + 1, 0);
            }
        }
        prop_assert!(client.receive(&frames).unwrap() == replies.concat());
        prop_assert!(client.is_done());
    }
}

fn body_len(frames: &[u8]) -> usize {
    usize::from(frames[0]) | usize::from(frames[1]) << 8 | usize::from(frames[2]) << 16
}

/// Two commands in one write are two frames, both of them the first of theirs.
#[test]
fn commands_share_no_frame() {
    let (mut client, _) = pair(Method::ZLIB);
    let (long, short) = (query(&[b'a'; 200]), query(b"DO 1"));
    let frames = client.send(&[&short[..], &long, &short].concat());
    let seqs: Vec<_> = headers(&frames).into_iter().map(|(seq, ..)| seq).collect();
    assert_eq!(seqs, [0, 0, 0]);
}

/// Two replies in one write are two frames, each of them the first of its command.
#[test]
fn replies_share_no_frame() {
    let (mut client, mut server) = pair(Method::ZLIB);
    let commands = [query(b"DO 1"), query(&noise(900)), query(b"DO 1")];
    for command in &commands {
        for piece in command.chunks(400) {
            server.receive(&client.send(piece)).unwrap();
        }
    }
    let replies = [packets(1, [OK]), packets(1, [OK]), packets(1, [OK, OK, OK])].concat();
    let frames = server.send(&replies);
    let seqs: Vec<_> = headers(&frames).into_iter().map(|(seq, ..)| seq).collect();
    assert_eq!(seqs, [1, 3, 1]);
    assert_eq!(client.receive(&frames), Ok(replies));
}

/// Replies of as many packets as there are ids: the next reply's first has the id that one more of
/// this would have.
#[test]
fn replies_of_all_ids_before_others() {
    for ahead in [false, true] {
        let (mut client, mut server) = pair(Method::ZLIB);
        let row = [b'r'; 40];
        let mut take = |server: &mut Side| server.receive(&client.send(&query(b"DO 1"))).unwrap();
        take(&mut server);
        for _ in 0..3 {
            if ahead {
                take(&mut server);
            }
            let rows = std::iter::repeat_n(&row[..], 255);
            let frames = server.send(&packets(1, rows.chain([&b"\xFE\0\0\x02\0"[..]])));
            assert_eq!(headers(&frames)[0].0, 1, "ahead {ahead}");
            if !ahead {
                take(&mut server);
            }
        }
        assert_eq!(headers(&server.send(&packets(1, [OK])))[0].0, 1);
    }
}

/// Commands that nobody answers: the next reply belongs to the next command.
#[test]
fn commands_without_a_reply() {
    let (mut client, mut server) = pair(Method::ZLIB);
    let close = packets(0, [&[CommandCode::STMT_CLOSE.0, 1, 0, 0, 0][..]]);
    let data = packets(0, [&[&[CommandCode::STMT_SEND_LONG_DATA.0], &noise(900)[..]].concat()[..]]);
    for _ in 0..3 {
        hears(&mut client, &mut server, &close, &[]);
        hears(&mut client, &mut server, &data, &[300, 300]);
        hears(&mut client, &mut server, &query(b"DO 1"), &[]);
        hears(&mut server, &mut client, &packets(1, [OK]), &[]);
    }
}

/// Two packets of 16 MiB in one command and in its reply, and a value that ends at the limit.
#[test]
fn more_than_a_packet() {
    for (method, len) in [(Method::ZSTD, MAX_PAYLOAD + 77), (Method::ZLIB, MAX_PAYLOAD - 1)] {
        let (mut client, mut server) = pair(method);
        let mut sql = noise(len);
        sql[1 << 20..].fill(b'x');
        hears(&mut client, &mut server, &query(&sql), &[]);
        hears(&mut server, &mut client, &packets(2, [&sql[..], OK]), &[]);
        hears(&mut client, &mut server, &query(b"DO 1"), &[]);
        hears(&mut server, &mut client, &packets(1, [OK]), &[]);
    }
}

/// A client's file of more packets and frames than there are ids, and the reply behind it.
#[test]
fn a_long_upload() {
    for piece in [1, 3, 1000] {
        let (mut client, mut server) = pair(Method::ZLIB);
        for count in [1_usize, 253, 254, 255, 256, 600] {
            hears(&mut client, &mut server, &query(b"LOAD DATA LOCAL INFILE 'f'"), &[]);
            hears(&mut server, &mut client, &packets(1, [&b"\xFBf"[..]]), &[]);
            let line = [b'l'; 30];
            let file = packets(2, std::iter::repeat_n(&line[..], count).chain([&b""[..]]));
            for part in file.chunks(34 * piece) {
                let heard = server.receive(&client.send(part)).unwrap();
                assert_eq!(heard, part);
            }
            let last = u8::try_from((2 + count + 1) % 256).unwrap();
            hears(&mut server, &mut client, &packets(last, [OK]), &[]);
            // What comes then is a command again.
            let frames = client.send(&query(b"DO 1"));
            assert_eq!(headers(&frames)[0].0, 0, "after {count} packets");
            assert_eq!(server.receive(&frames).unwrap(), query(b"DO 1"));
            hears(&mut server, &mut client, &packets(1, [OK]), &[]);
        }
    }
}

/// A change of user: both sides take turns within one exchange.
#[test]
fn turns_within_a_command() {
    let (mut client, mut server) = pair(Method::ZSTD);
    let change = packets(0, [&[&[CommandCode::CHANGE_USER.0], &[b'u'; 99][..]].concat()[..]]);
    hears(&mut client, &mut server, &change, &[]);
    hears(&mut server, &mut client, &packets(1, [&b"\xFEplugin\0nonce"[..]]), &[]);
    hears(&mut client, &mut server, &packets(2, [&[7; 20][..]]), &[]);
    hears(&mut server, &mut client, &packets(3, [OK]), &[]);
}

/// Servers begin the ids of a reply's packets at that of its frame, and anew with each result.
#[test]
fn ids_of_servers_become_those_of_a_plain_connection() {
    let (mut client, _) = pair(Method::ZLIB);
    let command = query(b"SELECT 1; SELECT 2");
    for piece in command.chunks(8) {
        client.send(piece);
    }
    let first = u8::try_from(command.len().div_ceil(8)).unwrap();
    let result = [&b"\x01"[..], b"definition", b"\x011", OK];
    let mut heard = Vec::new();
    for at in [first, first + 1] {
        heard.extend(client.receive(&frame(at, 0, &packets(at, result))).unwrap());
    }
    assert_eq!(heard, packets(1, [result, result].concat()));
}

/// Clients number the packets inside as they like.
#[test]
fn ids_of_clients_become_those_of_a_plain_connection() {
    let (_, mut server) = pair(Method::ZLIB);
    let mut odd = query(b"DO 1");
    odd[3] = 9;
    assert_eq!(server.receive(&frame(0, 0, &odd)), Ok(query(b"DO 1")));
}

/// A server that has had enough of a command answers before it has read all frames.
#[test]
fn a_refusal_in_the_middle_of_a_command() {
    let (mut client, _) = pair(Method::ZLIB);
    let command = query(&noise(1000));
    command.chunks(100).for_each(|piece| drop(client.send(piece)));
    let refusal = packets(1, [&b"\xFF\x81\x04#08S01Got a packet bigger than that"[..]]);
    assert_eq!(client.receive(&frame(4, 0, &refusal)), Ok(refusal.clone()));
}

/// A reply of more frames than there are ids while commands wait behind it.
#[test]
fn a_long_reply_before_the_next() {
    let mut client = Side::new(Method::ZLIB, End::Client(Capabilities::EMPTY));
    client.send(&[query(b"SELECT many"), query(b"DO 1")].concat());
    let row = [b'r'; 40];
    let reply = packets(1, std::iter::repeat_n(&row[..], 1500));
    let mut heard = Vec::new();
    // Three packets in each: the ids of frames and packets come to the same only as a reply begins.
    for (seq, three) in (1_usize..).zip(reply.chunks(44 * 3)) {
        heard.extend(client.receive(&frame(seq as u8, 0, three)).unwrap());
    }
    assert!(heard == reply);
    assert_eq!(client.receive(&frame(1, 0, &packets(1, [OK]))), Ok(packets(1, [OK])));
}

/// A text result set of one row, with the status that says whether another result follows.
fn result(more: bool) -> Vec<Vec<u8>> {
    let eof = vec![0xFE, 0, 0, if more { 8 } else { 0 }, 0];
    vec![vec![1], b"a column".to_vec(), eof.clone(), vec![1, b'x'], eof]
}

/// Each query comes in as many frames as it has bytes, so that the ids of results' frames pass those
/// with which the next replies begin.
#[test]
fn several_results_of_pipelined_queries_are_told_from_replies() {
    for method in METHODS {
        let (mut client, mut server) = pair(method);
        let queries: Vec<u8> = (0..12).flat_map(|n| query(&vec![b'q'; n])).collect();
        let frames: Vec<u8> = queries.chunks(1).flat_map(|byte| client.send(byte)).collect();
        assert_eq!(server.receive(&frames).unwrap(), queries);
        for count in 1..=12 {
            let reply: Vec<_> = (1..=count).flat_map(|n| result(n < count)).collect();
            let plain = packets(1, reply.iter().map(Vec::as_slice));
            let frames = server.send(&plain);
            assert_eq!(client.receive(&frames).unwrap(), plain, "{count} results");
        }
    }
}
