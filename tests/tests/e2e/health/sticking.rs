//! Sessions that stick to a server that is taken out.

use super::{error, server_id};
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, Throwaway};
use wire::CommandCode;

on_both_vendors!(
    a_strict_session_has_its_server_or_none,
    while_alive_means_until_it_is_gone,
    a_full_server_is_waited_for,
);

const CHAIN: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'hints' },
  { use = 'sticky' },
  { use = 'session-commands' },
  { use = 'route', hostgroup = 1 },
]
backend = [{ use = 'catch-up' }]";

/// A primary with three replicas.
fn three_replicas(cluster: &Cluster) -> Result<Throwaway> {
    Throwaway::start_cluster(cluster.vendor, "1 2 3 4")
}

/// A session on the replicas, in this mode, and the address of its server.
fn start(cluster: &Cluster, mode: u8) -> Result<(Proxy, Client, String, String)> {
    begin(&Setup::of(cluster).append(CHAIN), cluster, mode)
}

fn begin(setup: &Setup, cluster: &Cluster, mode: u8) -> Result<(Proxy, Client, String, String)> {
    let proxy = setup.start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let sql = format!("/* sticky_backend={mode} */ SELECT @@server_id, @@port");
    let row = client.rows(&sql)?.into_iter().next().context("no row")?;
    let [Some(id), Some(port)] = &row[..] else { anyhow::bail!("{row:?}") };
    Ok((proxy, client, id.clone(), format!("127.0.0.1:{port}")))
}

fn order(proxy: &Proxy, name: &str, state: &str) -> Result<()> {
    let body = format!("{{\"state\": {state:?}}}");
    let (status, answer) = proxy.post(&format!("/servers/{name}/state"), &body)?;
    ensure!(status == 200, "{answer}");
    Ok(())
}

fn a_strict_session_has_its_server_or_none(cluster: &Cluster) -> Result<()> {
    let own = three_replicas(cluster)?;
    let cluster = &own.cluster;
    let (proxy, mut client, id, name) = start(cluster, 2)?;
    client.must("SET @kept = 5")?;
    order(&proxy, &name, "offline-soft")?;
    for _ in 0..3 {
        let text = error(&mut client, "SELECT 1")?;
        ensure!(text.contains("ERR 9004 (08S01)") && text.contains("strict"), "{text}");
        ensure!(text.contains(&name) && text.contains("OFFLINE_SOFT"), "{text}");
    }
    order(&proxy, &name, "online")?;
    ensure!(client.rows("SELECT @kept, @@server_id")? == [[Some("5".into()), Some(id)]]);
    client.quit()
}

fn while_alive_means_until_it_is_gone(cluster: &Cluster) -> Result<()> {
    let own = three_replicas(cluster)?;
    let cluster = &own.cluster;
    let (proxy, mut client, id, name) = start(cluster, 1)?;
    client.must("SET @kept = 5")?;
    order(&proxy, &name, "offline-soft")?;
    let other = server_id(&mut client, "")?;
    ensure!(other != id, "it stays");
    order(&proxy, &name, "online")?;
    for _ in 0..3 {
        ensure!(
            client.rows("SELECT @kept, @@server_id")? == [[Some("5".into()), Some(other.clone())]]
        );
    }
    client.quit()
}

/// Each server may have one connection. The session has lost its own, and another session takes its
/// place: the other replicas are free all the time.
fn a_full_server_is_waited_for(cluster: &Cluster) -> Result<()> {
    let own = three_replicas(cluster)?;
    let cluster = &own.cluster;
    let setup = Setup::of(cluster).server("max_connections = 1").append(CHAIN);
    for mode in [1, 2] {
        let (proxy, mut client, id, name) = begin(&setup, cluster, mode)?;
        client.must("SET @kept = 5")?;
        order(&proxy, &name, "offline-hard")?;
        order(&proxy, &name, "online")?;
        let mut other = proxy.connect(&cluster.admin())?;
        let there = format!("/* route={name} */");
        ensure!(server_id(&mut other, &there)? == id, "it takes the only place");
        client.send_command(CommandCode::QUERY, b"SELECT @kept, @@server_id")?;
        for _ in 0..20 {
            ensure!(server_id(&mut other, &there)? == id);
        }
        other.quit()?;
        let rows = client.receive(CommandCode::QUERY)?.rows(client.capabilities)?;
        ensure!(rows == [[Some("5".into()), Some(id)]], "mode {mode}: {rows:?}");
        client.quit()?;
    }
    Ok(())
}
