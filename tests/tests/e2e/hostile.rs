//! Bytes that mean nothing, from clients and from servers: no panic, nothing kept, and the next
//! client is served.

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use e2e::{
    Client, Cluster, Held, Login, Proxy, Relay, Scale, Setup, Vendor, client::throw, noise::Noise,
    skip,
};
use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};
use wire::{Capabilities, CommandCode, packet};

on_both_vendors!(
    in_place_of_a_login,
    in_place_of_a_tls_handshake,
    in_place_of_commands,
    in_place_of_frames,
    in_place_of_replies,
    answered_as_by_a_server,
    an_option_is_not_left_behind,
    a_role_is_not_left_behind,
);

/// Clients at once.
const THREADS: u64 = 4;
/// Memory is looked at after each round; the first one fills buffers and tables.
const ROUNDS: u64 = 4;

/// An account that can read one empty schema and nothing else, so that no string does harm.
struct Powerless {
    login: Login,
    cluster: Cluster,
    _schema: e2e::Schema,
}

impl Powerless {
    fn new(cluster: &Cluster) -> Result<Self> {
        let schema = cluster.schema()?;
        let digest = cluster.ask(&format!("SELECT SHA2('{}', 224)", skip::test_name()))?;
        let user = format!("e2e_{}", &digest[..20]);
        let mut direct = cluster.direct()?;
        direct.must(&format!("DROP USER IF EXISTS {user}"))?;
        direct.must(&format!("CREATE USER {user} IDENTIFIED BY 'none'"))?;
        direct.must(&format!("GRANT SELECT ON {}.* TO {user}", schema.name))?;
        let login = Login::new(&user, "none").schema(&schema.name);
        Ok(Self { login, cluster: cluster.clone(), _schema: schema })
    }

    fn setup(&self) -> Setup {
        Setup::of(&self.cluster).user(&self.login.user, &self.login.password)
    }
}

impl Drop for Powerless {
    fn drop(&mut self) {
        if let Ok(mut direct) = self.cluster.direct() {
            let _ = direct.must(&format!("DROP USER IF EXISTS {}", self.login.user));
        }
    }
}

fn in_place_of_a_login(cluster: &Cluster) -> Result<()> {
    let account = Powerless::new(cluster)?;
    let proxy = account.setup().start()?;
    let (whole, _) = recorded(&proxy, &account.login)?;
    throw_all(cluster, &proxy, 16_000, &whole, |noise| throw(&proxy.address, &noise.string(1)))
}

fn in_place_of_a_tls_handshake(cluster: &Cluster) -> Result<()> {
    let account = Powerless::new(cluster)?;
    let proxy = account.setup().listener_tls("prefer").start()?;
    let (whole, _) = recorded(&proxy, &account.login.clone().tls())?;
    // the request for TLS, then what should be its handshake
    let length = 4 + usize::from(whole[0][0]);
    let hello: Vec<_> = whole.iter().map(|whole| whole[length..].to_vec()).collect();
    throw_all(cluster, &proxy, 8_000, &hello, |noise| {
        throw(&proxy.address, &[&whole[0][..length], &noise.string(2)].concat())
    })
}

fn in_place_of_commands(cluster: &Cluster) -> Result<()> {
    let account = Powerless::new(cluster)?;
    let proxy = account.setup().start()?;
    let (_, commands) = recorded(&proxy, &account.login)?;
    throw_all(cluster, &proxy, 18_000, &commands, |noise| {
        proxy.connect(&account.login)?.last_words(&noise.string(0)).map(drop)
    })
}

/// Below compression, where the recorded bytes have none: frames are as random as the rest.
fn in_place_of_frames(cluster: &Cluster) -> Result<()> {
    let account = Powerless::new(cluster)?;
    let proxy = account.setup().start()?;
    let login = account.login.clone().zlib();
    let (_, mut frames) = recorded(&proxy, &login)?;
    frames.push(b"\x05\0\0\0\0\0\0\x01\0\0\0\x0E".to_vec());
    throw_all(cluster, &proxy, 8_000, &frames, |noise| {
        proxy.connect(&login)?.last_words(&noise.string(0)).map(drop)
    })
}

