//! A result of 1 GiB to a slow client: the proxy keeps almost nothing of it.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Scale, Setup, skip, wait};
use wire::{CommandCode, ReplyScanner, Scan};

on_both_vendors!(
    a_gibibyte_to_a_slow_client,
    a_gibibyte_over_tls,
    wide_rows_to_clients_that_compress,
);

const MIB: u64 = 1 << 20;
const TOTAL: u64 = 1 << 30;
/// By how much the process may grow.
const GROWTH: u64 = 4 * MIB;

fn a_gibibyte_to_a_slow_client(cluster: &Cluster) -> Result<()> {
    if !Scale::is_for_load() {
        return Ok(());
    }
    let proxy = Proxy::start(cluster)?;
    stream(cluster, &proxy, proxy.connect(&cluster.admin())?)
}

fn a_gibibyte_over_tls(cluster: &Cluster) -> Result<()> {
    if !Scale::is_for_load() {
        return Ok(());
    }
    let proxy = Setup::of(cluster)
        .listener_tls("require")
        .server("tls = { mode = \"require\" }")
        .start()?;
    stream(cluster, &proxy, proxy.connect(&cluster.admin().tls())?)
}

fn stream(cluster: &Cluster, proxy: &Proxy, mut client: Client) -> Result<()> {
    client.must("SELECT 1")?;
    let mark = format!("/* {} */", skip::test_name());
    // 512 rows of 2 MiB, which the server makes one by one
    let sql = format!(
        "{mark} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 512) \
         SELECT REPEAT('x', 2097152) FROM n"
    );
    let before = proxy.memory()?;
    client.send_command(CommandCode::QUERY, sql.as_bytes())?;
    // nothing is read before the server is held up: then all buffers on the way are full
    let writing = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{mark}%' \
         AND ID <> CONNECTION_ID() AND (STATE LIKE '%to net%' OR STATE LIKE '%to client%')"
    );
    wait::until("back-pressure", || Ok((cluster.ask(&writing)? == "1").then_some(())))?;

    let mut scanner = ReplyScanner::new(CommandCode::QUERY, client.capabilities);
    let (mut received, mut steps, mut largest) = (0u64, 0, before);
    loop {
        let chunk = client.read_some()?;
        received += chunk.len() as u64;
        if received / (16 * MIB) > steps {
            // a slow client: it looks around between its reads
            steps = received / (16 * MIB);
            let now = proxy.memory()?;
            largest = (largest.0.max(now.0), largest.1.max(now.1));
            ensure!(cluster.ask("SELECT 1")? == "1", "the server answers others meanwhile");
        }
        if let Scan::End { end, .. } = scanner.scan(&chunk)? {
            ensure!(end.error.is_none(), "the result ends with an error");
            break;
        }
    }
    assert!(received > TOTAL, "{received} bytes");
    assert!(steps >= TOTAL / (16 * MIB) - 1, "{steps} steps");
    let growth = largest.0.saturating_sub(before.0);
    assert!(
        growth <= GROWTH,
        "the process grew by {growth} bytes; all and without files: {before:?}, later {largest:?}"
    );
    client.must("SELECT 'after'")?;
    client.quit()
}

/// As the system counts it, in user and system mode.
fn processor_time(proxy: &Proxy) -> Result<(String, String)> {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", proxy.pid()))?;
    let (_, behind_the_name) = line.rsplit_once(')').context("a name")?;
    let mut fields = behind_the_name.split_whitespace().skip(11).map(str::to_owned);
    fields.next().zip(fields.next()).context("two numbers")
}

/// What waits to be compressed is within `limits.max_buffered`: where that is used up, rows go out as
/// they come.
fn wide_rows_to_clients_that_compress(cluster: &Cluster) -> Result<()> {
    const CLIENTS: usize = 6;
    let limits = "[limits]\nmax_buffered = \"1 MiB\"\n";
    let proxy = Setup::of(cluster).append(limits).start()?;
    let mark = format!("/* {} */", skip::test_name());
    // half as long once it is compressed
    let sql = format!(
        "{mark} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
         SELECT GROUP_CONCAT(SHA2(a.i * 1000 + b.i, 512) SEPARATOR '') FROM n a, n b WHERE b.i < 100"
    );
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = proxy.connect(&cluster.admin().zlib())?;
        client.must("SET SESSION group_concat_max_len = 11000000")?;
        clients.push(client);
    }
    let before = proxy.memory()?.0;
    for client in &mut clients {
        client.send_command(CommandCode::QUERY, sql.as_bytes())?;
    }
    let writing = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{mark}%' \
         AND ID <> CONNECTION_ID() AND (STATE LIKE '%to net%' OR STATE LIKE '%to client%')"
    );
    let all = CLIENTS.to_string();
    wait::until("back-pressure", || Ok((cluster.ask(&writing)? == all).then_some(())))?;
    // what it takes of them it has taken when it rests
    let (mut spent, mut rests) = (processor_time(&proxy)?, 0);
    wait::until("the proxy to rest", || {
        let before = std::mem::replace(&mut spent, processor_time(&proxy)?);
        rests = if before == spent { rests + 1 } else { 0 };
        Ok((rests == 20).then_some(()))
    })?;
    let growth = proxy.memory()?.0.saturating_sub(before);
    ensure!(growth < 12 * MIB, "the process grew by {growth} bytes");
    for client in &mut clients {
        let reply = client.receive(CommandCode::QUERY)?;
        let rows = reply.rows(client.capabilities)?;
        ensure!(rows[0][0].as_ref().is_some_and(|value| value.len() == 11_000_000), "cut");
    }
    Ok(())
}
