//! Prepared statements, by COM_STMT_PREPARE and as text.

use super::{Twins, port, replicated, start};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster};
use wire::CommandCode;

on_both_vendors!(
    h10_h32_h33_statements_with_names,
    h34_a_set_inside_a_named_statement,
    h35_h36_a_set_inside_a_statement,
    h37_h38_h42_h43_statements_are_known_everywhere,
    h38_types_are_known_on_another_connection,
    h39_long_data_stays_until_its_execute,
    h40_a_cursor_stays_where_it_is,
    h46_a_statement_that_one_server_refuses,
    a_statement_that_is_unknown_is_named_as_the_server_does,
);

fn h10_h32_h33_statements_with_names(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        "SET sql_mode='ANSI_QUOTES'",
        "PREPARE bin FROM 'SELECT \"user\" FROM mysql.user WHERE user = ''root'' LIMIT 0'",
        "SET sql_mode=''",
        "EXECUTE /* hg=1 */ bin",
        "PREPARE p FROM 'SELECT 1'",
        "EXECUTE /* hg=1 */ p",
        "PREPARE p FROM 'SELECT x FROM mysql.nosuch'",
        "EXECUTE /* hg=1 */ p",
        "EXECUTE p",
        "SET @q='SELECT 5'",
        "PREPARE p FROM @q",
        "SET @q='x'",
        "EXECUTE /* hg=1 */ p",
        "DEALLOCATE PREPARE p",
        "EXECUTE /* hg=1 */ p",
    ])
}

fn h34_a_set_inside_a_named_statement(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        "PREPARE p FROM 'SET @z=1'",
        "EXECUTE p",
        "SELECT /* hg=1 */ @z",
        "PREPARE q FROM 'SET @y=?'",
        "SET @v = 7",
        "EXECUTE q USING @v",
        "SELECT /* hg=1 */ @y",
    ])
}

/// The same on both; the first statement's reply says how many parameters there are.
fn execute(twins: &mut Twins, text: &str, parameters: &[Option<&[u8]>]) -> Result<()> {
    let [direct, proxied] = [&mut twins.direct, &mut twins.proxied].map(|client| {
        let statement = client.prepare(text)?;
        let executed = client.execute(&statement, 0, parameters)?;
        anyhow::Ok((statement.reply.raw, executed.raw))
    });
    ensure!(direct? == proxied?, "{text}");
    Ok(())
}

fn h35_h36_a_set_inside_a_statement(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    execute(&mut twins, "SET @a = 3", &[])?;
    twins.same(&["SELECT /* hg=1 */ @a"])?;
    execute(&mut twins, "SET autocommit = 0", &[])?;
    twins.same(&["SELECT /* hg=1 */ @@autocommit", "SELECT @@autocommit"])?;
    execute(&mut twins, "SET @pp = ?", &[Some(b"42")])?;
    twins.same(&["SELECT /* hg=1 */ @pp", "SELECT @pp"])
}

fn h37_h38_h42_h43_statements_are_known_everywhere(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let here = port(&mut client, "")?;
    let there = port(&mut client, "/* hg=1 */")?;
    // Statements go where their text says; a number of them first, so that ids differ.
    let first = client.prepare("SELECT @@port, ?")?;
    let mut same = Vec::new();
    for _ in 0..4 {
        same.push(client.prepare("SELECT /* hg=1 */ @@port, ?")?);
    }
    ensure!(first.id >= 1 << 31 && same.iter().all(|other| other.id > first.id));
    client.close_statement(&same.remove(1))?;
    let asked = |client: &mut Client, statement: &e2e::client::Statement, wanted: &str| {
        let typed = client.execute(statement, 0, &[Some(b"x")])?;
        ensure!(typed.error().is_none(), "{:?}", typed.error().map(|error| error.to_string()));
        ensure!(shows(&typed.raw, b"x"), "{wanted}");
        // Without types: they are the ones sent before.
        let mut body = statement.id.to_le_bytes().to_vec();
        body.extend([0, 1, 0, 0, 0, 0, 0, 1, b'y']);
        let reply = client.command(CommandCode::STMT_EXECUTE, &body)?;
        ensure!(reply.error().is_none(), "{:?}", reply.error().map(|error| error.to_string()));
        ensure!(shows(&reply.raw, b"y"));
        Ok(())
    };
    asked(&mut client, &first, &here)?;
    for statement in &same {
        asked(&mut client, statement, &there)?;
    }
    client.close_statement(&first)?;
    let gone = client.execute(&first, 0, &[Some(b"x")])?;
    ensure!(gone.error_code() == Some(1243));
    for statement in &same {
        asked(&mut client, statement, &there)?;
    }
    client.quit()
}

