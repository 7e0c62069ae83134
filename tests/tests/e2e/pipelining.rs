//! Commands that do not wait for each other's replies, in segments of any shape: each is answered, in
//! order, as by the server.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Held, Login, Proxy, Scale, client::Reply};
use std::thread;
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    many_commands_in_one_segment,
    pieces_of_one_byte,
    thousands_of_small_packets,
    packets_out_of_order,
    commands_behind_a_quit,
    large_replies_to_a_client_that_only_sends,
    a_client_that_sends_and_leaves,
);

/// Commands of all shapes of replies; each says which one it is.
fn commands(count: usize) -> Vec<(CommandCode, Vec<u8>)> {
    let shape = |n: usize| match n % 7 {
        0 => (CommandCode::QUERY, format!("SELECT {n}")),
        1 => (CommandCode::QUERY, format!("SET @n = {n}")),
        2 => (CommandCode::QUERY, format!("SELECT {n} FROM missing_{n}")),
        3 => (CommandCode::PING, String::new()),
        4 => (CommandCode::QUERY, format!("SELECT {n}; SELECT @n; DO {n}")),
        5 => (CommandCode::INIT_DB, format!("missing_{n}")),
        _ => (CommandCode::QUERY, format!("SELECT REPEAT('{n} ', 3000)")),
    };
    let command = |n| {
        let (code, text) = shape(n);
        (code, text.into_bytes())
    };
    (0..count).map(command).collect()
}

/// What the connection at `address` answers to `bytes`, sent in pieces of `size` bytes.
fn answers(
    address: &str,
    login: &Login,
    commands: &[(CommandCode, Vec<u8>)],
    size: usize,
) -> Result<Vec<Vec<u8>>> {
    let mut client = Client::connect(address, login)?;
    let framed = commands.iter().map(|(code, body)| client.framed(*code, body));
    let bytes = framed.collect::<Vec<_>>().concat();
    for piece in bytes.chunks(size) {
        client.send(piece)?;
    }
    let reply = |(n, (code, _)): (usize, &(CommandCode, Vec<u8>))| {
        client.receive(*code).map(|reply: Reply| reply.raw).with_context(|| format!("reply {n}"))
    };
    let replies = commands.iter().enumerate().map(reply).collect::<Result<_>>()?;
    client.quit()?;
    Ok(replies)
}

/// The same answers directly and through the proxy.
fn same_answers(
    cluster: &Cluster,
    login: &Login,
    commands: &[(CommandCode, Vec<u8>)],
    size: usize,
) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let direct = answers(&cluster.addresses[0], login, commands, usize::MAX)?;
    let proxied = answers(&proxy.address, login, commands, size)?;
    for (n, (direct, proxied)) in direct.iter().zip(&proxied).enumerate() {
        ensure!(direct == proxied, "reply {n} differs");
    }
    Ok(())
}

fn login(cluster: &Cluster) -> Login {
    cluster.admin().with(Capabilities::MULTI_STATEMENTS)
}

fn many_commands_in_one_segment(cluster: &Cluster) -> Result<()> {
    // few enough for the sockets to hold all replies of a server that nobody listens to
    same_answers(cluster, &login(cluster), &commands(70), usize::MAX)
}

fn pieces_of_one_byte(cluster: &Cluster) -> Result<()> {
    same_answers(cluster, &login(cluster), &commands(21), 1)?;
    same_answers(cluster, &login(cluster).zlib(), &commands(21), 1)
}

fn thousands_of_small_packets(cluster: &Cluster) -> Result<()> {
    let count = if Scale::of_this_run() == Scale::Full { 50_000 } else { 5_000 };
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.extend(client.framed(CommandCode::PING, b""));
    }
    client.send(&bytes)?;
    for n in 0..count {
        let reply = client.receive(CommandCode::PING).with_context(|| format!("ping {n}"))?;
        ensure!(reply.raw.get(3..5) == Some(&[1, 0]), "ping {n}: {reply:?}");
    }
    // and a file in packets of one byte
    let schema = cluster.schema()?;
    let login = cluster.admin().schema(&schema.name).with(Capabilities::LOCAL_FILES);
    let mut client = proxy.connect(&login)?;
    client.must("CREATE TABLE t (a VARCHAR(9))")?;
    let sql = b"LOAD DATA LOCAL INFILE 'rows' INTO TABLE t";
    client.send_command(CommandCode::QUERY, sql)?;
    client.read_some()?;
    let sequences = (2..=u8::MAX).chain(0..=u8::MAX).chain(0..=u8::MAX);
    let mut bytes: Vec<u8> =
        sequences.flat_map(|n| [1, 0, 0, n, if n % 2 == 0 { b'x' } else { b'\n' }]).collect();
    bytes.extend([0, 0, 0, 0]);
    client.send(&bytes)?;
    ensure!(client.receive(CommandCode::QUERY)?.error().is_none());
    ensure!(client.rows("SELECT COUNT(*), MAX(a) FROM t")?[0][0].as_deref() == Some("383"));
    client.quit()
}