/// A server whose replies have mistakes in them, its login included. A client may be left to wait, as
/// it would be by such a server itself, and gives up.
fn in_place_of_replies(cluster: &Cluster) -> Result<()> {
    let account = Powerless::new(cluster)?;
    let noise = Mutex::new(Noise::new(seed(), Vec::new()));
    let odds = Mutex::new(fastrand::Rng::with_seed(seed()));
    let begun = Arc::new(AtomicBool::new(false));
    let on = Arc::clone(&begun);
    let relay = Relay::changing(&cluster.addresses[0], move |bytes| {
        if on.load(Relaxed) && odds.lock().unwrap_or_else(PoisonError::into_inner).u8(..4) == 0 {
            noise.lock().unwrap_or_else(PoisonError::into_inner).mistake(bytes);
        }
    })?;
    let mut garbled = cluster.clone();
    garbled.addresses[0] = relay.address.clone();
    let proxy = Setup::of(&garbled)
        .user(&account.login.user, &account.login.password)
        .append("[backend]\nconnect_timeout = \"300ms\"\nconnect_budget = \"400ms\"")
        .start()?;
    // no server is part of a login without a schema
    let login = Login::new(&account.login.user, &account.login.password);
    let session = || -> Result<()> {
        let mut client = proxy.connect(&login)?;
        client.patience(Duration::from_millis(200))?;
        client.query("SELECT 1, 'two', NULL")?;
        let statement = client.prepare("SELECT ? AS v")?;
        client.execute(&statement, 0, &[Some(b"value")])?;
        client.query("SELECT REPEAT('long', 3000); SELEC")?;
        client.quit()
    };
    // so that the proxy knows what to greet with
    session()?;
    begun.store(true, Relaxed);
    relay.close_all();
    let held = Held { sessions: 0, attached: 0, outstanding: 0, tasks: 60, descriptors: 40 };
    held.until_again(&proxy)?;
    let held = Held::by(&proxy)?;
    for _ in 0..in_all(2_000) {
        let _ = session();
        // the proxy may wait for what this server will never say
        held.until_again_with(&proxy, || relay.close_all())?;
    }
    Ok(())
}

/// Whole packets with mistakes in them: what comes back is what the server itself answers.
fn answered_as_by_a_server(cluster: &Cluster) -> Result<()> {
    let account = Powerless::new(cluster)?;
    // statements are counted from the beginning on a connection of one's own
    let proxy = account.setup().append("[backend]\npool_max_idle = 0").start()?;
    let (_, streams) = recorded(&proxy, &account.login)?;
    let recorded: Vec<_> = streams.iter().flat_map(|stream| payloads(stream)).collect();
    let mut noise = Noise::new(seed(), recorded);
    for n in 0..in_all(20_000) {
        let payload = noise.payload();
        let code = payload.first().copied().map(CommandCode);
        // MariaDB reads a statement's number behind the end of a packet that is too short for one
        let short = payload.len() < 5 && code.is_some_and(|code| (0x17..=0x1C).contains(&code.0));
        let by_chance = short && cluster.vendor == Vendor::MariaDb;
        if by_chance || code.is_none_or(|code| DIFFERENT.contains(&code)) {
            continue;
        }
        let direct = answer(&cluster.addresses[0], &account.login, &payload)?;
        let proxied = answer(&proxy.address, &account.login, &payload)?;
        ensure!(
            direct == proxied,
            "command {n}, {}\n  directly {}\n  proxied  {}",
            payload.escape_ascii(),
            direct.escape_ascii(),
            proxied.escape_ascii()
        );
    }
    Ok(())
}

