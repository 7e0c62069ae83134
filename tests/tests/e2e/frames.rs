//! Compressed frames themselves: where they are cut and how they count, as servers do it, and what
//! becomes of nonsense.

use crate::compression::{algorithms, login};
use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use e2e::{Client, Cluster, Proxy, Scale};
use wire::{
    Capabilities, CommandCode,
    compress::{Codec, Contexts, End, Method, WHOLE},
    reply::{ReplyScanner, Scan},
};

on_both_vendors!(
    of_several_results,
    of_many_rows,
    of_long_rows,
    that_promise_too_much,
    out_of_order,
);

fn method(algorithm: &str) -> Method {
    if algorithm == "zlib" { Method::ZLIB } else { Method::ZSTD }
}

/// A frame of a reply.
#[derive(Debug)]
struct Frame {
    seq: u8,
    /// As it came.
    body: Vec<u8>,
    /// What it holds, with the ids of a plain connection.
    plain: Vec<u8>,
}

/// Asks, and gives the frames of the reply.
fn frames(client: &mut Client, algorithm: &str, sql: &str) -> Result<Vec<Frame>> {
    client.send_command(CommandCode::QUERY, sql.as_bytes())?;
    let mut codec = Codec::new(method(algorithm), End::Client(client.capabilities));
    let (mut contexts, mut input) = (Contexts::new(), BytesMut::new());
    codec.encode(&mut contexts, &client.framed(CommandCode::QUERY, b"?"), &mut Vec::new())?;
    let mut scanner = ReplyScanner::new(CommandCode::QUERY, client.capabilities);
    let mut frames = Vec::new();
    loop {
        input.extend_from_slice(&client.read_below().context("the reply")?);
        while Codec::missing(&input) == 0 {
            let [a, b, c, seq, ..] = input[..] else { anyhow::bail!("no header") };
            let len = u32::from_le_bytes([a, b, c, 0]) as usize;
            let body = input[7..7 + len].to_vec();
            let plain = codec.decode(&mut contexts, &mut input)?.context("a frame")?;
            let scan = scanner.scan(&plain)?;
            frames.push(Frame { seq, body, plain });
            if matches!(scan, Scan::End { .. }) {
                ensure!(input.is_empty(), "more than a reply");
                return Ok(frames);
            }
        }
    }
}

/// Both a server's frames and the proxy's.
fn on_both(
    cluster: &Cluster,
    check: impl Fn(&mut Client, &str) -> Result<Vec<String>>,
) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    for algorithm in &algorithms(cluster)[1..] {
        let run = |address: &str| {
            let base = cluster.admin().with(Capabilities::MULTI_STATEMENTS);
            let mut client = Client::connect(address, &login(base, algorithm))?;
            let found = check(&mut client, algorithm)?;
            client.quit()?;
            Ok::<_, anyhow::Error>(found)
        };
        assert_eq!(run(&cluster.addresses[0])?, run(&proxy.address)?, "{algorithm}");
    }
    Ok(())
}

/// Each has its own, and the ids of packets begin with it: those of an OK and an ERR are to be seen,
/// as frames that are so short are stored.
fn of_several_results(cluster: &Cluster) -> Result<()> {
    on_both(cluster, |client, algorithm| {
        let mut found = Vec::new();
        for sql in [
            "DO 1",
            "SELECT REPEAT('x', 300)",
            "DO 1; DO 2; SELECT REPEAT('x', 300), 1; DO 3; SELECT REPEAT('x', 300); SELEC",
            "SELECT REPEAT('x', 300); SELECT 1 LIMIT 0; DO 1",
        ] {
            for Frame { seq, body, plain } in frames(client, algorithm, sql)? {
                let clear = if plain.len() < 50 { format!("{body:?}") } else { String::new() };
                found.push(format!("{sql}: {seq}, {} {clear}", plain.len()));
            }
        }
        Ok(found)
    })
}

/// The proxy cuts none of them.
fn of_many_rows(cluster: &Cluster) -> Result<()> {
    let sql = "SELECT a.ID, b.ID, a.COLLATION_NAME, REPEAT('r', a.ID) \
               FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b LIMIT 20000";
    let proxy = Proxy::start(cluster)?;
    for algorithm in &algorithms(cluster)[1..] {
        let mut client = proxy.connect(&login(cluster.admin(), algorithm))?;
        let frames = frames(&mut client, algorithm, sql)?;
        ensure!(frames.len() > 3, "{} frames", frames.len());
        for (expected, Frame { seq, plain, .. }) in (1..).zip(&frames) {
            assert_eq!(usize::from(*seq), expected % 256);
            assert_eq!(parts(plain), (plain.len(), 0), "a row is cut");
            assert!(plain.len() <= WHOLE);
        }
        client.quit()?;
    }
    Ok(())
}

/// Bytes of the packets that are whole in `plain`, and of one behind them that is not.
fn parts(plain: &[u8]) -> (usize, usize) {
    let mut whole = 0;
    while let Some(&[a, b, c, _]) = plain[whole..].first_chunk() {
        let end = whole + 4 + u32::from_le_bytes([a, b, c, 0]) as usize;
        if end > plain.len() {
            break;
        }
        whole = end;
    }
    (whole, plain.len() - whole)
}

