//! State that only one connection has.

use super::{Twins, port, replicated, start, value};
use anyhow::{Result, ensure};
use e2e::Cluster;
use wire::CommandCode;

on_both_vendors!(
    h18_h19_h21_a_setting_for_the_next_transaction,
    h25_h27_h30_what_is_evaluated_once,
    h29_seeds,
    h45_temporary_tables,
    h60_to_h63_what_the_last_statement_left,
    h70_locks_go_with_a_reset,
    h80_locked_tables,
    handlers,
);

fn h18_h19_h21_a_setting_for_the_next_transaction(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut admin = cluster.direct()?;
    let table = format!("{}.t", schema.name);
    admin.must(&format!("CREATE TABLE {table} (a INT)"))?;
    replicated(cluster, &table, 0)?;
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    let read = format!("SELECT /* hg=1 */ COUNT(*) FROM {table}");
    let insert = format!("INSERT INTO {table} VALUES (1)");
    twins.same(&[
        "SET TRANSACTION READ ONLY",
        "SET @x=1",
        "SELECT /* hg=1 */ 1",
        &insert,
        "COMMIT",
        "SET TRANSACTION READ ONLY",
        &read,
        &insert,
        "SET @@transaction_isolation = 'SERIALIZABLE'",
        "START TRANSACTION",
        "COMMIT",
    ])?;
    // Consumed: the session goes where it is sent again.
    ensure!(port(&mut twins.proxied, "")? != port(&mut twins.proxied, "/* hg=1 */")?);
    Ok(())
}

fn h25_h27_h30_what_is_evaluated_once(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut admin = cluster.direct()?;
    let table = format!("{}.t", schema.name);
    admin.must(&format!("CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY)"))?;
    replicated(cluster, &table, 0)?;
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must(&format!("INSERT INTO {table} VALUES (NULL)"))?;
    client.must("SELECT /* hg=1 */ 1")?;
    ensure!(value(&mut client, "SELECT /* hg=1 */ LAST_INSERT_ID()")? == "1");
    client.must("SET /* hg=1 */ @id=LAST_INSERT_ID()")?;
    ensure!(value(&mut client, "SELECT /* hg=1 */ @id")? == "1");
    client.must("SET @t=NOW(6), @u=UUID()")?;
    let first = client.rows("SELECT @t, @u")?;
    ensure!(first == client.rows("SELECT /* hg=1 */ @t, @u")?);
    client.must("SELECT 5 INTO @a")?;
    ensure!(value(&mut client, "SELECT /* hg=1 */ @a")? == "5");
    client.must("SELECT @a:=6")?;
    ensure!(value(&mut client, "SELECT /* hg=1 */ @a")? == "6");
    client.must(&format!("INSERT INTO {table} VALUES (@v:=10)"))?;
    ensure!(value(&mut client, "SELECT /* hg=1 */ @v")? == "10");
    // What does not need that connection goes where it is sent.
    ensure!(port(&mut client, "")? != port(&mut client, "/* hg=1 */")?);
    // A plain value is everywhere again.
    client.must("SET @id=2, @t=1, @u=1, @a=1, @v=1")?;
    let there = client.rows("SELECT /* hg=1 */ @@port, @id")?;
    ensure!(there[0][0].as_deref() != Some(&port(&mut client, "")?), "{there:?}");
    ensure!(there[0][1].as_deref() == Some("2"));
    client.quit()
}

fn h29_seeds(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        "SET rand_seed1=1,rand_seed2=2",
        "SELECT RAND()",
        "SELECT /* hg=1 */ RAND()",
        "SELECT RAND()",
    ])
}

fn h45_temporary_tables(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        &format!("USE {}", schema.name),
        "CREATE TEMPORARY TABLE tmp (a INT)",
        "INSERT INTO tmp VALUES (1)",
        "SELECT /* hg=1 */ a FROM tmp",
        "SELECT /* hg=1 */ a FROM tmp",
    ])?;
    let [direct, proxied] = [&mut twins.direct, &mut twins.proxied].map(|client| {
        let statement = client.prepare("SELECT /* hg=1 */ a FROM tmp")?;
        anyhow::Ok(client.execute(&statement, 0, &[])?)
    });
    let (direct, proxied) = (direct?, proxied?);
    ensure!(proxied.error().is_none() && direct.raw == proxied.raw, "{:?}", proxied.error());
    twins.same(&[
        "CREATE TEMPORARY TABLE IF NOT EXISTS other SELECT 2 AS b",
        "DROP TEMPORARY TABLE tmp",
        "SELECT /* hg=1 */ b FROM other",
        &format!("DROP TABLE {}.other", schema.name),
    ])?;
    ensure!(port(&mut twins.proxied, "")? != port(&mut twins.proxied, "/* hg=1 */")?);
    Ok(())
}

