//! Prepared statements.

use super::{CHAIN, SESSIONS, World, same};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Throwaway, wait};
use wire::Capabilities;

on_both_vendors!(
    h10_as_the_session_reads_it,
    h37_h41_prepared_nowhere,
    h46_the_table_is_gone,
    h47_the_table_has_other_columns,
    h48_a_server_with_too_many,
    the_limits_hold,
    with_eof_packets,
    named_statements,
    a_name_that_stands_for_nothing_any_more,
    ddl_is_seen,
);

/// Prepares on both and compares.
fn both(
    world: &World,
    client: &mut Client,
    text: &str,
) -> Result<(e2e::client::Statement, Client)> {
    let mut direct = Client::connect(&world.primary, &world.login)?;
    let there = direct.prepare(text)?;
    let here = client.prepare(text)?;
    same(text, &there.reply, &here.reply)?;
    Ok((here, direct))
}

fn learn(world: &World, text: &str) -> Result<()> {
    world.learn_as(&world.login, |client| client.prepare(text).map(drop))
}

fn table(cluster: &Cluster, name: &str) -> Result<()> {
    let mut admin = cluster.direct()?;
    admin.must(&format!("CREATE TABLE {name} (a INT, b VARCHAR(20))"))?;
    admin.must(&format!("INSERT INTO {name} VALUES (1, 'one')"))
}

fn h10_as_the_session_reads_it(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    let name = format!("{}.t", schema.name);
    table(cluster, &name)?;
    let text = format!("SELECT \"b\" FROM {name}");
    let quotes = "SET sql_mode='ANSI_QUOTES'";
    world.learn_as(&world.login, |client| {
        client.prepare(&text)?;
        client.must(quotes)?;
        client.prepare(&text)?;
        client.must("SET sql_mode=''")
    })?;
    let given = world.given(&text);
    let mut client = world.connect()?;
    let string = client.prepare(&text)?;
    client.must(quotes)?;
    let column = client.prepare(&text)?;
    client.must("SET sql_mode=''")?;
    ensure!(world.given(&text) == given && string.reply.raw != column.reply.raw);
    for (statement, value) in [(string, "b"), (column, "one")] {
        let rows = client.execute(&statement, 0, &[])?;
        let bytes = rows.raw.windows(value.len() + 1);
        let found = [&[value.len() as u8], value.as_bytes()].concat();
        ensure!(bytes.into_iter().any(|window| window == found), "{value}");
    }
    Ok(())
}

fn h37_h41_prepared_nowhere(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    let text = "SELECT ?, 'prepared', 1.5 AS number";
    learn(&world, text)?;
    let (opened, given) = (world.opened(), world.given(text));
    // H41: never executed, never prepared.
    let mut client = world.connect()?;
    let statement = client.prepare(text)?;
    ensure!(statement.id >= 1 << 31);
    client.close_statement(&statement)?;
    client.must("SET @a=1")?;
    ensure!(world.given(text) == given && world.opened() <= opened + 1);
    // H37: prepared where it is executed.
    let (statement, mut direct) = both(&world, &mut client, text)?;
    let value: &[Option<&[u8]>] = &[Some(b"x")];
    let here = client.execute(&statement, 0, value)?;
    let there = direct.prepare(text)?;
    same(text, &direct.execute(&there, 0, value)?, &here)?;
    ensure!(world.given(text) == given + 1);
    ensure!(world.counted("towpath_prediction_mismatches_total", "")? == 0);
    Ok(())
}

fn h46_the_table_is_gone(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    let name = format!("{}.t", schema.name);
    table(cluster, &name)?;
    let text = format!("SELECT a FROM {name}");
    learn(&world, &text)?;
    cluster.direct()?.must(&format!("DROP TABLE {name}"))?;
    let mut client = world.connect()?;
    let statement = client.prepare(&text)?;
    ensure!(statement.reply.error_code().is_none());
    ensure!(client.execute(&statement, 0, &[])?.error_code() == Some(1146));
    client.must("SELECT 'the connection stays'")?;
    let again = client.prepare(&text)?;
    ensure!(again.reply.error_code() == Some(1146), "it is known to have changed");
    Ok(())
}

fn h47_the_table_has_other_columns(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    let name = format!("{}.t", schema.name);
    table(cluster, &name)?;
    let text = format!("SELECT * FROM {name}");
    learn(&world, &text)?;
    cluster.direct()?.must(&format!("ALTER TABLE {name} ADD c INT"))?;
    let mut client = world.connect()?;
    let statement = client.prepare(&text)?;
    let rows = client.execute(&statement, 0, &[])?;
    ensure!(rows.packets()[0][0] == 3, "the result has its own columns");
    let given = world.given(&text);
    let (_, mut direct) = both(&world, &mut client, &text)?;
    ensure!(world.given(&text) == given, "what a server has said is known from then on");
    direct.must("SELECT 1")
}

