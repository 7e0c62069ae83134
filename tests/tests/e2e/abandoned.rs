//! Statements whose client has gone: killed after a grace, with what they hold.

use anyhow::Result;
use e2e::{Cluster, Proxy, Setup, skip, wait};
use wire::CommandCode;

on_both_vendors!(
    a_running_statement_is_killed,
    a_waiting_one_gives_its_locks_back,
    under_tls_and_compression_too,
    within_the_grace_it_is_done,
    a_half_closed_client_gets_its_reply,
    commands_sent_before_the_end_are_all_done,
    without_the_setting_it_runs_on,
    nothing_is_killed_that_is_not_abandoned,
);

/// How many statements with this test's mark run on the primary; the one that asks is not counted.
fn running(cluster: &Cluster) -> Result<u64> {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%/* {} */%' AND ID <> CONNECTION_ID()",
        skip::test_name()
    );
    Ok(cluster.ask(&sql)?.parse()?)
}

fn until_running(cluster: &Cluster, count: u64) -> Result<()> {
    wait::until("the statements", || Ok((running(cluster)? == count).then_some(())))
}

fn marked(sql: &str) -> String {
    format!("/* {} */ {sql}", skip::test_name())
}

fn a_running_statement_is_killed(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.send_command(CommandCode::QUERY, marked("SELECT SLEEP(600)").as_bytes())?;
    until_running(cluster, 1)?;
    drop(client);
    until_running(cluster, 0)
}

fn a_waiting_one_gives_its_locks_back(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().schema(&schema.name);
    let mut direct = cluster.direct()?;
    direct.must(&format!("USE {}", schema.name))?;
    direct.must("CREATE TABLE t (id INT PRIMARY KEY, v INT)")?;
    direct.must("INSERT INTO t VALUES (1, 0), (2, 0)")?;
    direct.must("BEGIN")?;
    direct.must("UPDATE t SET v = 1 WHERE id = 2")?;
    let mut client = proxy.connect(&login)?;
    client.must("BEGIN")?;
    client.must("UPDATE t SET v = 2 WHERE id = 1")?;
    let update = marked("UPDATE t SET v = 2 WHERE id = 2");
    client.send_command(CommandCode::QUERY, update.as_bytes())?;
    until_running(cluster, 1)?;
    drop(client);
    // row 1 is free again although row 2 is not: the transaction is gone, not only the wait
    let update = format!("UPDATE {}.t SET v = 3 WHERE id = 1", schema.name);
    cluster.direct()?.must(&update)?;
    direct.must("COMMIT")?;
    until_running(cluster, 0)?;
    assert_eq!(direct.rows("SELECT SUM(v) FROM t")?, [[Some("4".to_owned())]]);
    Ok(())
}

fn under_tls_and_compression_too(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().tls().zlib();
    let mut client = proxy.connect(&login)?;
    client.send_command(CommandCode::QUERY, marked("SELECT SLEEP(600)").as_bytes())?;
    until_running(cluster, 1)?;
    drop(client);
    until_running(cluster, 0)
}

fn within_the_grace_it_is_done(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Setup::of(cluster).append("[backend]\nabandoned_grace = \"60s\"").start()?;
    let login = cluster.admin().schema(&schema.name);
    let mut client = proxy.connect(&login)?;
    client.must("CREATE TABLE t (a INT)")?;
    let insert = marked("INSERT INTO t SELECT 1 + SLEEP(0.5)");
    client.send_command(CommandCode::QUERY, insert.as_bytes())?;
    drop(client);
    let count = format!("SELECT COUNT(*) FROM {}.t", schema.name);
    wait::until("the row", || Ok((cluster.ask(&count)? == "1").then_some(())))
}

fn a_half_closed_client_gets_its_reply(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[backend]\nabandoned_grace = \"60s\"").start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.send_command(CommandCode::QUERY, b"SELECT SLEEP(0.3), 'reply'")?;
    client.close_sending()?;
    let reply = client.receive(CommandCode::QUERY)?;
    let rows = reply.rows(client.capabilities)?;
    assert_eq!(rows, [[Some("0".to_owned()), Some("reply".to_owned())]]);
    Ok(())
}

fn commands_sent_before_the_end_are_all_done(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Setup::of(cluster).append("[backend]\nabandoned_grace = \"1ms\"").start()?;
    let login = cluster.admin().schema(&schema.name);
    let mut client = proxy.connect(&login)?;
    client.must("CREATE TABLE t (a INT)")?;
    let slow = client.framed(CommandCode::QUERY, b"INSERT INTO t SELECT 1 + SLEEP(0.5)");
    let goodbye = client.framed(CommandCode::QUIT, b"");
    client.send(&[slow, goodbye].concat())?;
    client.close_sending()?;
    let reply = client.receive(CommandCode::QUERY)?;
    assert_eq!(reply.error_code(), None);
    assert_eq!(cluster.ask(&format!("SELECT COUNT(*) FROM {}.t", schema.name))?, "1");
    Ok(())
}

fn without_the_setting_it_runs_on(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let settings = "[backend]\nkill_abandoned = false\nabandoned_grace = \"1ms\"";
    let proxy = Setup::of(cluster).append(settings).start()?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t (a INT)")?;
    let insert = marked("INSERT INTO t SELECT 1 + SLEEP(1)");
    client.send_command(CommandCode::QUERY, insert.as_bytes())?;
    until_running(cluster, 1)?;
    drop(client);
    let count = format!("SELECT COUNT(*) FROM {}.t", schema.name);
    wait::until("the row", || Ok((cluster.ask(&count)? == "1").then_some(())))
}

fn nothing_is_killed_that_is_not_abandoned(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[backend]\nabandoned_grace = \"1ms\"").start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    // read ahead of the reply to the first, without an end behind them
    let slow = client.framed(CommandCode::QUERY, b"SELECT SLEEP(0.5)");
    let next = client.framed(CommandCode::QUERY, b"SELECT 'next'");
    client.send(&slow)?;
    client.send(&next)?;
    let first = client.receive(CommandCode::QUERY)?;
    assert_eq!(first.rows(client.capabilities)?, [[Some("0".to_owned())]]);
    let second = client.receive(CommandCode::QUERY)?;
    assert_eq!(second.rows(client.capabilities)?, [[Some("next".to_owned())]]);
    client.quit()
}