fn h60_to_h63_what_the_last_statement_left(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut admin = cluster.direct()?;
    let table = format!("{}.t", schema.name);
    admin.must(&format!("CREATE TABLE {table} (a INT)"))?;
    replicated(cluster, &table, 0)?;
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        "SELECT /* hg=1 */ CAST('zz' AS SIGNED)",
        "SHOW WARNINGS",
        "SELECT /* hg=1 */ CAST('zz' AS SIGNED)",
        "SET /* hg=1 */ @a=1",
        "SHOW WARNINGS",
        "SELECT SQL_CALC_FOUND_ROWS /* hg=1 */ 1 UNION SELECT 2 LIMIT 1",
        "SELECT FOUND_ROWS()",
        "SELECT SQL_CALC_FOUND_ROWS /* hg=1 */ 1 UNION SELECT 2 LIMIT 1",
        "SET @r=1",
        "SELECT FOUND_ROWS()",
    ])?;
    let insert = format!("INSERT INTO {table} VALUES (1),(2)");
    twins.same(&[&insert, "SELECT /* hg=1 */ ROW_COUNT()"])?;
    // Without the SET there it would still be 2.
    twins.same(&[&insert, "SET /* hg=1 */ @r=1", "SELECT ROW_COUNT()"])
}

fn h70_locks_go_with_a_reset(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let name = format!("state_{}", std::process::id());
    let mut other = cluster.direct()?;
    let free = format!("SELECT IS_FREE_LOCK('{name}')");
    client.must("SELECT /* hg=1 */ 1")?;
    client.must(&format!("SELECT GET_LOCK('{name}', 0)"))?;
    ensure!(value(&mut client, "SELECT /* hg=1 */ @@port")? == port(&mut client, "")?);
    ensure!(value(&mut other, &free)? == "0");
    let reset = client.command(CommandCode::RESET_CONNECTION, b"")?;
    ensure!(reset.error().is_none());
    ensure!(value(&mut other, &free)? == "1");
    ensure!(port(&mut client, "")? != port(&mut client, "/* hg=1 */")?);
    client.must(&format!("DO GET_LOCK('{name}', 0)"))?;
    ensure!(port(&mut client, "")? == port(&mut client, "/* hg=1 */")?);
    client.must("DO RELEASE_ALL_LOCKS()")?;
    ensure!(port(&mut client, "")? != port(&mut client, "/* hg=1 */")?);
    client.quit()
}

fn h80_locked_tables(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut admin = cluster.direct()?;
    let table = format!("{}.t", schema.name);
    admin.must(&format!("CREATE TABLE {table} (a INT)"))?;
    admin.must(&format!("CREATE TABLE {table}2 (a INT)"))?;
    replicated(cluster, &format!("{table}2"), 0)?;
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        &format!("LOCK TABLES {table} READ"),
        "SET @a=1",
        &format!("SELECT /* hg=1 */ @a, COUNT(*) FROM {table}"),
        &format!("SELECT /* hg=1 */ COUNT(*) FROM {table}2"),
        "UNLOCK TABLES",
        "SELECT /* hg=1 */ @a",
    ])?;
    ensure!(port(&mut twins.proxied, "")? != port(&mut twins.proxied, "/* hg=1 */")?);
    Ok(())
}

fn handlers(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut admin = cluster.direct()?;
    let table = format!("{}.t", schema.name);
    admin.must(&format!("CREATE TABLE {table} (a INT PRIMARY KEY)"))?;
    replicated(cluster, &table, 0)?;
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        &format!("HANDLER {table} OPEN AS h"),
        "HANDLER /* hg=1 */ h READ FIRST",
        "HANDLER h CLOSE",
        "SELECT /* hg=1 */ 1",
    ])?;
    ensure!(port(&mut twins.proxied, "")? != port(&mut twins.proxied, "/* hg=1 */")?);
    Ok(())
}
