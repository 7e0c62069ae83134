//! Sticky sessions in front of a primary (`@@server_id` 1) and two replicas (2, 3) that take turns.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, client::Reply};
use std::collections::BTreeSet;
use wire::CommandCode;

on_both_vendors!(
    a_hint_keeps_a_session_on_one_replica,
    a_statement_without_a_server_sets_the_mode,
    other_ways_to_ask,
    a_prepared_statement_sticks,
    in_a_transaction_a_mode_waits,
    a_session_that_begins_anew_forgets,
    a_server_that_cannot_be_used_is_left_for_good,
    a_strict_session_fails_until_its_server_is_back,
    a_strict_session_waits_for_its_server,
    a_key_leads_every_proxy_to_the_same_server,
);

/// A chain that splits reads and writes, with these rules and this wait.
fn chain(rules: &str, strict_wait: &str) -> String {
    format!(
        "[chain.main]
session = [
  {{ use = 'parse' }},
  {{ use = 'rules', rules = [{rules}] }},
  {{ use = 'hints' }},
  {{ use = 'sticky', strict_wait = '{strict_wait}' }},
  {{ use = 'session-commands' }},
  {{ use = 'route', policy = 'read-write-split', primary = 0, replicas = 1, balance = 'round-robin' }},
]
backend = [{{ use = 'catch-up' }}]"
    )
}

fn start(cluster: &Cluster) -> Result<Proxy> {
    Setup::of(cluster).append(&chain("", "0s")).start()
}

const READ: &str = "SELECT @@server_id";

/// The first value of a statement's first row.
fn value(client: &mut Client, text: &str) -> Result<String> {
    let rows = client.rows(text)?;
    rows.first().and_then(|row| row.first()).cloned().flatten().with_context(|| text.to_owned())
}

/// The servers that ten reads reach.
fn servers(client: &mut Client) -> Result<BTreeSet<String>> {
    (0..10).map(|_| value(client, READ)).collect()
}

/// The only server that reads reach.
fn one_server(client: &mut Client) -> Result<String> {
    let found = servers(client)?;
    ensure!(found.len() == 1, "{found:?}");
    found.into_iter().next().context("ten reads")
}

fn on_both(client: &mut Client) -> Result<()> {
    let found = servers(client)?;
    ensure!(found.iter().eq(["2", "3"]), "{found:?}");
    Ok(())
}

fn a_hint_keeps_a_session_on_one_replica(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut direct = cluster.direct()?;
    direct.must(&format!("CREATE TABLE {}.t (a INT)", schema.name))?;
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    for mode in [1, 2] {
        on_both(&mut client)?;
        let first = value(&mut client, &format!("/* sticky_backend={mode} */ {READ}"))?;
        ensure!(one_server(&mut client)? == first, "mode {mode}: it is the first one");
        client.must(&format!("INSERT INTO {}.t VALUES ({mode})", schema.name))?;
        ensure!(
            value(&mut client, "SELECT @@server_id FOR UPDATE")? == "1",
            "writes are not moved"
        );
        ensure!(one_server(&mut client)? == first, "mode {mode}: behind a write");
        let again = value(&mut client, &format!("{READ} -- sticky_backend={mode}"))?;
        ensure!(again == first, "mode {mode}: asked for again");
        value(&mut client, &format!("{READ} # sticky_backend=0"))?;
    }
    on_both(&mut client)?;
    let metrics = proxy.get("/metrics")?;
    for mode in ["while-alive\"} 1", "strict\"} 1", "off\"} 2"] {
        let line = format!("towpath_sticky_modes_total{{chain=\"main\",mode=\"{mode}");
        ensure!(metrics.contains(&line), "{line} is not in {metrics}");
    }
    client.quit()
}

fn a_statement_without_a_server_sets_the_mode(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    for text in ["SET /* sticky_backend=1 */ @a = 1", "SET NAMES utf8mb4 /* sticky_backend=1 */"] {
        let mut client = proxy.connect(&cluster.admin())?;
        on_both(&mut client)?;
        client.must(text)?;
        one_server(&mut client).with_context(|| text.to_owned())?;
        client.quit()?;
    }
    Ok(())
}

