//! Sessions that stick to a server that is taken out.

use super::{error, server_id};
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup};

on_both_vendors!(a_strict_session_has_its_server_or_none, while_alive_means_until_it_is_gone);

const CHAIN: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'hints' },
  { use = 'sticky' },
  { use = 'session-commands' },
  { use = 'route', hostgroup = 1 },
]
backend = [{ use = 'catch-up' }]";

/// A session on the replicas, in this mode, and the address of its server.
fn start(cluster: &Cluster, mode: u8) -> Result<(Proxy, Client, String, String)> {
    let proxy = Setup::of(cluster).append(CHAIN).start()?;
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
