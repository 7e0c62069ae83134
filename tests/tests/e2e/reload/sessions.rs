//! Chains and rules under sessions that are there.

use super::server;
use crate::state::replicated;
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Schema, Setup};
use wire::CommandCode;

on_both_vendors!(
    rules_change_under_a_session,
    a_transaction_keeps_its_rules,
    hits_of_rules_that_stay_go_on,
    a_session_moves_to_another_chain,
    a_session_takes_along_what_it_has_set,
    other_filters_around_connections,
    a_session_without_a_log_moves_with_its_connection,
    a_session_stays_on_its_servers,
    a_session_does_not_move_to_who_should_have_seen_it,
    modes_of_session_commands_come_and_go,
);

const RULES: &str = "[chain.main]\nsession = [\n{ use = \"parse\" },\n{ use = \"rules\", rules = [\n\
    { rule_id = 1, match_digest = \"AS one\", destination_hostgroup = 1, apply = true },\n\
    # more\n] },\n{ use = \"session-commands\" },\n{ use = \"route\" },\n]\n\
    backend = [{ use = \"catch-up\" }]\n";

const SECOND: &str =
    "{ rule_id = 2, match_digest = \"AS two\", destination_hostgroup = 1, apply = true },\n";

fn start(cluster: &Cluster) -> Result<Proxy> {
    Setup::of(cluster).append(RULES).start()
}

/// Whether a replica runs it.
fn on_a_replica(client: &mut Client, name: &str) -> Result<bool> {
    Ok(server(client, &format!("SELECT @@server_id AS {name}"))? != "1")
}

fn rules_change_under_a_session(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut early = proxy.connect(&cluster.admin())?;
    early.must("SET NAMES utf8mb4, @early = 7")?;
    let prepared = early.prepare("SELECT @@server_id AS two, ?")?;
    ensure!(on_a_replica(&mut early, "one")? && !on_a_replica(&mut early, "two")?);
    proxy.edit(|text| text.replace("# more\n", SECOND))?;
    let body = proxy.reload()?;
    ensure!(body.contains("\"chains_adapted\":1"), "{body}");
    ensure!(on_a_replica(&mut early, "one")? && on_a_replica(&mut early, "two")?);
    early.execute(&prepared, 0, &[Some(b"a")])?;
    let mut late = proxy.connect(&cluster.admin())?;
    ensure!(on_a_replica(&mut late, "two")?);
    proxy.edit(|text| text.replace(SECOND, ""))?;
    proxy.reload()?;
    for client in [&mut early, &mut late] {
        ensure!(on_a_replica(client, "one")? && !on_a_replica(client, "two")?);
    }
    ensure!(server(&mut early, "SELECT @early")? == "7", "nothing is lost");
    early.quit()?;
    late.quit()
}

fn a_transaction_keeps_its_rules(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("BEGIN")?;
    client.must("SELECT 1 FROM mysql.user LIMIT 1")?;
    let refuse = "{ rule_id = 3, match_digest = \"AS two\", error_msg = \"no\", apply = true },\n";
    proxy.edit(|text| text.replace("# more\n", refuse))?;
    proxy.reload()?;
    ensure!(!on_a_replica(&mut client, "two")?, "it began before");
    client.must("COMMIT")?;
    ensure!(client.query("SELECT @@server_id AS two")?.error_code() == Some(1148));
    client.quit()
}

fn hits_of_rules_that_stay_go_on(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let hits = |proxy: &Proxy, id: u32| -> Result<Option<String>> {
        let label = format!("towpath_rule_hits_total{{chain=\"main\",rule_id=\"{id}\"}} ");
        let metrics = proxy.get("/metrics")?;
        Ok(metrics.lines().find_map(|line| line.strip_prefix(&label).map(str::to_owned)))
    };
    for _ in 0..3 {
        on_a_replica(&mut client, "one")?;
    }
    proxy.edit(|text| text.replace("# more\n", SECOND))?;
    proxy.reload()?;
    on_a_replica(&mut client, "one")?;
    on_a_replica(&mut client, "two")?;
    ensure!(hits(&proxy, 1)?.as_deref() == Some("4") && hits(&proxy, 2)?.as_deref() == Some("1"));
    proxy.edit(|text| text.replace("AS two", "AS 2two"))?;
    proxy.reload()?;
    ensure!(hits(&proxy, 1)?.as_deref() == Some("4") && hits(&proxy, 2)?.as_deref() == Some("0"));
    // Also where the chain becomes another one.
    proxy.edit(|text| {
        text.replace("{ use = \"route\" }", "{ use = \"sticky\" }, { use = \"route\" }")
    })?;
    proxy.reload()?;
    ensure!(hits(&proxy, 1)?.as_deref() == Some("4"));
    client.quit()
}

/// Makes another chain of it: one that takes hints.
fn change_chain(proxy: &Proxy) -> Result<()> {
    becomes(proxy, "{ use = \"route\" }", "{ use = \"hints\" },\n{ use = \"route\" }")
}