/// COM_SET_OPTION outlives COM_RESET_CONNECTION; the next session must not have what it has not asked
/// for, nor lack what it has.
fn an_option_is_not_left_behind(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let several = Capabilities::MULTI_STATEMENTS;
    for (login, option) in [(cluster.admin(), 0), (cluster.admin().with(several), 1)] {
        let expected = Client::connect(&cluster.addresses[0], &login)?.query("DO 1; DO 2")?;
        for turn in 0..5 {
            let mut client = proxy.connect(&login)?;
            let reply = client.query("DO 1; DO 2")?;
            ensure!(reply.raw == expected.raw, "turn {turn}, option {option}: {reply:?}");
            ensure!(client.command(CommandCode::SET_OPTION, &[option, 0])?.error().is_none());
            let changed = client.query("DO 1; DO 2")?;
            ensure!(changed.error().is_some() != expected.error().is_some(), "no effect");
            client.quit()?;
        }
    }
    Ok(())
}

/// SET ROLE outlives COM_RESET_CONNECTION; what a role may do, only the session may that has set it.
fn a_role_is_not_left_behind(cluster: &Cluster) -> Result<()> {
    let account = Powerless::new(cluster)?;
    let (user, role) = (&account.login.user, format!("{}_r", account.login.user));
    let mut direct = cluster.direct()?;
    direct.must(&format!("DROP ROLE IF EXISTS {role}"))?;
    direct.must(&format!("CREATE ROLE {role}"))?;
    direct.must(&format!("GRANT {role} TO {user}"))?;
    let proxy = account.setup().start()?;
    let current = "SELECT CURRENT_ROLE()";
    let expected = Client::connect(&cluster.addresses[0], &account.login)?.rows(current)?;
    for set in [format!("SET ROLE {role}"), format!("SET /* a comment */ ROLE {role}")] {
        for turn in 0..3 {
            let mut client = proxy.connect(&account.login)?;
            ensure!(client.rows(current)? == expected, "{set}, turn {turn}");
            client.must(&set)?;
            ensure!(client.rows(current)? != expected, "no effect");
            client.quit()?;
        }
    }
    direct.must(&format!("DROP ROLE {role}"))
}

/// All that a new connection answers to a command and the COM_PING behind it.
fn answer(address: &str, login: &Login, payload: &[u8]) -> Result<Vec<u8>> {
    let mut client = Client::connect(address, login)?;
    let prepared = client.prepare("SELECT ? AS v, ? AS w")?;
    let mut payload = payload.to_vec();
    let id = prepared.id();
    let of_a_statement = (0x17..=0x1A).contains(&payload[0]) || payload[0] == 0x1C;
    if of_a_statement && let Some(field) = payload.get_mut(1..5) {
        field.copy_from_slice(&id.to_le_bytes());
    }
    let mut bytes = BytesMut::new();
    packet::put_packet(&mut bytes, 0, &payload);
    packet::put_packet(&mut bytes, 0, &[CommandCode::PING.0]);
    let mut heard = client.last_words(&bytes)?;
    if payload[0] == CommandCode::STMT_PREPARE.0
        && let Some(id) = heard.get_mut(5..9)
    {
        id.fill(0);
    }
    // the number that the connection gave the statement, where an error's text holds it
    let number = format!("({id})");
    if let Some(at) = heard.windows(number.len()).position(|part| part == number.as_bytes()) {
        heard.drain(at..at + number.len());
        // the packet is shorter by as much, in the text only
        heard[0] -= number.len() as u8;
    }
    // MySQL's word to a client that has closed its sending side, which Towpath does not pass on
    let word = b"\xFF\x86\x04#08S01Got an error reading communication packets";
    if heard.ends_with(word) {
        heard.truncate(heard.len() - 4 - word.len());
    }
    Ok(heard)
}

/// The payloads of a stream of packets.
fn payloads(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = BytesMut::from(stream);
    let next = || packet::take_message(&mut rest, usize::MAX).ok().flatten();
    std::iter::from_fn(next).map(|message| message.payload().to_vec()).collect()
}

/// Commands whose replies differ from connection to connection, or that are the proxy's to answer.
const DIFFERENT: [CommandCode; 7] = [
    CommandCode::QUIT,
    CommandCode::STATISTICS,
    CommandCode::PROCESS_INFO,
    CommandCode::PROCESS_KILL,
    CommandCode::CHANGE_USER,
    CommandCode::BINLOG_DUMP,
    CommandCode::BINLOG_DUMP_GTID,
];

