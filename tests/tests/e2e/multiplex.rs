//! Sessions that share connections to servers: nothing goes from one to another, and each finds
//! what it has set.

mod alternating;
mod closed;
mod crowd;
mod insert_id;
mod kills;
mod pins;
mod refused;
mod together;

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, Setup, wait};

/// A chain whose sessions share. A statement with `hg=1` in a comment goes to a replica.
const CHAIN: &str = "[chain.main]
multiplex = true
session = [
  { use = 'parse' },
  { use = 'rules', rules = [
    { rule_id = 1, match_pattern = 'hg=1', destination_hostgroup = 1, apply = true },
    { rule_id = 2, match_pattern = 'mx=0', multiplex = 0 },
    { rule_id = 3, match_pattern = 'mx=1', multiplex = 1 },
    { rule_id = 4, match_pattern = 'mx=2', multiplex = 2 },
  ] },
  { use = 'session-commands' },
  { use = 'route' },
]
backend = [{ use = 'catch-up' }]";

/// A proxy that may have so many connections to each server.
fn start(cluster: &Cluster, connections: u32) -> Result<Proxy> {
    start_with(cluster, connections, "")
}

fn start_with(cluster: &Cluster, connections: u32, more: &str) -> Result<Proxy> {
    Setup::of(cluster)
        .server(&format!("max_connections = {connections}"))
        .append(CHAIN)
        .append(more)
        .start()
}

/// The first value of a statement's first row.
fn value(client: &mut Client, text: &str) -> Result<Option<String>> {
    Ok(client.rows(text)?.into_iter().flatten().next().flatten())
}

/// The value of a metric, its labels included; 0 where there is none.
fn metric(proxy: &Proxy, name: &str) -> Result<u64> {
    let metrics = proxy.get("/metrics")?;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(Ok(0), |value| value.trim().parse().context("a number"))
}

/// Sends a statement until it is no longer refused for want of a connection.
fn until_served(client: &mut Client, text: &str) -> Result<()> {
    wait::until("a connection", || {
        let reply = client.query(text)?;
        match reply.error_code() {
            None => Ok(Some(())),
            Some(9001) => Ok(None),
            Some(other) => anyhow::bail!("{other} for {text}"),
        }
    })
}

fn same(client: &mut Client, text: &str, expected: &str) -> Result<()> {
    let found = value(client, text)?;
    ensure!(found.as_deref() == Some(expected), "{text}: {found:?} instead of {expected}");
    Ok(())
}

/// A login that is in this schema from its first command on.
fn login(cluster: &Cluster, schema: &str) -> Login {
    cluster.admin().schema(schema)
}