/// Puts something else into the place of a piece of the file, which makes another chain of it.
fn becomes(proxy: &Proxy, piece: &str, other: &str) -> Result<()> {
    proxy.edit(|text| text.replace(piece, other))?;
    let body = proxy.reload()?;
    ensure!(body.contains("\"chains\":{\"added\":0,\"changed\":1"), "{body}");
    Ok(())
}

/// A replica answers where hints are taken.
const HINTED: &str = "/* hostgroup=1 */ SELECT @@server_id";

fn a_session_moves_to_another_chain(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut bare = proxy.connect(&cluster.admin().schema("mysql"))?;
    let mut resets = proxy.connect(&cluster.admin())?;
    let mut changes = proxy.connect(&cluster.admin())?;
    let mut goes_on = proxy.connect(&cluster.admin())?;
    for client in [&mut resets, &mut changes, &mut goes_on] {
        client.must("SET @a = 1")?;
        ensure!(server(client, HINTED)? == "1", "nobody reads hints yet");
    }
    change_chain(&proxy)?;
    ensure!(server(&mut bare, HINTED)? != "1", "it had run nothing");
    ensure!(server(&mut bare, "SELECT DATABASE()")? == "mysql");
    resets.command(CommandCode::RESET_CONNECTION, b"")?;
    changes.change_user(&cluster.admin())?;
    for client in [&mut resets, &mut changes, &mut goes_on] {
        ensure!(server(client, HINTED)? != "1", "it is in the new chain");
    }
    ensure!(server(&mut goes_on, "SELECT @a")? == "1");
    Ok(())
}

/// Everything that a session can have, seen again in the new chain.
fn a_session_takes_along_what_it_has_set(cluster: &Cluster) -> Result<()> {
    takes_along(cluster, RULES)?;
    // Its connections may be others each time.
    takes_along(cluster, &RULES.replace("[chain.main]\n", "[chain.main]\nmultiplex = true\n"))
}

/// A schema with a table `t` that all servers have.
fn with_table(cluster: &Cluster) -> Result<Schema> {
    let schema = cluster.schema()?;
    let table = format!("{}.t", schema.name);
    cluster.direct()?.must(&format!("CREATE TABLE {table} (a INT) ENGINE = InnoDB"))?;
    replicated(cluster, &table, 0)?;
    Ok(schema)
}

fn takes_along(cluster: &Cluster, chain: &str) -> Result<()> {
    let schema = with_table(cluster)?;
    let proxy = Setup::of(cluster).append(chain).start()?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("SET @a = 7, sql_mode = 'ANSI_QUOTES', time_zone = '+03:00'")?;
    client.must("PREPARE named FROM 'SELECT ? + 2'")?;
    client.must("SET @now = NOW(6)")?;
    client.must("CREATE TEMPORARY TABLE own (a INT)")?;
    let now = server(&mut client, "SELECT @now")?;
    let prepared = client.prepare("SELECT ? + 1, @@time_zone")?;
    client.execute(&prepared, 0, &[Some(b"1")])?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t VALUES (1)")?;
    change_chain(&proxy)?;
    client.must("INSERT INTO t VALUES (2)")?;
    client.must("COMMIT")?;
    client.must("INSERT INTO own SELECT a FROM t")?;
    ensure!(server(&mut client, "SELECT COUNT(*) FROM own")? == "2");
    ensure!(server(&mut client, "SELECT @now")? == now);
    client.must("DROP TEMPORARY TABLE own")?;
    client.must("SET @now = 1")?;
    ensure!(server(&mut client, HINTED)? != "1", "it is in the new chain");
    let seen = client.rows(
        "/* hostgroup=1 */ SELECT \"a\", @a, @@time_zone, DATABASE() FROM (SELECT 5 AS a) t",
    )?;
    let expected = ["5", "7", "+03:00", &schema.name].map(|one| Some(one.to_owned()));
    ensure!(seen == [expected], "{seen:?}");
    ensure!(server(&mut client, "/* hostgroup=1 */ EXECUTE named USING @a")? == "9");
    client.execute(&prepared, 0, &[Some(b"1")])?;
    let again = client.prepare("SELECT ? + 3")?;
    client.execute(&again, 0, &[Some(b"1")])?;
    client.quit()
}

/// The filters around its connections are others: it gets other connections, once nothing ties it
/// to those that it has.
fn other_filters_around_connections(cluster: &Cluster) -> Result<()> {
    let schema = with_table(cluster)?;
    let proxy = start(cluster)?;
    let mut free = proxy.connect(&cluster.admin().schema(&schema.name))?;
    let mut tied = proxy.connect(&cluster.admin().schema(&schema.name))?;
    for client in [&mut free, &mut tied] {
        client.must("SET @a = 7")?;
        ensure!(on_a_replica(client, "one")?);
    }
    tied.must("CREATE TEMPORARY TABLE own (a INT)")?;
    proxy.edit(|text| text.replace("\"catch-up\"", "\"catch-up\", pipeline_reads = false"))?;
    change_chain(&proxy)?;
    ensure!(server(&mut free, HINTED)? != "1" && server(&mut free, "SELECT @a")? == "7");
    tied.must("INSERT INTO own VALUES (1)")?;
    ensure!(server(&mut tied, "SELECT COUNT(*) FROM own")? == "1", "it has stayed");
    tied.must("DROP TEMPORARY TABLE own")?;
    tied.must("DO 1")?;
    ensure!(server(&mut tied, HINTED)? != "1" && server(&mut tied, "SELECT @a")? == "7");
    free.quit()?;
    tied.quit()
}