/// Throws `total` strings of noise and looks what remains.
fn throw_all(
    cluster: &Cluster,
    proxy: &Proxy,
    total: u64,
    recorded: &[Vec<u8>],
    throw: impl Fn(&mut Noise) -> Result<()> + Sync,
) -> Result<()> {
    let each = in_all(total) / (ROUNDS * THREADS);
    let round = |round: u64| -> Result<()> {
        let thrower = |n: u64| -> Result<()> {
            let seed = seed() + round * THREADS + n;
            let mut noise = Noise::new(seed, recorded.to_vec());
            (0..each).try_for_each(|n| throw(&mut noise).with_context(|| format!("{seed}: {n}")))
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || thrower(n))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a thrower panicked"))
        })?;
        let mut next = proxy.connect(&cluster.admin())?;
        ensure!(next.rows("SELECT 'next'")? == [[Some("next".to_owned())]]);
        next.quit()
    };
    round(0)?;
    let none = Held { sessions: 0, attached: 0, outstanding: 0, tasks: 60, descriptors: 40 };
    none.until_again(proxy)?;
    let (held, plateau) = (Held::by(proxy)?, proxy.memory()?.1);
    for n in 1..ROUNDS {
        round(n)?;
        held.until_again(proxy)?;
        let now = proxy.memory()?.1;
        // a tenth, and what the allocator takes at a time
        ensure!(now <= plateau / 10 * 11 + (1 << 20), "memory: {plateau} bytes, now {now}");
    }
    Ok(())
}

/// Of a hundred thousand strings in all, what this run throws.
fn in_all(total: u64) -> u64 {
    match Scale::of_this_run() {
        Scale::Full => total,
        Scale::Normal => total / 20,
        Scale::Fast => total / 100,
    }
}

/// Another run of the same test gives the same strings.
fn seed() -> u64 {
    skip::test_name().bytes().fold(0, |seed, byte| seed * 31 % 1_000_003 + u64::from(byte))
}

/// What clients send: whole streams from the login on, and what comes behind the login.
fn recorded(proxy: &Proxy, login: &Login) -> Result<(Vec<Vec<u8>>, Vec<Vec<u8>>)> {
    let relay = Relay::start(&proxy.address)?;
    let more = Capabilities::LOCAL_FILES | Capabilities::MULTI_STATEMENTS;
    for login in [login.clone(), login.clone().with(more), login.clone().plugin("unknown")] {
        let mut client = Client::connect(&relay.address, &login)?;
        client.query("SELECT 1, 'two', NULL; SELECT 2")?;
        let statement = client.prepare("SELECT ? AS v, ? AS w")?;
        client.long_data(&statement, 1, b"a long value")?;
        client.execute(&statement, 0, &[Some(b"value"), None])?;
        client.execute(&statement, 1, &[Some(b"value"), None])?;
        client.fetch(&statement, 5)?;
        client.statement_command(CommandCode::STMT_RESET, &statement)?;
        client.close_statement(&statement)?;
        for code in [CommandCode::INIT_DB, CommandCode::FIELD_LIST] {
            client.command(code, b"missing\0%")?;
        }
        client.command(CommandCode::SET_OPTION, &[0, 0])?;
        client.change_user(&login)?;
        client.command(CommandCode::RESET_CONNECTION, b"")?;
        client.quit()?;
    }
    let whole: Vec<_> = relay.passed().into_iter().map(|passed| passed.client).collect();
    let commands = whole.iter().map(|stream| behind_login(stream).to_vec()).collect();
    Ok((whole, commands))
}

/// From the first packet with the id 0 on.
fn behind_login(stream: &[u8]) -> &[u8] {
    let mut rest = BytesMut::from(stream);
    let found = std::iter::from_fn(|| {
        let before = rest.len();
        packet::take_message(&mut rest, usize::MAX).ok().flatten().map(|message| (before, message))
    })
    .try_for_each(|(before, message)| match message.seq {
        0 => ControlFlow::Break(before),
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(left) => &stream[stream.len() - left..],
        ControlFlow::Continue(()) => stream,
    }
}
