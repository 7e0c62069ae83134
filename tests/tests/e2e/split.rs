//! Read-write splitting in front of a primary (`@@server_id` 1) and two read-only replicas (2, 3).

mod asked;
mod causal;
mod lag;
mod order;
mod shares;
mod state;
mod texts;
mod types;

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, wait};
use std::collections::BTreeSet;

/// A chain with more settings of `route`.
fn chain(settings: &str) -> String {
    format!(
        "[chain.main]
session = [
  {{ use = 'parse' }},
  {{ use = 'session-commands' }},
  {{ use = 'route', policy = 'read-write-split', primary = 0, {settings} }},
]
backend = [{{ use = 'catch-up' }}]"
    )
}

fn start(cluster: &Cluster, settings: &str) -> Result<Proxy> {
    Setup::of(cluster).append(&chain(&format!("replicas = 1{settings}"))).start()
}

/// The first value of a statement's first row.
fn value(client: &mut Client, text: &str) -> Result<String> {
    let rows = client.rows(text)?;
    rows.first().and_then(|row| row.first()).cloned().flatten().with_context(|| text.to_owned())
}

/// The servers that ten of these reach.
fn servers(client: &mut Client, text: &str) -> Result<BTreeSet<String>> {
    (0..10).map(|_| value(client, text)).collect()
}

fn on_the_primary(client: &mut Client, text: &str) -> Result<()> {
    let found = servers(client, text)?;
    ensure!(found.iter().eq(["1"]), "{text}: {found:?}");
    Ok(())
}

fn on_both_replicas(client: &mut Client, text: &str) -> Result<()> {
    let found = servers(client, text)?;
    ensure!(found.iter().eq(["2", "3"]), "{text}: {found:?}");
    Ok(())
}

fn on_one_replica(client: &mut Client, text: &str) -> Result<()> {
    let found = servers(client, text)?;
    ensure!(found.iter().eq(["2"]) || found.iter().eq(["3"]), "{text}: {found:?}");
    Ok(())
}

/// A table that all servers have.
fn table(cluster: &Cluster, schema: &str) -> Result<String> {
    let name = format!("{schema}.t");
    let mut admin = cluster.direct()?;
    admin.must(&format!("CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, at INT)"))?;
    for address in &cluster.addresses[1..] {
        let mut client = Client::connect(address, &cluster.admin())?;
        wait::until("replication", || {
            let reply = client.query(&format!("SELECT * FROM {name}"))?;
            Ok(reply.error().is_none().then_some(()))
        })?;
        client.quit()?;
    }
    Ok(name)
}

on_both_vendors!(
    statements_go_where_they_can_run,
    transactions_are_on_one_server,
    what_is_on_one_connection_stays_there,
    what_is_set_holds_everywhere,
    prepared_statements_go_by_what_they_are,
    a_cluster_says_which_the_primary_is,
);

const READ: &str = "SELECT @@server_id";

fn statements_go_where_they_can_run(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let proxy = start(cluster, "")?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    on_both_replicas(&mut client, READ)?;
    on_both_replicas(&mut client, "WITH a AS (SELECT 1) SELECT @@server_id FROM a")?;
    on_both_replicas(&mut client, "(SELECT @@server_id) /* FOR UPDATE */")?;
    on_the_primary(&mut client, "SELECT @@server_id FROM DUAL FOR UPDATE")?;
    on_the_primary(&mut client, "SELECT @@server_id FROM DUAL LOCK IN SHARE MODE")?;
    on_the_primary(&mut client, "SELECT @@server_id /*! FOR UPDATE */")?;
    on_the_primary(&mut client, "SELECT @@server_id, IS_FREE_LOCK('split')")?;
    for text in ["INSERT INTO t (at) VALUES (@@server_id)", "INSERT INTO t (at) SELECT @@server_id"]
    {
        client.must(text)?;
        let mut direct = cluster.direct()?;
        let last = format!("SELECT at FROM {table} ORDER BY id DESC LIMIT 1");
        ensure!(value(&mut direct, &last)? == "1", "{text}");
    }
    let id = value(&mut client, "SELECT LAST_INSERT_ID()")?;
    ensure!(id != "0");
    on_the_primary(&mut client, "SELECT @@server_id, LAST_INSERT_ID()")?;
    on_both_replicas(&mut client, READ)?;
    ensure!(value(&mut client, "SELECT LAST_INSERT_ID()")? == id);
    client.quit()
}

