//! Connections that are lost, and servers on which a session's state cannot be had.

use super::{start, value};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, wait};

on_both_vendors!(
    h50_what_cannot_be_true_ends_the_session,
    h52_the_schema_is_dropped,
    h43_statements_of_one_text_on_a_new_connection,
    h58_the_write_in_a_text_is_not_repeated,
    h86_an_idle_connection_is_replaced,
    the_last_insert_id_is_not_made_up,
    h87_what_is_tied_is_not_replaced,
    what_ends_its_connection_ends_the_session,
);

/// Ends the client's connection to a server, as the server knows it, and waits until it is gone.
fn kill(cluster: &Cluster, client: &mut Client, comment: &str) -> Result<()> {
    let table = "information_schema.processlist";
    let mark = format!(
        "SELECT {comment} @@port, id FROM {table} WHERE info LIKE '%mark{}%'",
        std::process::id()
    );
    let found = client.rows(&mark)?;
    let (port, id) =
        (found[0][0].clone().unwrap_or_default(), found[0][1].clone().unwrap_or_default());
    let host = cluster.addresses[0].split(':').next().unwrap_or_default();
    let mut admin = Client::connect(&format!("{host}:{port}"), &cluster.admin())?;
    admin.must(&format!("KILL {id}"))?;
    let count = format!("SELECT COUNT(*) FROM {table} WHERE id = {id}");
    wait::until("the end of a connection", || Ok((value(&mut admin, &count)? == "0").then_some(())))
}

fn h50_what_cannot_be_true_ends_the_session(cluster: &Cluster) -> Result<()> {
    let name = format!("state_only_{}", std::process::id());
    let mut admin = cluster.direct()?;
    admin.must("SET sql_log_bin = 0")?;
    admin.must(&format!("CREATE DATABASE {name}"))?;
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT /* hg=1 */ 1")?;
    client.must(&format!("USE {name}"))?;
    let reply = client.query("SELECT /* hg=1 */ 1")?;
    admin.must(&format!("DROP DATABASE {name}"))?;
    let error = reply.error().map(|error| error.to_string()).unwrap_or_default();
    ensure!(reply.error_code() == Some(1049), "{error}");
    ensure!(error.contains("deferred session command failed"), "{error}");
    ensure!(client.query("SELECT 1").is_err());
    Ok(())
}

fn h52_the_schema_is_dropped(cluster: &Cluster) -> Result<()> {
    let name = format!("state_dropped_{}", std::process::id());
    let mut admin = cluster.direct()?;
    admin.must(&format!("CREATE DATABASE {name}"))?;
    for address in &cluster.addresses[1..] {
        let mut replica = Client::connect(address, &cluster.admin())?;
        wait::until("replication", || {
            Ok(replica
                .query(&format!("SHOW CREATE DATABASE {name}"))?
                .error()
                .is_none()
                .then_some(()))
        })?;
    }
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin().schema(&name))?;
    client.must("SELECT /* hg=1 */ 1")?;
    client.must(&format!("DROP DATABASE {name}"))?;
    for text in ["SELECT DATABASE()", "SELECT /* hg=1 */ DATABASE()"] {
        let rows = client.rows(text)?;
        ensure!(rows == [[None]], "{text}: {rows:?}");
    }
    ensure!(client.query("SELECT /* hg=1 */ * FROM t")?.error_code() == Some(1046));
    client.must("USE mysql")?;
    ensure!(value(&mut client, "SELECT /* hg=1 */ DATABASE()")? == "mysql");
    client.quit()
}

fn h43_statements_of_one_text_on_a_new_connection(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let text = "SELECT CONCAT('of ', ?)";
    let statements = (0..4).map(|_| client.prepare(text)).collect::<Result<Vec<_>>>()?;
    let ids: std::collections::BTreeSet<u32> = statements.iter().map(|it| it.id).collect();
    ensure!(ids.len() == 4, "{ids:?}");
    kill(cluster, &mut client, &format!("/* mark{} */", std::process::id()))?;
    for (number, statement) in statements.iter().enumerate() {
        let number = number.to_string();
        let executed = client.execute(statement, 0, &[Some(number.as_bytes())])?;
        ensure!(executed.error().is_none(), "{number}: {:?}", executed.error());
        let wanted = format!("of {number}");
        ensure!(executed.raw.windows(4).any(|part| part == wanted.as_bytes()), "{number}");
        client.close_statement(statement)?;
    }
    client.quit()
}