fn other_ways_to_ask(cluster: &Cluster) -> Result<()> {
    let rules = "{ rule_id = 1, match_digest = 'stay', sticky_conn = true },
                 { rule_id = 2, match_digest = 'go', sticky_conn = false },";
    let user = "[[user]]\nname = 'app'\npassword = 'PASSWORD'\nhostgroup = 0\nsticky_backend = 2";
    let (_, password) = cluster.users.iter().find(|(name, _)| name == "app").context("app")?;
    let mut others = cluster.clone();
    others.users.retain(|(name, _)| name != "app");
    let setup = Setup::of(&others).append(&user.replace("PASSWORD", password));
    let proxy = setup.append(&chain(rules, "0s")).start()?;

    let mut client = proxy.connect(&cluster.admin())?;
    for (on, off) in [
        ("SET @towpath_sticky_backend = 1", "SET @towpath_sticky_backend = 0"),
        ("SELECT 'stay' AS stay", "SELECT 1 AS go"),
    ] {
        on_both(&mut client)?;
        client.must(on)?;
        one_server(&mut client).with_context(|| on.to_owned())?;
        client.must(off)?;
    }
    on_both(&mut client)?;
    client.must("SET @towpath_sticky_backend = 7")?;
    ensure!(value(&mut client, "SELECT @towpath_sticky_backend")? == "7", "it is a variable");
    on_both(&mut client)?;
    client.quit()?;

    let mut client = proxy.connect(&cluster.login("app"))?;
    one_server(&mut client).context("the user's setting")?;
    client.must("/* sticky_backend=0 */ SELECT 1")?;
    on_both(&mut client)?;
    client.command(CommandCode::RESET_CONNECTION, b"")?;
    one_server(&mut client).context("the user's setting, behind a reset")?;
    client.quit()
}

fn a_prepared_statement_sticks(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let off = client.prepare("SELECT @@server_id, ? /* sticky_backend=0 */")?;
    let on = client.prepare("SELECT @@server_id, ? /* sticky_backend=1 */")?;
    one_server(&mut client).context("it holds from when it is prepared")?;
    client.execute(&off, 0, &[Some(b"a")])?;
    on_both(&mut client)?;
    client.execute(&on, 0, &[Some(b"a")])?;
    one_server(&mut client)?;
    client.quit()
}

fn in_a_transaction_a_mode_waits(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("BEGIN")?;
    let inside = value(&mut client, &format!("/* sticky_backend=1 */ {READ}"))?;
    ensure!(one_server(&mut client)? == inside, "a transaction is not moved");
    client.must("COMMIT")?;
    one_server(&mut client)?;
    client.must("BEGIN")?;
    client.must("SELECT 1 /* sticky_backend=0 */")?;
    client.must("COMMIT")?;
    on_both(&mut client)?;
    client.quit()
}

fn a_session_that_begins_anew_forgets(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let stick = |client: &mut Client| {
        client.must("/* sticky_backend=2 */ SELECT 1")?;
        one_server(client).map(drop)
    };
    stick(&mut client)?;
    client.command(CommandCode::RESET_CONNECTION, b"")?;
    on_both(&mut client)?;
    stick(&mut client)?;
    client.change_user(&cluster.admin())?;
    on_both(&mut client)?;
    client.quit()
}

/// Tells the proxy what becomes of the server with this id.
fn order(cluster: &Cluster, proxy: &Proxy, id: &str, state: &str) -> Result<()> {
    let address = &cluster.addresses[id.parse::<usize>()? - 1];
    let path = format!("/servers/{address}/state");
    let (status, body) = proxy.post(&path, &format!("{{\"state\": {state:?}}}"))?;
    ensure!(status == 200, "{status} {body}");
    Ok(())
}

