//! Prepared statements: the binary protocol, byte for byte.

use anyhow::Result;
use e2e::{
    Client, Cluster, Proxy,
    transcript::{Transcript, same},
};
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    every_type,
    old_style_ends_of_results,
    parameters,
    long_data,
    cursors,
    many_statements,
    statements_of_another_session_are_unknown,
);

const TYPES: &str = "SELECT CAST(-1 AS SIGNED), CAST(18446744073709551615 AS UNSIGNED), 1.5, 1.5e0, \
    'text', x'0001', NULL, CAST('2024-02-29' AS DATE), CAST('2024-02-29 10:11:12.345678' AS DATETIME(6)), \
    CAST('-12:34:56.7' AS TIME(1)), CAST('{\"a\": 1}' AS CHAR)";

fn types(client: &mut Client, transcript: &mut Transcript) -> Result<()> {
    let statement = client.prepare(TYPES)?;
    transcript.add("prepare", &statement.reply);
    for _ in 0..3 {
        transcript.add("execute", &client.execute(&statement, 0, &[])?);
    }
    client.close_statement(&statement)?;
    transcript.add("after", &client.query("SELECT 'after'")?);
    Ok(())
}

fn every_type(cluster: &Cluster) -> Result<()> {
    same(cluster, &Proxy::start(cluster)?, &cluster.admin(), types)
}

fn old_style_ends_of_results(cluster: &Cluster) -> Result<()> {
    let login = cluster.admin().without(Capabilities::DEPRECATE_EOF);
    same(cluster, &Proxy::start(cluster)?, &login, types)
}

fn parameters(cluster: &Cluster) -> Result<()> {
    same(cluster, &Proxy::start(cluster)?, &cluster.admin(), |client, transcript| {
        client.must("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(100))")?;
        let insert = client.prepare("INSERT INTO t VALUES (?, ?)")?;
        transcript.add("prepare", &insert.reply);
        for id in [&b"1"[..], b"2", b"1"] {
            // the third is a duplicate key
            transcript
                .add("insert", &client.execute(&insert, 0, &[Some(id), Some("é".as_bytes())])?);
        }
        transcript.add("null", &client.execute(&insert, 0, &[Some(b"4"), None])?);
        let select = client.prepare("SELECT a, ? FROM t WHERE id < ? ORDER BY id")?;
        transcript.add("prepare", &select.reply);
        transcript.add("select", &client.execute(&select, 0, &[Some(b"x"), Some(b"9")])?);
        // without their types, which are those of the time before
        for value in [b'y', b'z'] {
            let head = [&select.id().to_le_bytes()[..], &[0, 1, 0, 0, 0], &[0, 0]].concat();
            let body = [&head[..], &[1, value, 1, b'3']].concat();
            let reply = client.command(CommandCode::STMT_EXECUTE, &body)?;
            assert!(reply.error().is_none(), "{:?}", reply.error());
            transcript.add("types sent once", &reply);
        }
        transcript.add("none", &client.execute(&select, 0, &[None, Some(b"0")])?);
        transcript.add("reset", &client.statement_command(CommandCode::STMT_RESET, &select)?);
        for sql in ["SELEC ?", "SELECT * FROM missing WHERE a = ?", "", "SELECT ?; SELECT ?"] {
            transcript.add(sql, &client.prepare(sql)?.reply);
        }
        Ok(())
    })
}

fn long_data(cluster: &Cluster) -> Result<()> {
    same(cluster, &Proxy::start(cluster)?, &cluster.admin(), |client, transcript| {
        let statement = client.prepare("SELECT LENGTH(?), SHA2(?, 256)")?;
        transcript.add("prepare", &statement.reply);
        for chunk in [vec![b'a'; 100_000], Vec::new(), vec![b'b'; 3]] {
            client.long_data(&statement, 0, &chunk)?;
            client.long_data(&statement, 1, &chunk)?;
        }
        transcript.add("execute", &client.execute_with_long_data(&statement)?);
        transcript.add("after", &client.query("SELECT 'after'")?);
        Ok(())
    })
}

fn cursors(cluster: &Cluster) -> Result<()> {
    for login in [cluster.admin(), cluster.admin().without(Capabilities::DEPRECATE_EOF)] {
        same(cluster, &Proxy::start(cluster)?, &login, |client, transcript| {
            client.must("CREATE TABLE t (a INT)")?;
            client.must("INSERT INTO t VALUES (1),(2),(3),(4),(5)")?;
            let statement = client.prepare("SELECT a FROM t ORDER BY a")?;
            transcript.add("open", &client.execute(&statement, 1, &[])?);
            for _ in 0..3 {
                transcript.add("fetch", &client.fetch(&statement, 2)?);
            }
            transcript.add_code("beyond the end", &client.fetch(&statement, 2)?);
            transcript.add("after", &client.query("SELECT 'after'")?);
            Ok(())
        })?;
    }
    Ok(())
}

fn many_statements(cluster: &Cluster) -> Result<()> {
    same(cluster, &Proxy::start(cluster)?, &cluster.admin(), |client, transcript| {
        let mut statements = Vec::new();
        for n in 0..100 {
            statements.push(client.prepare(&format!("SELECT {n}, ?"))?);
        }
        for statement in statements.iter().rev() {
            transcript.add("execute", &client.execute(statement, 0, &[Some(b"v")])?);
            client.close_statement(statement)?;
        }
        // a closed statement is unknown
        transcript.add_code("closed", &client.execute(&statements[0], 0, &[Some(b"v")])?);
        transcript.add("after", &client.query("SELECT 'after'")?);
        Ok(())
    })
}

fn statements_of_another_session_are_unknown(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut one = proxy.connect(&cluster.admin())?;
    let statement = one.prepare("SELECT 'mine'")?;
    let mut other = proxy.connect(&cluster.admin())?;
    assert_eq!(other.execute(&statement, 0, &[])?.error_code(), Some(1243));
    // nor does one survive the connection's way through the pool
    one.quit()?;
    other.quit()?;
    let mut third = proxy.connect(&cluster.admin())?;
    assert_eq!(third.execute(&statement, 0, &[])?.error_code(), Some(1243));
    third.quit()
}