fn transactions_are_on_one_server(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let proxy = start(cluster, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("BEGIN")?;
    on_the_primary(&mut client, READ)?;
    client.must("COMMIT")?;
    on_both_replicas(&mut client, READ)?;
    let insert = format!("INSERT INTO {table} (at) VALUES (@@server_id)");
    client.must("START TRANSACTION READ ONLY")?;
    on_one_replica(&mut client, READ)?;
    let refused = client.query(&insert)?;
    ensure!(refused.error().is_some(), "a transaction that only reads has written");
    // another one that may write ends it, and is where it can
    client.must("START TRANSACTION READ WRITE")?;
    on_the_primary(&mut client, READ)?;
    client.must(&insert)?;
    client.must("COMMIT")?;
    let count = value(&mut cluster.direct()?, &format!("SELECT COUNT(*) FROM {table}"))?;
    wait::until("both replicas to show it, outside the old transaction", || {
        let text = format!("SELECT IF(COUNT(*) = {count}, @@server_id, 0) FROM {table}");
        Ok(servers(&mut client, &text)?.iter().eq(["2", "3"]).then_some(()))
    })?;
    client.must("SET SESSION TRANSACTION READ ONLY")?;
    client.must("BEGIN")?;
    on_one_replica(&mut client, READ)?;
    client.must("COMMIT")?;
    client.must("SET SESSION TRANSACTION READ WRITE")?;
    client.must("BEGIN")?;
    on_the_primary(&mut client, READ)?;
    client.must("ROLLBACK")?;
    client.must("SET TRANSACTION READ ONLY")?;
    client.must("BEGIN")?;
    on_the_primary(&mut client, READ)?;
    client.must("COMMIT")?;
    on_both_replicas(&mut client, READ)?;
    client.must("SET autocommit = 0")?;
    on_the_primary(&mut client, READ)?;
    client.must(&insert)?;
    client.must("COMMIT")?;
    on_the_primary(&mut client, READ)?;
    client.must("SET autocommit = 1")?;
    on_both_replicas(&mut client, READ)?;
    client.quit()
}

fn what_is_on_one_connection_stays_there(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must(&format!("CREATE TEMPORARY TABLE {}.tmp (a INT)", schema.name))?;
    on_the_primary(&mut client, READ)?;
    let temporary = format!("SELECT COUNT(*) FROM {}.tmp", schema.name);
    ensure!(value(&mut client, &temporary)? == "0");
    client.must(&format!("DROP TEMPORARY TABLE {}.tmp", schema.name))?;
    on_both_replicas(&mut client, READ)?;
    let lock = format!("split_{}", std::process::id());
    ensure!(value(&mut client, &format!("SELECT GET_LOCK('{lock}', 0)"))? == "1");
    on_the_primary(&mut client, READ)?;
    client.must("DO RELEASE_ALL_LOCKS()")?;
    on_both_replicas(&mut client, READ)?;
    // What the last statement has left is where it ran.
    for _ in 0..4 {
        let rows = client.rows("SELECT SQL_CALC_FOUND_ROWS @@server_id UNION SELECT 7 LIMIT 1")?;
        let there = rows[0][0].clone();
        let found = client.rows("SELECT FOUND_ROWS(), @@server_id")?;
        ensure!(found == [[Some("2".to_owned()), there]], "{found:?}");
        client.must("SELECT CAST('zz' AS SIGNED)")?;
        ensure!(client.rows("SHOW WARNINGS")?.len() == 1);
    }
    // A cursor is on the primary, so that what comes next is.
    let cursor = client.prepare("SELECT @@server_id UNION SELECT 7")?;
    client.execute(&cursor, 1, &[])?;
    on_the_primary(&mut client, READ)?;
    client.fetch(&cursor, 10)?;
    on_both_replicas(&mut client, READ)?;
    client.quit()
}

fn what_is_set_holds_everywhere(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    table(cluster, &schema.name)?;
    let proxy = start(cluster, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must(&format!("USE {}", schema.name))?;
    client.must("SET @a = 5, SESSION max_sort_length = 777")?;
    on_both_replicas(&mut client, "SELECT @@server_id FROM DUAL WHERE @a = 5")?;
    on_both_replicas(&mut client, "SELECT @@server_id FROM DUAL WHERE @@max_sort_length = 777")?;
    let schemas: BTreeSet<_> =
        (0..6).map(|_| value(&mut client, "SELECT DATABASE()")).collect::<Result<_>>()?;
    ensure!(schemas.iter().eq([&schema.name]), "{schemas:?}");
    client.must("INSERT INTO t (at) VALUES (@a)")?;
    // What is evaluated once is where that was, which is where it can be written.
    client.must("SET @now = UUID()")?;
    on_the_primary(&mut client, "SELECT @@server_id, @now")?;
    client.must("INSERT INTO t (at) SELECT LENGTH(@now)")?;
    on_both_replicas(&mut client, READ)?;
    client.quit()
}

fn prepared_statements_go_by_what_they_are(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let proxy = start(cluster, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    let read = client.prepare("SELECT CAST(@@server_id AS CHAR) FROM DUAL WHERE 1 = ?")?;
    let write = client.prepare(&format!("INSERT INTO {table} (at) SELECT @@server_id + ?"))?;
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        let reply = client.execute(&read, 0, &[Some(b"1")])?;
        ensure!(reply.error().is_none());
        // The row: a header byte, no NULLs, and a string of one digit.
        let is_row = |id: &u8| reply.raw.windows(4).any(|bytes| bytes == [0, 0, 1, *id]);
        seen.extend(b"123".iter().copied().filter(is_row));
        let reply = client.execute(&write, 0, &[Some(b"0")])?;
        ensure!(reply.error().is_none());
    }
    let mut direct = cluster.direct()?;
    ensure!(value(&mut direct, &format!("SELECT GROUP_CONCAT(DISTINCT at) FROM {table}"))? == "1");
    ensure!(seen.iter().eq(b"23"), "{seen:?}");
    client.must("PREPARE r FROM 'SELECT @@server_id'")?;
    client.must("PREPARE w FROM 'SELECT @@server_id FROM DUAL FOR UPDATE'")?;
    on_both_replicas(&mut client, "EXECUTE r")?;
    on_the_primary(&mut client, "EXECUTE w")?;
    on_both_replicas(&mut client, READ)?;
    client.quit()
}

/// All servers stand in the primary's hostgroup of the file: the monitor finds out what they are.
fn a_cluster_says_which_the_primary_is(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let filters = chain("replicas = 1").replace(", primary = 0, replicas = 1", "");
    let mut more = String::from(
        "[[cluster]]\nname = 'main'\nwriter = 7\nreader = 8\nwriter_is_also_reader = false\n\
         [monitor]\nuser = 'monitor'\npassword = 'monitorpw'\nread_only_interval = '100ms'\n",
    );
    for address in &cluster.addresses {
        more += &format!("[[server]]\nhostgroup = 7\naddress = {address:?}\n");
    }
    let filters = filters.replace("'read-write-split'", "'read-write-split', cluster = 'main'");
    let proxy = Setup::of(cluster).append(&more).append(&filters).start()?;
    let mut client = wait::until("the roles", || {
        let mut client = proxy.connect(&cluster.admin())?;
        let found = servers(&mut client, READ).unwrap_or_default();
        Ok(found.iter().eq(["2", "3"]).then_some(client))
    })?;
    client.must(&format!("INSERT INTO {table} (at) VALUES (@@server_id)"))?;
    on_the_primary(&mut client, "SELECT @@server_id FROM DUAL FOR UPDATE")?;
    on_both_replicas(&mut client, READ)?;
    client.quit()
}
