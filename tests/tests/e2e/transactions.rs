//! Transactions: one connection, the right flags, nothing left behind.

use anyhow::Result;
use e2e::{Cluster, Proxy, transcript::same, wait};

on_both_vendors!(
    the_flags_of_a_transaction,
    a_transaction_stays_on_its_connection,
    locks_are_the_servers,
    a_vanished_client_is_rolled_back,
    a_client_that_quits_is_rolled_back,
);

fn the_flags_of_a_transaction(cluster: &Cluster) -> Result<()> {
    same(cluster, &Proxy::start(cluster)?, &cluster.admin(), |client, transcript| {
        client.must("CREATE TABLE t (a INT PRIMARY KEY) ENGINE = InnoDB")?;
        for sql in [
            "BEGIN",
            "INSERT INTO t VALUES (1)",
            "SELECT * FROM t",
            "INSERT INTO t VALUES (1)",
            "SAVEPOINT s",
            "INSERT INTO t VALUES (2)",
            "ROLLBACK TO s",
            "COMMIT",
            "SELECT * FROM t",
            "START TRANSACTION READ ONLY",
            "INSERT INTO t VALUES (3)",
            "ROLLBACK AND CHAIN",
            "SELECT 1",
            "ROLLBACK",
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "BEGIN",
            "CREATE TABLE implicit_commit (a INT)",
            "SELECT 1",
            "SET autocommit = 0",
            "SELECT * FROM t",
            "COMMIT",
            "SET autocommit = 1",
            "XA START 'x1'",
            "INSERT INTO t VALUES (4)",
            "XA END 'x1'",
            "XA ROLLBACK 'x1'",
            "LOCK TABLES t READ",
            "SELECT * FROM t",
            "UNLOCK TABLES",
        ] {
            let unique = xa_name(client, sql)?;
            transcript.add(sql, &client.query(&unique)?);
        }
        Ok(())
    })
}

/// XA names are the server's, not the schema's.
fn xa_name(client: &mut e2e::Client, sql: &str) -> Result<String> {
    if !sql.starts_with("XA") {
        return Ok(sql.to_owned());
    }
    let schema = client.rows("SELECT SHA2(DATABASE(), 224)")?[0][0].clone().unwrap_or_default();
    Ok(sql.replace("x1", &schema))
}

fn a_transaction_stays_on_its_connection(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().schema(&schema.name);
    let mut sessions = Vec::new();
    for n in 0..5 {
        let mut client = proxy.connect(&login)?;
        client.must(&format!("CREATE TABLE t{n} (a INT)"))?;
        sessions.push(client);
    }
    for client in &mut sessions {
        client.must("BEGIN")?;
    }
    // interleaved: each sees its own and only its own
    for round in 1..=5u64 {
        for (n, client) in sessions.iter_mut().enumerate() {
            client.must(&format!("INSERT INTO t{n} VALUES ({round})"))?;
            for other in 0..5 {
                let rows = client.rows(&format!("SELECT COUNT(*) FROM t{other}"))?;
                let expected = if other == n { round } else { 0 };
                assert_eq!(rows, [[Some(expected.to_string())]], "session {n}, table {other}");
            }
        }
    }
    for client in &mut sessions {
        client.must("COMMIT")?;
    }
    // a snapshot opened before the others' commits does not show them; a new one does
    for n in 0..5 {
        assert_eq!(
            sessions[0].rows(&format!("SELECT COUNT(*) FROM t{n}"))?,
            [[Some("5".to_owned())]]
        );
    }
    Ok(())
}

fn locks_are_the_servers(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().schema(&schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    one.must("CREATE TABLE t (a INT PRIMARY KEY, b INT) ENGINE = InnoDB")?;
    one.must("INSERT INTO t VALUES (1, 0)")?;
    one.must("BEGIN")?;
    one.must("UPDATE t SET b = 1 WHERE a = 1")?;
    other.must("SET innodb_lock_wait_timeout = 1")?;
    assert_eq!(other.query("UPDATE t SET b = 2 WHERE a = 1")?.error_code(), Some(1205));
    one.must("ROLLBACK")?;
    other.must("UPDATE t SET b = 3 WHERE a = 1")?;
    assert_eq!(one.rows("SELECT b FROM t")?, [[Some("3".to_owned())]]);
    Ok(())
}

fn rolled_back(cluster: &Cluster, leave: impl FnOnce(e2e::Client) -> Result<()>) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().schema(&schema.name);
    let mut client = proxy.connect(&login)?;
    client.must("CREATE TABLE t (a INT PRIMARY KEY) ENGINE = InnoDB")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t VALUES (1)")?;
    leave(client)?;
    // the row's lock goes with the transaction: then, and only then, another can write the row
    let mut other = cluster.direct()?;
    other.must(&format!("USE {}", schema.name))?;
    other.must("SET innodb_lock_wait_timeout = 1")?;
    wait::until("the transaction's end", || {
        Ok(other.query("INSERT INTO t VALUES (1)")?.error_code().is_none().then_some(()))
    })?;
    assert_eq!(other.rows("SELECT COUNT(*) FROM t")?, [[Some("1".to_owned())]]);
    Ok(())
}

fn a_vanished_client_is_rolled_back(cluster: &Cluster) -> Result<()> {
    rolled_back(cluster, |client| {
        drop(client);
        Ok(())
    })
}

fn a_client_that_quits_is_rolled_back(cluster: &Cluster) -> Result<()> {
    rolled_back(cluster, e2e::Client::quit)
}