fn h48_a_server_with_too_many(cluster: &Cluster) -> Result<()> {
    let server = Throwaway::start(cluster.vendor)?;
    let world = World::start(&server.cluster)?;
    let text = "SELECT 48, ?";
    learn(&world, text)?;
    let mut admin = server.cluster.direct()?;
    admin.must("SET GLOBAL max_prepared_stmt_count = 0")?;
    let mut client = world.connect()?;
    let statement = client.prepare(text)?;
    ensure!(statement.reply.error_code().is_none());
    let executed = client.execute(&statement, 0, &[Some(b"x")])?;
    ensure!(executed.error_code() == Some(1461), "{:?}", executed.error());
    client.must("SELECT 1")?;
    // It is tried again after a while.
    admin.must("SET GLOBAL max_prepared_stmt_count = 100")?;
    wait::until("the statement", || {
        let code = client.execute(&statement, 0, &[Some(b"x")])?.error_code();
        ensure!(code.is_none() || code == Some(1461), "{code:?}");
        Ok(code.is_none().then_some(()))
    })
}

fn the_limits_hold(cluster: &Cluster) -> Result<()> {
    let more = format!("{CHAIN}\n[limits]\nmax_prepared_statements = 3");
    let world = World::start_with(cluster, |setup| setup.append(&more))?;
    learn(&world, "SELECT 3")?;
    let mut client = world.connect()?;
    for _ in 0..3 {
        ensure!(client.prepare("SELECT 3")?.reply.error_code().is_none());
    }
    ensure!(client.prepare("SELECT 3")?.reply.error_code() == Some(1461));
    ensure!(world.predicted()? >= 1);
    Ok(())
}

/// Clients that know EOF packets get them, with the status flags of their session.
fn with_eof_packets(cluster: &Cluster) -> Result<()> {
    let mut world = World::start(cluster)?;
    world.login = world.login.clone().without(Capabilities::DEPRECATE_EOF);
    let text = "SELECT ? AS eof, 2";
    world.learn_as(&world.login, |client| {
        client.prepare(text)?;
        client.must("SET autocommit=0")?;
        client.prepare(text).map(drop)
    })?;
    let before = world.predicted()?;
    let mut client = world.connect()?;
    both(&world, &mut client, text)?;
    client.must("SET autocommit=0")?;
    let mut direct = Client::connect(&world.primary, &world.login)?;
    direct.must("SET autocommit=0")?;
    same(text, &direct.prepare(text)?.reply, &client.prepare(text)?.reply)?;
    ensure!(world.predicted()? == before + 3);
    Ok(())
}

fn named_statements(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    let script = ["PREPARE p FROM 'SELECT 5, 6'", "DEALLOCATE PREPARE p"];
    world.learn(&script)?;
    let before = world.predicted()?;
    world.twins(&script)?.quit()?;
    ensure!(world.predicted()? == before + 2);
    let mut client = world.connect()?;
    world.remembered(&mut client, script[0])?;
    ensure!(client.rows("EXECUTE /* hg=1 */ p")?[0][0].as_deref() == Some("5"));
    // Not from a variable.
    let script = ["SET @q='SELECT 7'", "PREPARE q FROM @q"];
    world.learn(&script)?;
    let mut client = world.connect()?;
    world.remembered(&mut client, script[0])?;
    world.by_server(&mut client, script[1])?;
    Ok(())
}

/// The client was told that its name stands for a statement; the server has refused it.
fn a_name_that_stands_for_nothing_any_more(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    let name = format!("{}.t", schema.name);
    table(cluster, &name)?;
    let prepare = format!("PREPARE p FROM 'SELECT a FROM {name}'");
    world.learn(&[&prepare])?;
    cluster.direct()?.must(&format!("DROP TABLE {name}"))?;
    let mut client = world.connect()?;
    world.remembered(&mut client, &prepare)?;
    let executed = client.query("EXECUTE p")?;
    ensure!(executed.error_code() == Some(1146), "{:?}", executed.error());
    ensure!(executed.error().is_some_and(|error| error.to_string().contains("t'")));
    client.must("SELECT 'the session goes on'")?;
    ensure!(world.counted("towpath_prediction_mismatches_total", "hard")? == 0);
    ensure!(world.counted("towpath_prediction_mismatches_total", "soft")? == 1);
    let by_class = "towpath_prediction_mismatches_by_class_total";
    ensure!(world.counted(by_class, "class=\"environment\"")? == 1);
    ensure!(world.counted(by_class, "")? == 1);
    // From then on it is asked; what it says is nobody's memory.
    let refused = world.by_server(&mut client, &prepare)?;
    ensure!(refused.error_code() == Some(1146));
    ensure!(client.query("EXECUTE p")?.error_code() == Some(1243), "as directly");
    ensure!(client.query("EXECUTE q")?.error_code() == Some(1243));
    Ok(())
}

/// What changes tables through the proxy makes it ask again.
fn ddl_is_seen(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    let name = format!("{}.t", schema.name);
    table(cluster, &name)?;
    let text = format!("SELECT * FROM {name}");
    learn(&world, &text)?;
    let mut client = world.connect()?;
    client.must(&format!("ALTER TABLE {name} ADD c INT"))?;
    for _ in 0..SESSIONS {
        let mut client = world.connect()?;
        let given = world.given(&text);
        both(&world, &mut client, &text)?;
        ensure!(world.given(&text) == given + 1);
    }
    let given = world.given(&text);
    both(&world, &mut client, &text)?;
    ensure!(world.given(&text) == given);
    Ok(())
}
