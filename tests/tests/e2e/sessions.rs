//! Very many clients: memory comes back, and a session that does nothing costs little.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Held, Login, Proxy, Scale, Setup, wait};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{net::Ipv4Addr, thread};

on_both_vendors!(opened_and_closed_again_and_again, ten_thousand_at_once);

/// Clients that open and close at the same time.
const THREADS: u32 = 4;

/// How many clients there are at once.
fn many() -> u32 {
    match Scale::of_this_run() {
        Scale::Full => 10_000,
        Scale::Normal => 2_000,
        Scale::Fast => 200,
    }
}

fn setup(cluster: &Cluster) -> Setup {
    Setup::of(cluster).append("[limits]\nmax_connections = 20000")
}

/// Connections are files, here and in the proxy, which inherits the limit.
fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let enough = 2 * u64::from(many()) + 1000;
    let maximum = limit.maximum.map(|maximum| maximum.max(enough));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if raised.is_err() {
        // without the right to raise the hard limit: up to it
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    ensure!(now >= enough / 2, "{now} files at most");
    Ok(())
}

/// Opens `count` sessions, from several addresses: one has 28,000 ports.
fn open(proxy: &Proxy, login: &Login, count: u32) -> Result<Vec<Client>> {
    let open = |thread: u32| -> Result<Vec<Client>> {
        (0..count / THREADS)
            .map(|n| {
                let [_, _, c, d] = (thread * count + n % 16).to_be_bytes();
                let from = Ipv4Addr::new(127, 1 + thread as u8, c, d.max(1));
                Client::connect(&proxy.address, &login.clone().from(from))
                    .with_context(|| format!("client {n} of thread {thread}"))
            })
            .collect()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || open(n))).collect();
        let opened = threads.into_iter().map(|thread| thread.join().expect("a client panicked"));
        Ok(opened.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

/// After the first round the process has what it needs for so many; it keeps no more after any other.
fn opened_and_closed_again_and_again(cluster: &Cluster) -> Result<()> {
    raise_file_limit()?;
    let proxy = setup(cluster).start()?;
    let rounds = if Scale::of_this_run() == Scale::Full { 20 } else { 5 };
    let mut plateau = None;
    let held = Held::at_start(&proxy)?;
    let mut memories = Vec::new();
    for round in 0..rounds {
        let clients = open(&proxy, &cluster.admin(), many())?;
        let peak = proxy.memory()?;
        // some say goodbye, some just go
        let (polite, rude) =
            clients.into_iter().enumerate().partition::<Vec<_>, _>(|(n, _)| n % 2 == 0);
        drop(rude);
        polite.into_iter().try_for_each(|(_, client)| client.quit())?;
        held.until_again(&proxy)?;
        let plateau = *plateau.get_or_insert(peak.0);
        // The allocator gives pages back when it is asked for something.
        let now = wait::until("memory to return to the first round's", || {
            Held::by(&proxy)?;
            let (now, _) = proxy.memory()?;
            Ok((now <= plateau / 10 * 11).then_some(now))
        })
        .with_context(|| format!("round {round}, plateau {plateau}: {memories:?}"))?;
        memories.push((peak.0, now));
    }
    report(&format!("peak and after, in bytes: {memories:?}"));
    Ok(())
}

fn ten_thousand_at_once(cluster: &Cluster) -> Result<()> {
    raise_file_limit()?;
    let proxy = setup(cluster).start()?;
    // buffers and tables are there
    open(&proxy, &cluster.admin(), 100)?.into_iter().try_for_each(Client::quit)?;
    let (before, _) = proxy.memory()?;
    let mut clients = open(&proxy, &cluster.admin(), many())?;
    let (after, _) = proxy.memory()?;
    let each = after.saturating_sub(before) / u64::from(many());
    report(&format!("{each} bytes for each of {} idle sessions", many()));
    if Scale::of_this_run() == Scale::Full {
        ensure!(each <= 16 << 10, "{each} bytes for each idle session");
    }
    // any of them is served
    let last = clients.len() - 1;
    for n in [0, last / 2, last] {
        ensure!(clients[n].rows("SELECT 'served'")? == [[Some("served".to_owned())]]);
    }
    let now = Held::by(&proxy)?;
    ensure!((now.sessions, now.attached) == (u64::from(many()), 3), "{now:?}");
    ensure!(now.tasks > u64::from(many()) && now.descriptors > u64::from(many()), "{now:?}");
    clients.into_iter().try_for_each(Client::quit)
}

/// A figure for whoever runs the tests.
#[allow(clippy::print_stderr)]
fn report(figure: &str) {
    eprintln!("FIGURE {}: {figure}", e2e::skip::test_name());
}