/// No packet is in more than two frames, a server's or the proxy's.
fn of_long_rows(cluster: &Cluster) -> Result<()> {
    let lengths = if Scale::is_for_load() { &[300_000, 20 << 20][..] } else { &[300_000] };
    on_both(cluster, |client, algorithm| {
        for length in lengths {
            let sql = format!("SELECT REPEAT('long ', {}), 1 UNION ALL SELECT 1, 2", length / 5);
            let frames = frames(client, algorithm, &sql)?;
            let mut missing = 0;
            for Frame { plain, .. } in &frames {
                ensure!(missing <= plain.len(), "a packet of {length} in three frames");
                let (whole, cut) = parts(&plain[missing..]);
                missing = match plain[missing + whole..] {
                    [a, b, c, ..] => 4 + u32::from_le_bytes([a, b, c, 0]) as usize - cut,
                    _ => 0,
                };
            }
            ensure!(frames.iter().any(|frame| frame.body.len() < frame.plain.len() / 20));
        }
        Ok(Vec::new())
    })
}

/// A frame: its id, what it says to have uncompressed, its body.
fn frame(seq: u8, promised: usize, body: &[u8]) -> Vec<u8> {
    let int = |number: usize| number.to_le_bytes();
    let ([a, b, c, ..], [d, e, f, ..]) = (int(body.len()), int(promised));
    [&[a, b, c, seq, d, e, f], body].concat()
}

/// A compressed query, and how long it is uncompressed.
fn long_query(algorithm: &str) -> (Vec<u8>, usize) {
    let sql = format!("\x03SELECT '{}'", "so long that it gets shorter, ".repeat(7));
    let plain = [&[sql.len() as u8, 0, 0, 0], sql.as_bytes()].concat();
    let mut frames = Vec::new();
    Codec::new(method(algorithm), End::Client(Capabilities::EMPTY))
        .encode(&mut Contexts::new(), &plain, &mut frames)
        .expect("frames");
    (frames.split_off(7), plain.len())
}

/// A frame of zlib that says too much is taken as it is, on every server and here.
fn that_promise_too_much(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    for algorithm in &algorithms(cluster)[1..] {
        let (body, len) = long_query(algorithm);
        let zlib = *algorithm == "zlib";
        // MySQL answers zstd's exact length only.
        let promises = if zlib { &[len, len + 1, len + 1000, 0xFF_FFFF][..] } else { &[len] };
        for &promised in promises {
            for address in [&cluster.addresses[0], &proxy.address] {
                let mut client = Client::connect(address, &login(cluster.admin(), algorithm))?;
                client.send_below(&frame(0, promised, &body))?;
                // The client's own codec knows nothing of that frame.
                let what = || anyhow::anyhow!("{algorithm}, {promised}, {address}");
                let reply = client.read_below().map_err(|error| error.context(what()))?;
                ensure!(!reply.windows(6).any(|at| at == b"#08S01"), what());
                client.must("SELECT REPEAT('and it goes on', 100)")?;
                client.quit()?;
            }
        }
    }
    Ok(())
}

/// Everything up to the end of the stream.
fn last_words(mut client: Client) -> Vec<u8> {
    let mut words = Vec::new();
    while let Ok(more) = client.read_below() {
        words.extend(more);
    }
    words
}

/// Nonsense ends its session, and no other.
fn out_of_order(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut other = proxy.connect(&cluster.admin().zlib())?;
    let ping = b"\x01\0\0\0\x0E";
    let twice = [frame(0, 0, &ping[..2]), frame(7, 0, &ping[2..])].concat();
    for odd in [frame(7, 0, ping), frame(1, 0, ping), twice] {
        let mut words = Vec::new();
        for address in [&cluster.addresses[0], &proxy.address] {
            let mut client = Client::connect(address, &cluster.admin().zlib())?;
            client.send_below(&odd)?;
            // Behind the frame's header and the packet's, whose ids each server counts differently.
            words.push(last_words(client).split_off(11));
        }
        ensure!(words[0] == b"\xFF\x84\x04#08S01Got packets out of order", "{words:?}");
        ensure!(words[0] == words[1], "{words:?}");
        other.must("SELECT REPEAT('x', 400)")?;
    }
    let (body, len) = long_query("zlib");
    let cut = &body[..body.len() - 6];
    for odd in [
        frame(0, len - 1, &body),
        frame(0, 10, &body),
        frame(0, len, cut),
        frame(0, 255, b"hello"),
        frame(0, 0xFF_FFFF, b"x"),
    ] {
        let mut client = proxy.connect(&cluster.admin().zlib())?;
        client.send_below(&odd)?;
        ensure!(last_words(client).is_empty(), "an answer to {odd:?}");
        other.must("SELECT REPEAT('x', 400)")?;
    }
    other.quit()
}
