//! Where a server's end cuts frames, and the ids in them: as servers do it, since there are clients
//! that know nothing else.

use super::bed::{METHODS, Side, contents, headers, lengths, noise, packets, pair, query};
use wire::{
    Capabilities, CommandCode,
    compress::{End, MAX_FRAME, Method, WHOLE},
    packet::MAX_PAYLOAD,
};

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const OK_AND_MORE: &[u8] = b"\0\0\0\x0A\0\0\0";
const EOF: &[u8] = b"\xFE\0\0\x02\0";
const EOF_AND_MORE: &[u8] = b"\xFE\0\0\x0A\0";

/// A server's end that has got a query, and the frames of the reply that is given in such pieces.
fn reply(method: Method, reply: &[u8], piece: usize) -> Vec<u8> {
    let (mut client, mut server) = pair(method);
    server.receive(&client.send(&query(b"SELECT"))).unwrap();
    let frames: Vec<u8> = reply.chunks(piece).flat_map(|piece| server.send(piece)).collect();
    assert!(client.receive(&frames).unwrap() == reply, "pieces of {piece}");
    assert!(client.is_done());
    frames
}

/// A value of so many bytes that compress.
fn text(len: usize) -> Vec<u8> {
    b"towpath, ".iter().copied().cycle().take(len).collect()
}

/// The sequence ids of the packets in each frame.
fn ids(method: Method, frames: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let frames = contents(method, frames).into_iter();
    let inside = |plain: Vec<u8>| {
        let mut at = 0;
        let id = |len: usize| {
            at += len;
            plain[at - len + 3]
        };
        lengths(&plain).into_iter().map(id).collect()
    };
    frames.map(|(seq, plain)| (seq, inside(plain))).collect()
}

#[test]
fn packets_that_fit_are_whole() {
    let rows: Vec<Vec<u8>> = (0..20_000_usize)
        .map(|n| match n % 5000 {
            0 => noise(WHOLE - 4),
            1 => text(50_000),
            n => noise(n % 61),
        })
        .collect();
    let plain = packets(1, rows.iter().map(Vec::as_slice).chain([OK]));
    for piece in [7, 333, 16 << 10, 65_521, 128 << 10, 1 << 20] {
        let frames =
            contents(Method::Zlib { level: 1 }, &reply(Method::Zlib { level: 1 }, &plain, piece));
        let mut found = Vec::new();
        for (_, plain) in &frames {
            assert!(plain.len() <= WHOLE);
            found.extend(lengths(plain));
        }
        assert!(found == lengths(&plain), "pieces of {piece}");
        // No more of them than the pieces ask for.
        assert!(frames.len() <= plain.len().div_ceil(piece) + 2 * plain.len().div_ceil(WHOLE));
    }
}

/// A longer packet is in two frames, whatever its pieces, and shares neither with another.
#[test]
fn packets_that_do_not_fit_take_two_frames() {
    for method in METHODS {
        for len in [1, 49, 50, 100_000, 1 << 20].map(|more| WHOLE - 4 + more) {
            for value in [text(len), noise(len)] {
                let plain = packets(1, [&b"before"[..], &value, b"behind", &value, OK]);
                for piece in [10_000, 61_440, 1 << 30] {
                    let frames = contents(method, &reply(method, &plain, piece));
                    let lens: Vec<_> = frames.iter().map(|(_, plain)| plain.len()).collect();
                    let rest = len + 4 - WHOLE;
                    assert_eq!(lens, [10, WHOLE, rest, 10, WHOLE, rest, 11], "{method:?}");
                    assert!(frames.iter().map(|(seq, _)| *seq).eq(1..8));
                }
            }
        }
    }
}

#[test]
fn packets_of_16_mib() {
    for method in [Method::Zlib { level: 1 }, Method::ZSTD] {
        for mut value in [text(2 * MAX_PAYLOAD + 5), noise(MAX_PAYLOAD), text(MAX_PAYLOAD - 1)] {
            // Nothing at the end of it compresses any more.
            let end = value.len().min(MAX_PAYLOAD);
            value[1 << 20..end].copy_from_slice(&noise(end - (1 << 20)));
            let plain = packets(1, [&value[..], OK]);
            let frames = reply(method, &plain, 61_440);
            let whole = value.len() / MAX_PAYLOAD;
            let two = if value.len() == MAX_PAYLOAD - 1 { 1 } else { whole };
            assert_eq!(headers(&frames).len(), 2 * two + 1);
            assert!(headers(&frames).iter().all(|(_, len, _)| *len < MAX_FRAME));
        }
    }
}

