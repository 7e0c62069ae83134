//! Two sessions and one connection: each command takes it over from the other session.

use super::{login, metric, same, start, value};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, wait};
use wire::CommandCode;

on_both_vendors!(
    each_finds_what_it_has_set,
    equal_states_need_no_reset,
    statements_are_each_sessions_own,
    what_the_last_statement_left_is_each_sessions_own,
    counts_look_as_from_the_server,
    the_last_insert_id_is_each_sessions_own,
    schemas_are_each_sessions_own,
    a_reset_is_of_one_session,
    a_change_of_user_leaves_nothing,
    a_file_of_the_client,
    a_server_connection_that_is_gone,
    ids_are_each_sessions_own,
    pipelined_commands_stay_together,
);

fn each_finds_what_it_has_set(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let mut clients = Vec::new();
    for turn in 0..3 {
        let mut client = proxy.connect(&login(cluster, &schema.name))?;
        client.must(&format!("SET @mine = {turn}"))?;
        client.must(&format!("SET SESSION group_concat_max_len = {}", 1000 + turn))?;
        if turn == 1 {
            client.must("SET NAMES latin1")?;
            client.must("SET sql_mode = 'ANSI_QUOTES'")?;
            client.must("PREPARE p FROM 'SELECT 77'")?;
        }
        clients.push(client);
    }
    for _ in 0..3 {
        for (turn, client) in clients.iter_mut().enumerate() {
            same(client, "SELECT @mine", &turn.to_string())?;
            same(client, "SELECT @@group_concat_max_len", &(1000 + turn).to_string())?;
            let charset = if turn == 1 { "latin1" } else { "utf8mb4" };
            same(client, "SELECT @@character_set_client", charset)?;
            let mode = value(client, "SELECT @@sql_mode = 'ANSI_QUOTES'")?;
            ensure!(mode.as_deref() == Some(if turn == 1 { "1" } else { "0" }));
            let executed = client.query("EXECUTE p")?.error_code();
            ensure!(executed == (turn != 1).then_some(1243), "{executed:?}");
            // An error ties a session to its connection until its next statement.
            client.must("SELECT COUNT(*) FROM information_schema.SCHEMATA")?;
        }
    }
    ensure!(metric(&proxy, "towpath_backend_shared_total{fit=\"renewed\"}")? > 0);
    Ok(())
}

fn equal_states_need_no_reset(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    for client in [&mut one, &mut other] {
        client.must("SET NAMES utf8mb4")?;
        client.must("SET @a = 5")?;
        same(client, "SELECT @a", "5")?;
    }
    let renewed = metric(&proxy, "towpath_backend_shared_total{fit=\"renewed\"}")?;
    for _ in 0..5 {
        same(&mut one, "SELECT @a", "5")?;
        same(&mut other, "SELECT @a", "5")?;
    }
    let after = metric(&proxy, "towpath_backend_shared_total{fit=\"renewed\"}")?;
    // The second one's SETs ran after the first one's: one of the takeovers may have been a reset.
    ensure!(after <= renewed + 1, "{renewed} resets, then {after}");
    ensure!(metric(&proxy, "towpath_backend_shared_total{fit=\"equal\"}")? >= 9);
    Ok(())
}

fn statements_are_each_sessions_own(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    let first = one.prepare("SELECT CONCAT('one ', ?)")?;
    let second = other.prepare("SELECT CONCAT('other ', ?)")?;
    for _ in 0..3 {
        for (client, statement, expected) in
            [(&mut one, &first, "one x"), (&mut other, &second, "other x")]
        {
            let reply = client.execute(statement, 0, &[Some(b"x")])?;
            ensure!(reply.error().is_none(), "{:?}", reply.error());
            let raw = String::from_utf8_lossy(&reply.raw).into_owned();
            ensure!(raw.contains(expected), "{raw:?}");
        }
    }
    // Nobody's statement answers to a number that is no one's of this session.
    for id in [1_u32, 2, 3, first.id() + 1000] {
        let mut body = id.to_le_bytes().to_vec();
        body.extend([0, 1, 0, 0, 0]);
        let reply = one.command(CommandCode::STMT_EXECUTE, &body)?;
        ensure!(reply.error_code() == Some(1243), "{id}: {:?}", reply.error_code());
    }
    one.close_statement(&first)?;
    one.must("SELECT COUNT(*) FROM information_schema.SCHEMATA")?;
    let reply = other.execute(&second, 0, &[Some(b"x")])?;
    ensure!(reply.error().is_none());
    Ok(())
}

