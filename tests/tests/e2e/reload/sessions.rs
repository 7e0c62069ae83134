//! Chains and rules under sessions that are there.

use super::server;
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup};
use wire::CommandCode;

on_both_vendors!(
    rules_change_under_a_session,
    a_transaction_keeps_its_rules,
    hits_of_rules_that_stay_go_on,
    a_session_moves_to_another_chain_when_it_is_bare,
    a_session_keeps_what_it_has_set,
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

/// Makes another chain of it: its reads go to replicas by themselves.
fn change_chain(proxy: &Proxy) -> Result<()> {
    proxy.edit(|text| {
        let split = "{ use = \"hints\", allow = [\"hostgroup\"] },\n{ use = \"route\" }";
        text.replace("{ use = \"route\" }", split)
    })?;
    let body = proxy.reload()?;
    ensure!(body.contains("\"chains\":{\"added\":0,\"changed\":1"), "{body}");
    Ok(())
}

const HINTED: &str = "/* hostgroup=1 */ SELECT @@server_id";

fn a_session_moves_to_another_chain_when_it_is_bare(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut bare = proxy.connect(&cluster.admin().schema("mysql"))?;
    let mut resets = proxy.connect(&cluster.admin())?;
    let mut changes = proxy.connect(&cluster.admin())?;
    for client in [&mut resets, &mut changes] {
        client.must("SET @a = 1")?;
    }
    change_chain(&proxy)?;
    ensure!(server(&mut bare, HINTED)? != "1", "it had run nothing");
    ensure!(server(&mut bare, "SELECT DATABASE()")? == "mysql");
    for client in [&mut resets, &mut changes] {
        ensure!(server(client, HINTED)? == "1", "it stays in its chain");
    }
    resets.command(CommandCode::RESET_CONNECTION, b"")?;
    changes.change_user(&cluster.admin())?;
    for client in [&mut resets, &mut changes] {
        ensure!(server(client, HINTED)? != "1", "it has begun anew");
    }
    Ok(())
}

fn a_session_keeps_what_it_has_set(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t (a INT) ENGINE = InnoDB")?;
    client.must("CREATE TEMPORARY TABLE own (a INT)")?;
    client.must("SET @now = NOW(6)")?;
    let now = server(&mut client, "SELECT @now")?;
    let prepared = client.prepare("SELECT ? + 1")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t VALUES (1)")?;
    change_chain(&proxy)?;
    client.must("INSERT INTO t VALUES (2)")?;
    client.must("COMMIT")?;
    client.must("INSERT INTO own SELECT a FROM t")?;
    ensure!(server(&mut client, "SELECT COUNT(*) FROM own")? == "2");
    ensure!(server(&mut client, "SELECT @now")? == now);
    client.execute(&prepared, 0, &[Some(b"1")])?;
    client.quit()
}