/// What does not compress does not wait for its end; what does waits, and less comes of it.
#[test]
fn what_waits() {
    for method in METHODS {
        let mut server = Side::new(method, End::Server(Capabilities::EMPTY));
        let plain = packets(1, [&noise(1 << 20)[..]]);
        assert!(server.send(&plain[..WHOLE - 1]).is_empty());
        let gone: Vec<_> =
            plain[WHOLE - 1..].chunks(30_000).map(|piece| server.send(piece).len()).collect();
        assert!(gone.iter().skip(1).rev().skip(1).all(|gone| *gone == 30_000), "{gone:?}");

        let plain = packets(2, [&text(1 << 20)[..]]);
        let (last, ahead) = plain.split_last().unwrap();
        let sent = server.send(ahead);
        assert_eq!(headers(&sent).len(), 1);
        assert!(server.is_waiting());
        let rest = server.send(&[*last]);
        assert!(!server.is_waiting());
        let [(_, len, plain_len)] = headers(&rest)[..] else { panic!("one frame") };
        assert_eq!(plain_len, plain.len() - WHOLE);
        assert!(len < plain_len / 50, "{len}");
    }
}

/// Where there is no room to wait, the second frame is stored and goes out as it comes.
#[test]
fn what_may_not_wait() {
    for method in METHODS {
        let (mut client, mut server) = pair(method);
        server.receive(&client.send(&query(b"SELECT 1"))).unwrap();
        let plain = packets(1, [&text(1 << 20)[..]]);
        let mut frames = Vec::new();
        for (at, piece) in plain.chunks(100_000).enumerate() {
            let (sent, asked) = server.send_without_room(piece);
            assert_eq!(asked, if at == 1 { vec![plain.len() - WHOLE] } else { vec![] });
            assert!(at < 2 || sent.len() == piece.len(), "{method:?}: {}", sent.len());
            frames.extend(sent);
        }
        assert_eq!(headers(&frames).len(), 2);
        assert!(client.receive(&frames).unwrap() == plain);
    }
}

/// Each result has frames of its own, and the ids of its packets begin at that of its first. In
/// between they count on, from one frame to the next.
#[test]
fn results() {
    let value = text(1000);
    let rows = || std::iter::repeat_n(&value[..], 300);
    let definition = &b"\x03def"[..];
    let of_rows = |end| [b"\x01", definition, EOF].into_iter().chain(rows()).chain([end]);
    let payloads = of_rows(EOF_AND_MORE)
        .chain([OK_AND_MORE, b"\x01", definition, EOF, b"\x01r", EOF_AND_MORE, OK_AND_MORE])
        .chain(of_rows(EOF_AND_MORE))
        .chain([&b"\xFF\x28\x04#42000You have an error in your SQL syntax"[..]]);
    let plain = packets(1, payloads);
    for piece in [5_000, 61_440, 1 << 30] {
        let frames = ids(Method::ZLIB, &reply(Method::ZLIB, &plain, piece));
        let mut results: Vec<Vec<u8>> = Vec::new();
        for (seq, ids) in frames {
            match results.last_mut() {
                Some(result)
                    if ids[0] == result.last().unwrap().wrapping_add(1) && ids[0] != seq =>
                {
                    result.extend(ids);
                }
                // A frame that goes on could have that very id; none of these does.
                _ => {
                    assert_eq!(ids[0], seq, "pieces of {piece}");
                    results.push(ids);
                }
            }
        }
        let lens: Vec<_> = results.iter().map(Vec::len).collect();
        assert_eq!(lens, [304, 1, 5, 1, 304, 1], "pieces of {piece}");
        for ids in results {
            assert!(ids.windows(2).all(|two| two[1] == two[0].wrapping_add(1)));
        }
    }
}

/// Rows that look like the end of a result are none: those of a prepared statement begin with 0.
#[test]
fn rows_that_look_like_ends() {
    let (mut client, mut server) = pair(Method::ZLIB);
    let execute = packets(0, [&[CommandCode::STMT_EXECUTE.0, 1, 0, 0, 0, 0, 1, 0, 0, 0][..]]);
    server.receive(&client.send(&execute)).unwrap();
    let rows = std::iter::repeat_n(OK_AND_MORE, 300);
    let payloads = [&b"\x01"[..], b"\x03def", EOF].into_iter().chain(rows).chain([EOF]);
    let plain = packets(1, payloads);
    let frames = server.send(&plain);
    let [(1, ids)] = &ids(Method::ZLIB, &frames)[..] else { panic!("one frame") };
    assert_eq!(ids[..4], [1, 2, 3, 4]);
    assert_eq!(client.receive(&frames), Ok(plain));
}

/// The reply to a command of more frames than packets, and what follows a client's file.
#[test]
fn ids_go_by_frames() {
    let (mut client, mut server) = pair(Method::ZLIB);
    for piece in query(b"LOAD DATA LOCAL INFILE 'f'").chunks(8) {
        server.receive(&client.send(piece)).unwrap();
    }
    let request = server.send(&packets(1, [&b"\xFBf"[..]]));
    assert_eq!(ids(Method::ZLIB, &request), [(4, vec![4])]);
    client.receive(&request).unwrap();
    for piece in packets(2, [&[b'l'; 90][..], b""]).chunks(33) {
        server.receive(&client.send(piece)).unwrap();
    }
    let verdict = packets(4, [OK]);
    let frames = server.send(&verdict);
    assert_eq!(ids(Method::ZLIB, &frames), [(8, vec![8])]);
    assert_eq!(client.receive(&frames), Ok(verdict));
}