fn what_the_last_statement_left_is_each_sessions_own(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    one.must("CREATE TABLE t (a INT)")?;
    other.must("SELECT COUNT(*) FROM t")?;
    one.must("INSERT INTO t VALUES (1), (2), (3)")?;
    other.must("SELECT a FROM t WHERE a < 3")?;
    same(&mut one, "SELECT ROW_COUNT()", "3")?;
    same(&mut other, "SELECT FOUND_ROWS()", "2")?;
    one.must("DELETE FROM t WHERE a = 1")?;
    other.must("UPDATE t SET a = 9 WHERE a = 7")?;
    same(&mut one, "select row_count( )", "1")?;
    same(&mut other, "SELECT ROW_COUNT() AS n", "0")?;
    same(&mut one, "SELECT ROW_COUNT()", "-1")?;
    other.must("SELECT COUNT(*) FROM t")?;
    ensure!(one.rows("SHOW WARNINGS")?.is_empty());
    same(&mut one, "SELECT @@warning_count", "0")?;
    Ok(())
}

/// Also of a session that has run nothing yet.
fn counts_look_as_from_the_server(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let mut direct = Client::connect(&cluster.addresses[0], &login)?;
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    ["t", "u"].iter().try_for_each(|name| direct.must(&format!("CREATE TABLE {name} (a INT)")))?;
    direct = Client::connect(&cluster.addresses[0], &login)?;
    for (run, ask, is_call) in [
        ("", "SELECT ROW_COUNT()", true),
        ("INSERT INTO {} VALUES (1), (2), (3)", "SELECT ROW_COUNT(), row_count( )", true),
        ("SELECT 1 UNION SELECT 2", "SELECT FOUND_ROWS(), ROW_COUNT()", false),
        ("SELECT 1 UNION SELECT 2", "SELECT FOUND_ROWS() AS n", false),
        ("DELETE FROM {}", "SELECT ROW_COUNT() - 5", false),
    ] {
        for (client, table) in [(&mut direct, "t"), (&mut one, "u")] {
            if !run.is_empty() {
                client.must(&run.replace("{}", table))?;
            }
        }
        other.must("SELECT 1 UNION SELECT 2 UNION SELECT 3")?;
        let (ours, theirs) = (one.query(ask)?, direct.query(ask)?);
        let rows = |reply: &e2e::client::Reply| reply.rows(direct.capabilities);
        ensure!(rows(&ours)? == rows(&theirs)?, "{ask}: {:?}", rows(&ours));
        ensure!(!is_call || ours.raw == theirs.raw, "{ask}: {:?}, not {:?}", ours.raw, theirs.raw);
    }
    Ok(())
}

fn the_last_insert_id_is_each_sessions_own(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    one.must("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT)")?;
    one.must("INSERT INTO t (a) VALUES (1)")?;
    let first = value(&mut one, "SELECT LAST_INSERT_ID()")?;
    same(&mut other, "SELECT LAST_INSERT_ID()", "0")?;
    other.must("INSERT INTO t (a) VALUES (2)")?;
    let second = value(&mut other, "SELECT LAST_INSERT_ID()")?;
    ensure!(first != second);
    for _ in 0..2 {
        ensure!(value(&mut one, "SELECT LAST_INSERT_ID()")? == first);
        ensure!(value(&mut other, "SELECT @@identity")? == second);
    }
    other.must("INSERT INTO t (a) VALUES (LAST_INSERT_ID() + 100)")?;
    let expected = second.and_then(|id| id.parse::<u64>().ok()).unwrap_or_default() + 100;
    same(&mut one, "SELECT a FROM t ORDER BY id DESC LIMIT 1", &expected.to_string())
}