/// Nobody has kept a log of what the session has set, so it stays with its connection.
fn a_session_without_a_log_moves_with_its_connection(cluster: &Cluster) -> Result<()> {
    let plain =
        "[chain.main]\nsession = [{ use = \"parse\" },\n{ use = \"route\" }]\nbackend = []\n";
    let proxy = Setup::of(cluster).append(plain).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SET @a = 7")?;
    let here = server(&mut client, "SELECT @@pseudo_thread_id")?;
    change_chain(&proxy)?;
    ensure!(server(&mut client, HINTED)? != "1", "it is in the new chain");
    ensure!(server(&mut client, "SELECT @a")? == "7");
    ensure!(server(&mut client, "SELECT @@pseudo_thread_id")? == here, "it has its connection");
    // A log that begins now has nothing of it.
    let state = "{ use = \"session-commands\" },\n{ use = \"route\" }";
    proxy.edit(|text| text.replace("backend = []", "backend = [{ use = \"catch-up\" }]"))?;
    becomes(&proxy, "{ use = \"route\" }", state)?;
    ensure!(server(&mut client, "SELECT @@pseudo_thread_id")? == here, "it stays");
    ensure!(server(&mut client, "SELECT @a")? == "7");
    client.quit()
}

/// A filter that has to see all that a session does is new.
fn a_session_does_not_move_to_who_should_have_seen_it(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SET @a = 7")?;
    let both = "{ use = \"cache\" },\n{ use = \"hints\" },\n{ use = \"route\" }";
    becomes(&proxy, "{ use = \"route\" }", both)?;
    ensure!(server(&mut client, HINTED)? == "1", "it stays in its chain");
    // The next one will do, whatever came between.
    becomes(&proxy, "{ use = \"cache\" },\n", "")?;
    ensure!(server(&mut client, HINTED)? != "1" && server(&mut client, "SELECT @a")? == "7");
    becomes(&proxy, "{ use = \"hints\" }", "{ use = \"cache\" },\n{ use = \"sticky\" }")?;
    ensure!(server(&mut client, HINTED)? != "1", "it stays in its chain");
    client.command(CommandCode::RESET_CONNECTION, b"")?;
    ensure!(server(&mut client, HINTED)? == "1", "it has begun anew");
    client.quit()
}

/// How session commands are run is another way with each reload.
fn modes_of_session_commands_come_and_go(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SET @a = 0")?;
    let prepared = client.prepare("SELECT ?, @@sql_mode")?;
    let mut before = "{ use = \"session-commands\" }".to_owned();
    for (turn, mode) in ["predict", "off", "predict", "defer"].into_iter().enumerate() {
        let after = format!("{{ use = \"session-commands\", mode = \"{mode}\" }}");
        becomes(&proxy, &before, &after)?;
        before = after;
        ensure!(server(&mut client, "SELECT @a")? == turn.to_string(), "{mode}");
        client.must(&format!("SET @a = {}", turn + 1))?;
        client.execute(&prepared, 0, &[Some(b"a")])?;
        ensure!(on_a_replica(&mut client, "one")?);
        let seen = server(&mut client, "SELECT @a + 0 * @@server_id AS one")?;
        ensure!(seen == (turn + 1).to_string(), "{mode}: {seen}");
    }
    client.quit()
}

/// What `sticky` and `route` know goes along: where it reads, and that it has written.
fn a_session_stays_on_its_servers(cluster: &Cluster) -> Result<()> {
    let chain = "[chain.main]\nsession = [\n{ use = \"parse\" },\n{ use = \"hints\" },\n\
        { use = \"sticky\" },\n{ use = \"session-commands\" },\n\
        { use = \"route\", balance = \"round-robin\", balance_each = \"command\" },\n]\n\
        backend = [{ use = \"catch-up\" }]\n";
    let proxy = Setup::of(cluster).append(chain).start()?;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = proxy.connect(&cluster.admin())?;
        client.must("/* sticky_backend=1 */ SELECT 1")?;
        let here = server(&mut client, HINTED)?;
        clients.push((client, here));
    }
    ensure!(clients.iter().any(|(_, here)| *here != clients[0].1), "they are on several");
    becomes(
        &proxy,
        "\"sticky\" }",
        "\"sticky\", strict_wait = \"1s\" },\n{ use = \"rules\", rules = [] }",
    )?;
    for (client, here) in &mut clients {
        for _ in 0..4 {
            ensure!(server(client, HINTED)? == *here, "it stays on its server");
        }
    }
    Ok(())
}