/// EXECUTE goes to the primary, and within a transaction of a replica's there.
fn h38_types_are_known_on_another_connection(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    let mut statements = Vec::new();
    for client in [&mut twins.direct, &mut twins.proxied] {
        let statement = client.prepare("SELECT CONCAT(?, 'x')")?;
        ensure!(client.execute(&statement, 0, &[Some(b"typed")])?.error().is_none());
        statements.push(statement);
    }
    let here = port(&mut twins.proxied, "")?;
    twins.same(&["START TRANSACTION /* hg=1 */ READ ONLY"])?;
    ensure!(port(&mut twins.proxied, "")? != here, "the transaction is on the replica");
    let mut replies = Vec::new();
    for (client, statement) in [&mut twins.direct, &mut twins.proxied].into_iter().zip(&statements)
    {
        let mut body = statement.id.to_le_bytes().to_vec();
        body.extend([0, 1, 0, 0, 0, 0, 0, 1, b'y']);
        let reply = client.command(CommandCode::STMT_EXECUTE, &body)?;
        // MySQL and MariaDB alike: what it was in the last EXECUTE.
        ensure!(reply.error().is_none(), "{:?}", reply.error());
        replies.push(reply.raw);
    }
    ensure!(shows(&replies[1], b"yx") && replies[0] == replies[1], "{replies:?}");
    twins.same(&["COMMIT"])
}

fn shows(raw: &[u8], value: &[u8]) -> bool {
    raw.windows(value.len()).any(|window| window == value)
}

fn h39_long_data_stays_until_its_execute(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    let [direct, proxied] = [&mut twins.direct, &mut twins.proxied].map(|client| {
        let statement = client.prepare("SELECT /* hg=1 */ LENGTH(?)")?;
        client.long_data(&statement, 0, b"abc")?;
        let between = client.query("SELECT 1")?;
        client.long_data(&statement, 0, b"def")?;
        let executed = client.execute_with_long_data(&statement)?;
        anyhow::Ok((between.raw, executed.raw))
    });
    ensure!(direct? == proxied?);
    Ok(())
}

fn h40_a_cursor_stays_where_it_is(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    let text = "SELECT /* hg=1 */ seq FROM (SELECT 1 AS seq UNION SELECT 2 UNION SELECT 3) AS s";
    let [direct, proxied] = [&mut twins.direct, &mut twins.proxied].map(|client| {
        let statement = client.prepare(text)?;
        let mut replies = vec![client.execute(&statement, 1, &[])?.raw];
        replies.push(client.query("SET NAMES latin1")?.raw);
        for rows in [1, 1, 5] {
            replies.push(client.fetch(&statement, rows)?.raw);
        }
        replies.push(client.statement_command(CommandCode::STMT_RESET, &statement)?.raw);
        replies.push(client.fetch(&statement, 1)?.raw.split_off(4 + 9));
        anyhow::Ok(replies)
    });
    let (direct, proxied) = (direct?, proxied?);
    // The last is an error that names the statement's id.
    let last = direct.len() - 1;
    ensure!(direct[..last] == proxied[..last], "{direct:?}\n{proxied:?}");
    Ok(())
}

fn h46_a_statement_that_one_server_refuses(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = format!("{}.t", schema.name);
    let mut admin = cluster.direct()?;
    admin.must(&format!("CREATE TABLE {table} (a INT)"))?;
    replicated(cluster, &table, 0)?;
    // On the primary alone.
    let only = format!("{}.here", schema.name);
    admin.must("SET sql_log_bin = 0")?;
    admin.must(&format!("CREATE TABLE {only} (a INT)"))?;
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let statement = client.prepare(&format!("SELECT a FROM {only}"))?;
    ensure!(statement.reply.error().is_none());
    ensure!(client.execute(&statement, 0, &[])?.error().is_none());
    // The replica lacks the table: nothing but this statement suffers.
    ensure!(client.rows("SELECT /* hg=1 */ 1")? == [[Some("1".to_owned())]]);
    ensure!(client.execute(&statement, 0, &[])?.error().is_none());
    let refused = client.prepare(&format!("SELECT /* hg=1 */ a FROM {only}"))?;
    ensure!(refused.reply.error_code() == Some(1146));
    client.quit()?;
    admin.must(&format!("DROP TABLE {only}"))
}

/// No server is asked, and the client cannot tell.
fn a_statement_that_is_unknown_is_named_as_the_server_does(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&["SELECT 1"])?;
    let id = 77_u32.to_le_bytes();
    for (code, rest) in [
        (CommandCode::STMT_EXECUTE, &[0, 1, 0, 0, 0][..]),
        (CommandCode::STMT_FETCH, &[1, 0, 0, 0][..]),
        (CommandCode::STMT_RESET, &[][..]),
    ] {
        let body = [&id[..], rest].concat();
        let [direct, proxied] =
            [&mut twins.direct, &mut twins.proxied].map(|client| client.command(code, &body));
        let (direct, proxied) = (direct?, proxied?);
        let shown = |reply: &e2e::client::Reply| reply.raw.escape_ascii().to_string();
        ensure!(direct.error_code() == Some(1243), "{}: {}", code.name(), shown(&direct));
        ensure!(direct.raw == proxied.raw, "{} {}", shown(&direct), shown(&proxied));
    }
    Ok(())
}