/// ERR 1156 and the end, whatever came before or is to follow.
fn packets_out_of_order(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    for odd in [&b"\x01\0\0\x05\x0E"[..], b"\0\0\0\x03", b"\x01\0\0\xFF\x0E"] {
        let heard = |address: &str| -> Result<Vec<u8>> {
            let client = Client::connect(address, &cluster.admin())?;
            let ping = client.framed(CommandCode::PING, b"");
            client.last_words(&[&ping, odd, &ping].concat())
        };
        let (direct, proxied) = (heard(&cluster.addresses[0])?, heard(&proxy.address)?);
        ensure!(direct == proxied, "{direct:?} {proxied:?}");
    }
    Ok(())
}

/// What comes behind a goodbye is not done, and what came before it is answered.
fn commands_behind_a_quit(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Proxy::start(cluster)?;
    let login = login(cluster).schema(&schema.name);
    cluster.direct()?.must(&format!("CREATE TABLE {}.t (a INT)", schema.name))?;
    let heard = |address: &str| -> Result<Vec<u8>> {
        let client = Client::connect(address, &login)?;
        let bytes: Vec<u8> = [
            client.framed(CommandCode::QUERY, b"SELECT 'before'"),
            client.framed(CommandCode::QUIT, b""),
            client.framed(CommandCode::QUERY, b"INSERT INTO t VALUES (1)"),
            client.framed(CommandCode::QUERY, b"SELECT 'behind'"),
        ]
        .concat();
        client.last_words(&bytes)
    };
    for _ in 0..10 {
        let (direct, proxied) = (heard(&cluster.addresses[0])?, heard(&proxy.address)?);
        ensure!(!direct.is_empty() && direct == proxied, "{direct:?} {proxied:?}");
    }
    let rows = cluster.ask(&format!("SELECT COUNT(*) FROM {}.t", schema.name))?;
    ensure!(rows == "0", "{rows} rows");
    Ok(())
}

/// The client reads nothing before it has sent all: what it has not sent yet waits in the sockets,
/// and not in the proxy's memory.
fn large_replies_to_a_client_that_only_sends(cluster: &Cluster) -> Result<()> {
    if !Scale::is_for_load() {
        return Ok(());
    }
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT REPEAT('w', 1000000)")?;
    let (_, before) = proxy.memory()?;
    let count = 60;
    let command = client.framed(CommandCode::QUERY, b"SELECT REPEAT('x', 4000000)");
    client.send(&command.repeat(count))?;
    for n in 0..count {
        let reply = client.receive(CommandCode::QUERY).with_context(|| format!("reply {n}"))?;
        ensure!(reply.raw.len() > 4_000_000 && reply.error().is_none());
        let (_, now) = proxy.memory()?;
        ensure!(now < before + (4 << 20), "memory grew from {before} to {now} bytes");
    }
    client.quit()
}

/// Whoever has sent whole commands and said that no more will come gets all replies.
fn a_client_that_sends_and_leaves(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let login = login(cluster);
    proxy.connect(&login)?.quit()?;
    let none = Held { tasks: 99, descriptors: 99, ..Held::default() };
    none.until_again(&proxy)?;
    let held = Held::by(&proxy)?;
    let heard = |address: &str| -> Result<Vec<u8>> {
        let client = Client::connect(address, &login)?;
        let framed = commands(14).into_iter().map(|(code, body)| client.framed(code, &body));
        let bytes = framed.collect::<Vec<_>>().concat();
        client.last_words(&bytes)
    };
    let mut direct = heard(&cluster.addresses[0])?;
    // MySQL's word to a client that has closed its sending side, which Towpath does not pass on
    if direct.ends_with(b"\xFF\x86\x04#08S01Got an error reading communication packets") {
        direct.truncate(direct.len() - 55);
    }
    let replies = thread::scope(|scope| {
        let clients: Vec<_> = (0..20).map(|_| scope.spawn(|| heard(&proxy.address))).collect();
        let heard = clients.into_iter().map(|client| client.join().expect("a client panicked"));
        heard.collect::<Result<Vec<_>>>()
    })?;
    for proxied in replies {
        let same = proxied.iter().zip(&direct).take_while(|(a, b)| a == b).count();
        ensure!(
            proxied == direct,
            "{} bytes directly, {} through the proxy, equal up to {same}",
            direct.len(),
            proxied.len()
        );
    }
    held.until_again(&proxy)
}