fn schemas_are_each_sessions_own(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let mut inside = proxy.connect(&login(cluster, &schema.name))?;
    let mut nowhere = proxy.connect(&cluster.admin())?;
    let mut moved = proxy.connect(&cluster.admin())?;
    moved.must(&format!("USE {}", schema.name))?;
    for _ in 0..3 {
        same(&mut inside, "SELECT DATABASE()", &schema.name)?;
        ensure!(value(&mut nowhere, "SELECT DATABASE()")?.is_none());
        same(&mut moved, "SELECT DATABASE()", &schema.name)?;
    }
    Ok(())
}

fn a_reset_is_of_one_session(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    one.must("SET @a = 1")?;
    other.must("SET @a = 2")?;
    let statement = other.prepare("SELECT 5")?;
    let reset = one.command(CommandCode::RESET_CONNECTION, b"")?;
    ensure!(reset.error().is_none());
    ensure!(value(&mut one, "SELECT @a")?.is_none());
    same(&mut other, "SELECT @a", "2")?;
    ensure!(other.execute(&statement, 0, &[])?.error().is_none());
    ensure!(value(&mut one, "SELECT @a")?.is_none());
    Ok(())
}

fn a_change_of_user_leaves_nothing(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    for _ in 0..3 {
        one.must("SET @a = 1, SESSION group_concat_max_len = 2000")?;
        one.change_user(&login)?;
        ensure!(value(&mut one, "SELECT @a")?.is_none());
        ensure!(value(&mut other, "SELECT @a")?.is_none());
        ensure!(value(&mut one, "SELECT @@group_concat_max_len")?.as_deref() != Some("2000"));
    }
    Ok(())
}

fn a_file_of_the_client(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name).with(wire::Capabilities::LOCAL_FILES);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    one.must("CREATE TABLE t (a INT)")?;
    for turn in 1..=3 {
        let reply = one.upload("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", b"1\n2\n3\n")?;
        ensure!(reply.error().is_none(), "{:?}", reply.error());
        same(&mut other, "SELECT COUNT(*) FROM t", &(3 * turn).to_string())?;
    }
    Ok(())
}

fn a_server_connection_that_is_gone(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    let mut direct = cluster.direct()?;
    for turn in 0..3 {
        one.must(&format!("SET @a = {turn}"))?;
        other.must("SELECT COUNT(*) FROM information_schema.SCHEMATA")?;
        let thread = wait::until("the connection in the process list", || {
            let sql = format!(
                "SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE DB = '{}' \
                 AND COMMAND = 'Sleep'",
                schema.name
            );
            value(&mut direct, &sql)
        })?;
        direct.must(&format!("KILL {thread}"))?;
        wait::until("the end of the thread", || {
            let sql =
                format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {thread}");
            Ok((value(&mut direct, &sql)?.as_deref() == Some("0")).then_some(()))
        })?;
        wait::until("the proxy to know", || {
            let status: serde_json::Value = serde_json::from_str(&proxy.get("/status")?)?;
            let servers = status["servers"].as_array().cloned().unwrap_or_default();
            Ok(servers.iter().all(|server| server["idle"] == 0).then_some(()))
        })?;
        same(&mut one, "SELECT @a", &turn.to_string())?;
        ensure!(value(&mut other, "SELECT @a")?.is_none());
    }
    Ok(())
}

fn ids_are_each_sessions_own(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    for _ in 0..3 {
        for client in [&mut one, &mut other] {
            let id = client.greeting.thread_id.to_string();
            same(client, "SELECT CONNECTION_ID()", &id)?;
        }
    }
    Ok(())
}

fn pipelined_commands_stay_together(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 2)?;
    let mut client: Client = proxy.connect(&login(cluster, &schema.name))?;
    client.must("SELECT 1")?;
    let before = metric(&proxy, "towpath_backend_shared_total{fit=\"own\"}")?;
    let one = client.framed(CommandCode::QUERY, b"SELECT 1");
    client.send(&one.repeat(20))?;
    for _ in 0..20 {
        ensure!(client.receive(CommandCode::QUERY)?.error().is_none());
    }
    let after = metric(&proxy, "towpath_backend_shared_total{fit=\"own\"}")?;
    ensure!(after - before < 20, "each of them went to the pool and came back");
    Ok(())
}
