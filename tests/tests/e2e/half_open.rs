//! Peers that vanish without a word: nothing says so, and what `[tcp]` asks for finds out.

use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Held, Proxy, Relay, Setup, skip, wait};
use wire::CommandCode;

on_both_vendors!(
    an_idle_client,
    a_client_with_a_statement,
    a_client_in_mid_result,
    a_server_with_a_statement,
    a_server_in_mid_result,
    a_server_of_an_idle_session,
    a_server_of_a_pooled_connection,
);

/// Peers that say nothing are given up as soon as the system can.
const ASKED: &str =
    "[tcp]\nkeepalive_time = \"1s\"\nkeepalive_interval = \"1s\"\nkeepalive_retries = 1";

/// Rows, each on its way as soon as it is there, without an end.
const ROWS: &str = "SELECT REPEAT('x', 100000), SLEEP(0.1) FROM information_schema.COLLATIONS a, \
                    information_schema.COLLATIONS b";

fn marked(sql: &str) -> String {
    format!("/* {} */ {sql}", skip::test_name())
}

/// The server's thread that runs this test's statement.
fn thread(cluster: &Cluster) -> Result<Option<String>> {
    let sql = format!(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%/* {} */%' AND ID <> CONNECTION_ID()",
        skip::test_name()
    );
    Ok(cluster.direct()?.rows(&sql)?.first().and_then(|row| row[0].clone()))
}

fn until_it_runs(cluster: &Cluster) -> Result<String> {
    wait::until("the statement", || thread(cluster))
}

/// Waits until the server has nothing of that thread any more, whatever it does.
fn until_it_is_gone(cluster: &Cluster, thread: &str) -> Result<()> {
    let sql = format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {thread}");
    let gone = || Ok(cluster.direct()?.rows(&sql)?.is_empty().then_some(()));
    wait::until("the end of the server's connection", gone)
}

/// A proxy, what it holds without clients, and a relay to it.
fn before_clients(cluster: &Cluster, more: &str) -> Result<(Proxy, Held, Relay)> {
    let proxy = Setup::of(cluster).append(ASKED).append(more).start()?;
    let held = Held::at_start(&proxy)?;
    let relay = Relay::start(&proxy.address)?;
    Ok((proxy, held, relay))
}

/// A relay to the primary, and a proxy that knows the primary by it.
fn before_server(cluster: &Cluster) -> Result<(Relay, Proxy, Held)> {
    let mut there = cluster.clone();
    let relay = Relay::start(&cluster.addresses[0])?;
    there.addresses = vec![relay.address.clone()];
    let proxy = Setup::of(&there).append(ASKED).start()?;
    let held = Held::at_start(&proxy)?;
    Ok((relay, proxy, held))
}

/// Nothing is left, and the next session does not get a connection that is dead.
fn goes_on(cluster: &Cluster, proxy: &Proxy, held: Held) -> Result<()> {
    held.until_again(proxy)?;
    let mut client = proxy.connect(&cluster.admin())?;
    assert_eq!(client.rows("SELECT 'next'")?, [[Some("next".to_owned())]]);
    client.quit()
}

/// Reads up to the end of the stream.
fn until_the_end(client: &mut Client) {
    while client.read_some().is_ok_and(|read| !read.is_empty()) {}
}

/// Its transaction is rolled back.
fn an_idle_client(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let (proxy, held, relay) = before_clients(cluster, "")?;
    let mut direct = cluster.direct()?;
    direct.must(&format!("CREATE TABLE {}.t (a INT PRIMARY KEY)", schema.name))?;
    direct.must(&format!("INSERT INTO {}.t VALUES (1)", schema.name))?;
    let lock = format!("SELECT a FROM {}.t FOR UPDATE NOWAIT", schema.name);
    let mut client = Client::connect(&relay.address, &cluster.admin().schema(&schema.name))?;
    client.must("BEGIN")?;
    client.must("UPDATE t SET a = 2")?;
    ensure!(direct.query(&lock)?.error_code().is_some(), "the row is not locked");
    relay.fall_silent();
    wait::until("the lock", || Ok(direct.query(&lock)?.error_code().is_none().then_some(())))?;
    assert_eq!(direct.rows(&lock)?, [[Some("1".to_owned())]]);
    goes_on(cluster, &proxy, held)
}

/// It is killed.
fn a_client_with_a_statement(cluster: &Cluster) -> Result<()> {
    let (proxy, held, relay) = before_clients(cluster, "[backend]\nabandoned_grace = \"1ms\"")?;
    let mut client = Client::connect(&relay.address, &cluster.admin())?;
    client.send_command(CommandCode::QUERY, marked("SELECT SLEEP(600)").as_bytes())?;
    let thread = until_it_runs(cluster)?;
    relay.fall_silent();
    until_it_is_gone(cluster, &thread)?;
    goes_on(cluster, &proxy, held)
}

/// What was sent last is never acknowledged.
fn a_client_in_mid_result(cluster: &Cluster) -> Result<()> {
    let (proxy, held, relay) = before_clients(cluster, "user_timeout = \"1s\"")?;
    let mut client = Client::connect(&relay.address, &cluster.admin())?;
    client.send_command(CommandCode::QUERY, marked(ROWS).as_bytes())?;
    client.read_some()?;
    let thread = until_it_runs(cluster)?;
    relay.fall_silent();
    until_it_is_gone(cluster, &thread)?;
    goes_on(cluster, &proxy, held)
}

/// The client is told, once.
fn a_server_with_a_statement(cluster: &Cluster) -> Result<()> {
    let (relay, proxy, held) = before_server(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.send_command(CommandCode::QUERY, marked("SELECT SLEEP(600)").as_bytes())?;
    let thread = until_it_runs(cluster)?;
    relay.fall_silent();
    assert_eq!(client.receive(CommandCode::QUERY)?.error_code(), Some(9007));
    ensure!(client.read_some().is_err(), "the session goes on");
    // the server has not heard that its client is gone
    cluster.direct()?.must(&format!("KILL {thread}"))?;
    goes_on(cluster, &proxy, held)
}

/// Nothing follows what the client has got.
fn a_server_in_mid_result(cluster: &Cluster) -> Result<()> {
    let (relay, proxy, held) = before_server(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.send_command(CommandCode::QUERY, marked(ROWS).as_bytes())?;
    client.read_some()?;
    let thread = until_it_runs(cluster)?;
    relay.fall_silent();
    until_the_end(&mut client);
    cluster.direct()?.must(&format!("KILL {thread}"))?;
    goes_on(cluster, &proxy, held)
}

/// What the session had there is lost, and so it ends.
fn a_server_of_an_idle_session(cluster: &Cluster) -> Result<()> {
    let (relay, proxy, held) = before_server(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SET @kept = 1")?;
    relay.fall_silent();
    until_the_end(&mut client);
    goes_on(cluster, &proxy, held)
}

/// It leaves the pool.
fn a_server_of_a_pooled_connection(cluster: &Cluster) -> Result<()> {
    let (relay, proxy, held) = before_server(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SET @kept = 1")?;
    client.quit()?;
    let idle = |count| {
        let line = format!("state=\"idle\"}} {count}\n");
        Ok(proxy.get("/metrics")?.contains(&line).then_some(()))
    };
    wait::until("the pool", || idle(1))?;
    relay.fall_silent();
    wait::until("an empty pool", || idle(0))?;
    goes_on(cluster, &proxy, held)
}