fn a_server_that_cannot_be_used_is_left_for_good(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let first = value(&mut client, &format!("/* sticky_backend=1 */ {READ}"))?;
    order(cluster, &proxy, &first, "offline-soft")?;
    let second = one_server(&mut client)?;
    ensure!(second != first && second != "1", "{first}, then {second}");
    order(cluster, &proxy, &first, "online")?;
    ensure!(one_server(&mut client)? == second, "it does not go back");
    let metrics = proxy.get("/metrics")?;
    ensure!(metrics.contains("event=\"re-pick\"} 1"), "{metrics}");
    client.quit()
}

fn must_name(reply: &Reply, server: &str) -> Result<()> {
    let error = reply.error().context("it is an error")?.to_string();
    let strict = error.contains(server) && error.contains("strict");
    ensure!(reply.error_code() == Some(9004) && strict, "{error}");
    Ok(())
}

fn a_strict_session_fails_until_its_server_is_back(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let first = value(&mut client, &format!("/* sticky_backend=2 */ {READ}"))?;
    let name = &cluster.addresses[first.parse::<usize>()? - 1];
    order(cluster, &proxy, &first, "offline-soft")?;
    for _ in 0..2 {
        must_name(&client.query(READ)?, name)?;
    }
    ensure!(value(&mut client, "SELECT @@server_id FOR UPDATE")? == "1", "the session goes on");
    let metrics = proxy.get("/metrics")?;
    ensure!(metrics.contains("event=\"strict-failure\"} 2"), "{metrics}");
    order(cluster, &proxy, &first, "online")?;
    ensure!(one_server(&mut client)? == first, "the same one");
    order(cluster, &proxy, &first, "offline-soft")?;
    must_name(&client.query(READ)?, name)?;
    let second = value(&mut client, &format!("/* sticky_backend=1 */ {READ}"))?;
    ensure!(second != first && one_server(&mut client)? == second, "{first}, then {second}");
    client.quit()
}

fn a_strict_session_waits_for_its_server(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append(&chain("", "1h")).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let first = value(&mut client, &format!("/* sticky_backend=2 */ {READ}"))?;
    order(cluster, &proxy, &first, "offline-soft")?;
    client.send_command(CommandCode::QUERY, READ.as_bytes())?;
    order(cluster, &proxy, &first, "online")?;
    let rows = client.receive(CommandCode::QUERY)?.rows(client.capabilities)?;
    ensure!(rows == [[Some(first)]], "{rows:?}");
    client.quit()
}

fn a_key_leads_every_proxy_to_the_same_server(cluster: &Cluster) -> Result<()> {
    let proxies = [start(cluster)?, start(cluster)?];
    let mut clients =
        [proxies[0].connect(&cluster.admin())?, proxies[1].connect(&cluster.admin())?];
    let asks = |key: u32| format!("/* affinity_key=order-{key} */ {READ}");
    let mut used = BTreeSet::new();
    for key in 0..40 {
        let mut places = BTreeSet::new();
        for at in [0, 1, 0, 1] {
            places.insert(value(&mut clients[at], &asks(key))?);
        }
        ensure!(places.len() == 1, "key {key}: {places:?}");
        used.extend(places);
    }
    ensure!(used.iter().eq(["2", "3"]), "{used:?}");
    let [mut client, _] = clients;
    on_both(&mut client).context("a key is its statement's alone")?;

    // Together with a mode it is where the session stays.
    let here = value(&mut client, &asks(7))?;
    let both = format!("/* affinity_key=order-7 sticky_backend=1 */ {READ}");
    ensure!(value(&mut client, &both)? == here && one_server(&mut client)? == here);
    client.must("/* sticky_backend=0 */ SELECT 1")?;

    // One that cannot be used moves no other key.
    let places: Vec<_> =
        (0..40).map(|key| value(&mut client, &asks(key))).collect::<Result<_>>()?;
    order(cluster, &proxies[0], "2", "offline-soft")?;
    for (key, place) in (0..).zip(&places) {
        ensure!(value(&mut client, &asks(key))? == "3", "key {key}, which was at {place}");
    }
    order(cluster, &proxies[0], "2", "online")?;
    for (key, place) in (0..).zip(&places) {
        ensure!(value(&mut client, &asks(key))? == *place, "key {key}");
    }
    client.quit()
}
