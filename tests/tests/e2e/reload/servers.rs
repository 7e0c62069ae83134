//! Servers that come, change and go while sessions use them.

use super::server;
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, Throwaway, wait};
use std::collections::BTreeSet;

on_both_vendors!(
    a_server_leaves_and_comes_back,
    a_transaction_ends_on_a_server_that_has_left,
    a_change_of_a_server_keeps_sessions_on_it,
    sticky_sessions_of_a_server_that_has_left,
    an_operators_word_outlives_a_reload,
);

const CHAIN: &str = "[chain.main]\nsession = [\n{ use = \"parse\" },\n{ use = \"rules\", rules = [\n\
    { rule_id = 1, match_digest = \"^SELECT @@server_id\", destination_hostgroup = 1, apply = true },\n\
    ] },\n{ use = \"hints\", allow = [\"sticky_backend\"] },\n{ use = \"sticky\" },\n\
    { use = \"session-commands\" },\n{ use = \"route\" },\n]\nbackend = [{ use = \"catch-up\" }]\n";

const READ: &str = "SELECT @@server_id";

fn start(cluster: &Cluster) -> Result<Proxy> {
    Setup::of(cluster).append(CHAIN).start()
}

/// The table of one server.
fn table(cluster: &Cluster, id: &str) -> Result<String> {
    let node = id.parse::<usize>()? - 1;
    let (hostgroup, address) = (usize::from(node > 0), &cluster.addresses[node]);
    Ok(format!("[[server]]\nhostgroup = {hostgroup}\naddress = {address:?}\n"))
}

/// Puts other text in the place of a server's table.
fn change(cluster: &Cluster, proxy: &Proxy, id: &str, other: &str) -> Result<()> {
    let table = table(cluster, id)?;
    proxy.edit(|text| text.replace(&table, other))?;
    proxy.reload().map(drop)
}

fn reads_reach(client: &mut Client) -> Result<BTreeSet<String>> {
    (0..10).map(|_| server(client, READ)).collect()
}

fn a_server_leaves_and_comes_back(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let first = server(&mut client, READ)?;
    let table = table(cluster, &first)?;
    change(cluster, &proxy, &first, "# gone\n")?;
    let others = reads_reach(&mut client)?;
    ensure!(others.len() == 1 && !others.contains(&first), "{first} has left: {others:?}");
    client.quit()?;
    let name = &cluster.addresses[first.parse::<usize>()? - 1];
    wait::until("it to be forgotten", || {
        let label = format!("hostgroup=\"1\",server=\"{name}\"");
        Ok((!proxy.get("/metrics")?.contains(&label)).then_some(()))
    })?;
    ensure!(!proxy.get("/status")?.contains(name.as_str()));
    proxy.edit(|text| text.replace("# gone\n", &table))?;
    proxy.reload()?;
    let mut back = BTreeSet::new();
    for _ in 0..20 {
        let mut client = proxy.connect(&cluster.admin())?;
        back.insert(server(&mut client, READ)?);
        client.quit()?;
    }
    ensure!(back.len() == 2, "{back:?}");
    Ok(())
}

fn a_transaction_ends_on_a_server_that_has_left(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("BEGIN")?;
    let begun = server(&mut client, "SELECT @@server_id, 'in a transaction'")?;
    change(cluster, &proxy, "1", "[[server]]\nhostgroup = 0\naddress = \"127.0.0.1:1\"\n")?;
    for _ in 0..3 {
        ensure!(server(&mut client, "SELECT @@server_id, 'in a transaction'")? == begun);
    }
    client.must("COMMIT")?;
    client.quit()
}

fn a_change_of_a_server_keeps_sessions_on_it(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let first = server(&mut client, &format!("/* sticky_backend=2 */ {READ}"))?;
    let thread = server(&mut client, "SELECT @@server_id, @@pseudo_thread_id")?;
    let table = table(cluster, &first)?;
    for more in ["weight = 7\n", "max_connections = 5\n", "tls = { mode = \"prefer\" }\n"] {
        change(cluster, &proxy, &first, &format!("{table}{more}"))?;
        for _ in 0..3 {
            ensure!(server(&mut client, READ)? == first, "{more}");
        }
        let same = server(&mut client, "SELECT @@server_id, @@pseudo_thread_id")?;
        ensure!(same == thread, "{more}");
        proxy.edit(|text| text.replace(more, ""))?;
        proxy.reload()?;
    }
    client.quit()
}

fn sticky_sessions_of_a_server_that_has_left(cluster: &Cluster) -> Result<()> {
    let own = Throwaway::start_cluster(cluster.vendor, "1 2 3 4")?;
    let cluster = &own.cluster;
    let proxy = start(cluster)?;
    let mut strict = proxy.connect(&cluster.admin())?;
    let first = server(&mut strict, &format!("/* sticky_backend=2 */ {READ}"))?;
    let mut others = Vec::new();
    let mut alive = loop {
        let mut client = proxy.connect(&cluster.admin())?;
        if server(&mut client, &format!("/* sticky_backend=1 */ {READ}"))? == first {
            break client;
        }
        others.push(client);
        ensure!(others.len() < 20, "sessions are balanced");
    };
    change(cluster, &proxy, &first, "")?;
    let others = reads_reach(&mut alive)?;
    ensure!(others.len() == 1 && !others.contains(&first), "mode 1 finds another: {others:?}");
    for _ in 0..2 {
        let reply = strict.query(READ)?;
        ensure!(reply.error_code() == Some(9004), "mode 2 fails: {:?}", reply.error());
    }
    strict.must("SELECT 'the session goes on'")?;
    let second = server(&mut strict, &format!("/* sticky_backend=1 */ {READ}"))?;
    ensure!(second != first && reads_reach(&mut strict)?.len() == 1);
    strict.quit()?;
    alive.quit()
}

fn an_operators_word_outlives_a_reload(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let name = &cluster.addresses[1];
    let (status, body) =
        proxy.post(&format!("/servers/{name}/state"), "{\"state\": \"offline-soft\"}")?;
    ensure!(status == 200, "{body}");
    let state = |proxy: &Proxy| -> Result<String> {
        let all: serde_json::Value = serde_json::from_str(&proxy.get("/servers")?)?;
        let servers = all["servers"].as_array().cloned().unwrap_or_default();
        let server = servers.into_iter().find(|server| server["name"] == name.as_str());
        Ok(server.unwrap_or_default()["state"].as_str().unwrap_or_default().to_owned())
    };
    proxy.edit(|text| text + "# nothing\n")?;
    proxy.reload()?;
    ensure!(state(&proxy)? == "offline-soft", "the file says what it said before");
    let table = table(cluster, "2")?;
    change(cluster, &proxy, "2", &format!("{table}state = \"offline-hard\"\n"))?;
    ensure!(state(&proxy)? == "offline-hard", "the file says another word");
    proxy.edit(|text| text.replace("state = \"offline-hard\"\n", ""))?;
    proxy.reload()?;
    ensure!(state(&proxy)? == "online");
    Ok(())
}
