//! Clients and servers that go away at the wrong moment.

use anyhow::Result;
use e2e::{Client, Cluster, Proxy, Setup, skip, wait};
use wire::CommandCode;

on_both_vendors!(
    a_client_goes_in_mid_result,
    a_client_goes_in_mid_command,
    a_client_goes_in_mid_login,
    a_server_ends_the_connection,
    a_server_ends_it_in_mid_statement,
    no_server_listens,
);

/// A text that finds a statement in the server's list.
fn mark() -> String {
    format!("/* {} */", skip::test_name())
}

/// How many statements with this test's mark run on the primary; the one that asks is not counted.
fn running(cluster: &Cluster) -> Result<u64> {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{}%' AND ID <> CONNECTION_ID()",
        mark()
    );
    Ok(cluster.ask(&sql)?.parse()?)
}

fn serves_the_next(cluster: &Cluster, proxy: &Proxy) -> Result<()> {
    let mut client = proxy.connect(&cluster.admin())?;
    assert_eq!(client.rows("SELECT 'next'")?, [[Some("next".to_owned())]]);
    client.quit()
}

fn a_client_goes_in_mid_result(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    // more than fits into the buffers on the way
    let sql = format!(
        "{} SELECT REPEAT('x', 1000000) FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b",
        mark()
    );
    client.send_command(CommandCode::QUERY, sql.as_bytes())?;
    client.read_some()?;
    assert_eq!(running(cluster)?, 1);
    drop(client);
    wait::until("the statement's end", || Ok((running(cluster)? == 0).then_some(())))?;
    serves_the_next(cluster, &proxy)
}

fn a_client_goes_in_mid_command(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().schema(&schema.name);
    let mut client = proxy.connect(&login)?;
    client.must("CREATE TABLE t (a INT)")?;
    let whole = client.framed(CommandCode::QUERY, b"INSERT INTO t VALUES (1), (2), (3)");
    for cut in 0..whole.len() {
        let mut client = proxy.connect(&login)?;
        client.send(&whole[..cut])?;
    }
    // whatever was cut off was not done
    assert_eq!(client.rows("SELECT COUNT(*) FROM t")?, [[Some("0".to_owned())]]);
    serves_the_next(cluster, &proxy)
}

fn a_client_goes_in_mid_login(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let whole = Client::login_bytes(&cluster.admin());
    for cut in 0..whole.len() {
        e2e::client::throw(&proxy.address, &whole[..cut])?;
    }
    serves_the_next(cluster, &proxy)
}

fn a_server_ends_the_connection(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let schema = cluster.schema()?;
    client.must(&format!("USE {}", schema.name))?;
    let sql = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{}'", schema.name);
    let id = cluster.ask(&sql)?;
    cluster.direct()?.must(&format!("KILL {id}"))?;
    wait::until("the connection's end", || Ok((cluster.ask(&sql).is_err()).then_some(())))?;
    // the client learns it with its next command, by an error or by the end of its connection
    if let Ok(reply) = client.query("SELECT 1") {
        assert!(reply.error_code().is_some(), "the session went on over another connection");
    }
    serves_the_next(cluster, &proxy)
}

fn a_server_ends_it_in_mid_statement(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.send_command(CommandCode::QUERY, format!("{} SELECT SLEEP(600)", mark()).as_bytes())?;
    let id = wait::until("the statement", || {
        let sql = format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{}%' AND ID <> CONNECTION_ID()",
            mark()
        );
        Ok(cluster.ask(&sql).ok())
    })?;
    cluster.direct()?.must(&format!("KILL {id}"))?;
    // a killed SLEEP may still answer, as it does directly; the command behind it must not
    if client.receive(CommandCode::QUERY).is_ok()
        && let Ok(reply) = client.query("SELECT 1")
    {
        assert!(reply.error_code().is_some(), "the session went on over another connection");
    }
    serves_the_next(cluster, &proxy)
}

fn no_server_listens(cluster: &Cluster) -> Result<()> {
    let mut gone = cluster.clone();
    // bound and never listened to: nothing can answer there
    let holder = std::net::UdpSocket::bind("127.0.0.1:0")?;
    gone.addresses = vec![format!("127.0.0.1:{}", holder.local_addr()?.port())];
    let proxy = Setup::of(&gone)
        .append("[backend]\nconnect_budget = \"500ms\"\nconnect_retry_delay = \"50ms\"")
        .start()?;
    let outcome = proxy.connect(&cluster.admin()).and_then(|mut client| {
        let reply = client.query("SELECT 1")?;
        Ok(reply.error_code())
    });
    match outcome {
        Ok(code) => assert!(code.is_some(), "an answer without a server"),
        Err(error) => assert!(error.to_string().starts_with("ERR "), "{error:#}"),
    }
    Ok(())
}