fn h58_the_write_in_a_text_is_not_repeated(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = format!("{}.t", schema.name);
    let mut admin = cluster.direct()?;
    admin.must(&format!("CREATE TABLE {table} (a INT)"))?;
    let proxy = start(cluster)?;
    let login = cluster.admin().with(wire::Capabilities::MULTI_STATEMENTS);
    let mut client = proxy.connect(&login)?;
    let text = format!("SET autocommit=1, @a=7; INSERT INTO {table} VALUES (@a)");
    ensure!(client.query(&text)?.error().is_none());
    kill(cluster, &mut client, &format!("/* mark{} */", std::process::id()))?;
    ensure!(value(&mut client, "SELECT @a")? == "7", "the SET is not there again");
    let rows = admin.rows(&format!("SELECT a FROM {table}"))?;
    ensure!(rows == [[Some("7".to_owned())]], "{rows:?}");
    client.quit()
}

fn h86_an_idle_connection_is_replaced(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = format!("{}.t", schema.name);
    cluster.direct()?.must(&format!("CREATE TABLE {table} (a INT)"))?;
    super::replicated(cluster, &table, 0)?;
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("SET NAMES latin1")?;
    client.must("SET @a = 1, time_zone = '+02:00'")?;
    let statement = client.prepare("SELECT @a, @@time_zone")?;
    client.must("PREPARE p FROM 'SELECT @a + 1'")?;
    for comment in ["/* mark", "/* hg=1 mark"] {
        let comment = format!("{comment}{} */", std::process::id());
        kill(cluster, &mut client, &comment)?;
        ensure!(
            client.rows(&format!("SELECT {comment} @a, @@time_zone, @@character_set_client"))?
                == [[Some("1".into()), Some("+02:00".into()), Some("latin1".to_owned())]]
        );
    }
    let executed = client.execute(&statement, 0, &[])?;
    ensure!(executed.error().is_none());
    ensure!(value(&mut client, "EXECUTE /* hg=1 */ p")? == "2");
    client.must("INSERT INTO t VALUES (1)")?;
    ensure!(value(&mut client, "SELECT COUNT(*) FROM t")? == "1");
    client.quit()
}

fn the_last_insert_id_is_not_made_up(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)")?;
    client.must("INSERT INTO t VALUES (NULL)")?;
    let id = "SELECT LAST_INSERT_ID()";
    ensure!(value(&mut client, id)? == "1");
    let comment = format!("/* mark{} */", std::process::id());
    kill(cluster, &mut client, &comment)?;
    client.must("SELECT 1")?;
    let reply = client.query(id)?;
    ensure!(reply.error_code() == Some(9007), "{:?}", reply.error());
    client.must("INSERT INTO t VALUES (NULL)")?;
    ensure!(value(&mut client, id)? == "2");
    client.quit()
}

fn h87_what_is_tied_is_not_replaced(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let name = format!("state_tied_{}", std::process::id());
    for tie in [format!("SELECT GET_LOCK('{name}', 0)"), "BEGIN".into(), "SET @u = UUID()".into()] {
        let mut client = proxy.connect(&cluster.admin())?;
        client.must(&tie)?;
        let comment = format!("/* mark{} */", std::process::id());
        kill(cluster, &mut client, &comment)?;
        let after = client.query("SELECT 1");
        let ended = after.is_err() || after.is_ok_and(|reply| reply.error().is_some());
        ensure!(ended, "{tie}");
    }
    Ok(())
}

fn what_ends_its_connection_ends_the_session(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    for text in ["COMMIT RELEASE", "ROLLBACK AND NO CHAIN RELEASE", "KILL CONNECTION_ID()"] {
        let mut client = proxy.connect(&cluster.admin())?;
        client.must("SET @a = 1")?;
        // KILL of itself is an error on one vendor, and no reply on none.
        let _ = client.query(text);
        ensure!(client.query("SELECT @a").is_err(), "{text}");
    }
    // A KILL of nobody ends nothing, and ties nothing for long.
    let mut client = proxy.connect(&cluster.admin())?;
    ensure!(client.query("KILL 2147483000")?.error_code() == Some(1094));
    ensure!(super::port(&mut client, "")? != super::port(&mut client, "/* hg=1 */")?);
    client.quit()
}
