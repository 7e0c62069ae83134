//! Single frames: as servers make them, and as nobody should.

use super::bed::{METHODS, Side, frame, headers, noise, packets, pair, query};
use wire::{
    Capabilities,
    compress::{CompressError, End, MAX_FRAME, Method},
};

fn hex(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The body that one end makes of `plain`.
fn body(method: Method, plain: &[u8]) -> Vec<u8> {
    let frames = Side::new(method, End::Client(Capabilities::EMPTY)).send(plain);
    assert_eq!(headers(&frames).len(), 1);
    frames[7..].to_vec()
}

/// What the server's end makes of the first frame.
fn received(method: Method, frame: &[u8]) -> Result<Vec<u8>, CompressError> {
    Side::new(method, End::Server(Capabilities::EMPTY)).receive(frame)
}

/// `SELECT REPEAT('towpath ', 12) a`, answered by MySQL 9.7 with zstd and by MariaDB 10.11 with
/// zlib.
#[test]
fn replies_of_servers() {
    let zstd = "5000000197000028b52ffd20973d0200f403010000010117000002036465660000000161000c2d0080\
                010000fd00001f000005000003fe000002006100000460746f77706174682005000005fe0000020001\
                00569b0a14";
    let zlib = "43000001970000789c636460606414676060624e494d63007212197874191a181918fe3230a83330b0\
                323030ff034a33243230b02494e4971724966428d08a06dac60ab60d0035852c3a";
    for (method, reply) in [(Method::ZSTD, zstd), (Method::ZLIB, zlib)] {
        let mut client = Side::new(method, End::Client(Capabilities::EMPTY));
        client.send(&query(b"SELECT REPEAT('towpath ',12) a"));
        let plain = client.receive(&hex(reply)).unwrap();
        let row = [b"`", "towpath ".repeat(12).as_bytes()].concat();
        let packets = [&b"\x01"[..], &plain[9..32], b"\xFE\0\0\x02\0", &row, b"\xFE\0\0\x02\0"];
        assert_eq!(plain, super::bed::packets(1, packets), "{method:?}");
    }
}

/// As zlib itself compresses it.
#[test]
fn a_command_of_another_client() {
    let body = hex("789cd3636060602e4ecd494d2e51503230343236313533b7b0c4cd5202000cd10a6c");
    let sql = br#"select "012345678901234567890123456789012345""#;
    assert_eq!(received(Method::ZLIB, &frame(0, 50, &body)), Ok(query(sql)));
}

#[test]
fn short_or_incompressible_is_stored() {
    for method in METHODS {
        let shortest = query(&[b'a'; 45]);
        assert_eq!(shortest.len(), 50);
        let (mut client, _) = pair(method);
        assert_eq!(headers(&client.send(&query(&[b'a'; 44]))), [(0, 49, 0)]);
        let [(0, len, 50)] = headers(&client.send(&shortest))[..] else { panic!("stored") };
        assert!(len < 50);
        let noise = query(&noise(4000));
        assert_eq!(headers(&client.send(&noise)), [(0, noise.len(), 0)]);
    }
}

/// Whatever a client does, it is understood.
#[test]
fn stored_although_long_and_compressed_although_short() {
    for method in METHODS {
        let long = query(&[b'n'; 500]);
        assert_eq!(received(method, &frame(0, 0, &long)), Ok(long));
    }
    let short = query(b"DO 1");
    let body = hex("789c636560606076f15730040002b300ed");
    assert_eq!(received(Method::ZLIB, &frame(0, short.len(), &body)), Ok(short));
}

#[test]
fn a_frame_that_lies_about_its_length() {
    let plain = query(&[b'n'; 500]);
    for method in METHODS {
        let body = body(method, &plain);
        // As servers do: with zlib they take what there is.
        let zlib = matches!(method, Method::Zlib { .. });
        for promised in [plain.len() + 1, MAX_FRAME] {
            let less = received(method, &frame(0, promised, &body));
            let expected = Err(CompressError::Length { promised });
            assert_eq!(less, if zlib { Ok(plain.clone()) } else { expected });
        }
        for promised in [plain.len() - 1, 1] {
            let error = received(method, &frame(0, promised, &body)).unwrap_err();
            let corrupt = error == CompressError::Corrupt;
            assert!(corrupt || error == CompressError::Length { promised }, "{method:?}: {error}");
        }
        for cut in 0..body.len() {
            assert!(received(method, &frame(0, plain.len(), &body[..cut])).is_err());
        }
        let more = received(method, &frame(0, plain.len(), &[&body[..], b"more"].concat()));
        assert_eq!(more.ok(), zlib.then(|| plain.clone()), "{method:?}");
    }
}

/// A small frame that is more than 16 MiB gives no more than it promises.
#[test]
fn a_bomb() {
    for method in [Method::ZLIB, Method::ZSTD] {
        let zeroes = query(&vec![0; MAX_FRAME - 5]);
        let bomb = body(method, &zeroes);
        assert!(bomb.len() < 20_000, "{}", bomb.len());
        assert!(received(method, &frame(0, 50, &bomb)).is_err());
        assert!(received(method, &frame(0, MAX_FRAME, &bomb)).unwrap() == zeroes);
    }
}

#[test]
fn frames_of_the_other_algorithm_and_of_none() {
    let plain = query(&[b'n'; 500]);
    for (own, other) in [(Method::ZLIB, Method::ZSTD), (Method::ZSTD, Method::ZLIB)] {
        let odd = frame(0, plain.len(), &body(other, &plain));
        assert_eq!(received(own, &odd), Err(CompressError::Corrupt));
        assert!(received(own, &frame(0, 500, &noise(300))).is_err());
        assert!(received(own, &frame(0, 500, b"")).is_err());
    }
}

/// A context that has met an error is as good as new.
#[test]
fn after_an_error() {
    let plain = query(&[b'n'; 500]);
    for method in METHODS {
        let body = body(method, &plain);
        let mut contexts = wire::compress::Contexts::new();
        for _ in 0..3 {
            for (promised, good) in [(plain.len(), true), (499, false), (plain.len(), true)] {
                let mut codec =
                    wire::compress::Codec::new(method, End::Server(Capabilities::EMPTY));
                let mut input = frame(0, promised, &body)[..].into();
                assert_eq!(codec.decode(&mut contexts, &mut input).is_ok(), good);
            }
        }
    }
}

#[test]
fn frames_out_of_order() {
    let command = query(b"DO 1");
    let out_of_order =
        |expected, got| Err::<Vec<u8>, _>(CompressError::OutOfOrder { expected, got });
    let (mut client, mut server) = pair(Method::ZLIB);
    assert_eq!(server.receive(&frame(1, 0, &command)), out_of_order(0, 1));
    // In the middle of a command, not even a new one.
    for got in [2, 0] {
        let (_, mut server) = pair(Method::ZLIB);
        server.receive(&frame(0, 0, &command[..6])).unwrap();
        assert_eq!(server.receive(&frame(got, 0, &command[6..])), out_of_order(1, got));
    }
    // A reply that does not count on.
    client.send(&command);
    let ok = packets(1, [&b"\0\0\0\x02\0\0\0"[..]]);
    let (mut other, _) = pair(Method::ZLIB);
    other.send(&command);
    assert_eq!(other.receive(&frame(2, 0, &ok)), out_of_order(1, 2));
    assert_eq!(client.receive(&frame(1, 0, &ok)), Ok(ok.clone()));
    assert_eq!(client.receive(&frame(3, 0, &ok)), out_of_order(2, 3));
}

/// A server that closes says why, before anybody has asked: as frame 0.
#[test]
fn unasked() {
    let words = packets(0, [&b"\xFF\x84\x04#08S01Got packets out of order"[..]]);
    for sent in [0, 1] {
        let (mut client, mut server) = pair(Method::ZLIB);
        for _ in 0..sent {
            let command = query(b"DO 1");
            server.receive(&client.send(&command)).unwrap();
            client.receive(&server.send(&packets(1, [&b"\0\0\0\x02\0\0\0"[..]]))).unwrap();
        }
        assert_eq!(client.receive(&frame(0, 0, &words)), Ok(words.clone()));
    }
}
