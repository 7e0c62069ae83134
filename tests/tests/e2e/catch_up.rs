//! A connection is brought up to date before a command runs there: in which writes, how that is
//! checked, and what becomes of it when it fails. Rows H of the hazard table, verdicts V.
//!
//! A statement with `hg=1` in a comment goes to a replica, any other to the primary.

mod broken;
mod cutting;
mod lagging;
mod sending;

use anyhow::{Context, Result};
use e2e::{Client, Cluster, Proxy, Setup, wait};

/// A chain that sends a command where its comment says; settings of `catch-up` in its braces.
fn chain(settings: &str) -> String {
    format!(
        "[chain.main]
session = [
  {{ use = 'parse' }},
  {{ use = 'rules', rules = [
    {{ rule_id = 1, match_pattern = 'hg=1', destination_hostgroup = 1, apply = true }},
  ] }},
  {{ use = 'session-commands' }},
  {{ use = 'route' }},
]
backend = [{{ use = 'catch-up'{settings} }}]"
    )
}

fn start(cluster: &Cluster) -> Result<Proxy> {
    Setup::of(cluster).append(&chain("")).start()
}

/// The first value of a statement's first row.
fn value(client: &mut Client, text: &str) -> Result<String> {
    let rows = client.rows(text)?;
    rows.first().and_then(|row| row.first()).cloned().flatten().with_context(|| text.to_owned())
}

/// Waits until no session holds a connection to a replica: the server has closed it.
fn until_let_go(proxy: &Proxy) -> Result<()> {
    wait::until("the end of a connection", || {
        let metrics = proxy.get("/metrics")?;
        let attached = |line: &&str| {
            line.starts_with("towpath_backend_connections{")
                && line.contains("state=\"attached\"")
                && line.contains("hostgroup=\"1\"")
        };
        let mut held = metrics.lines().filter(attached).peekable();
        anyhow::ensure!(held.peek().is_some(), "no such metric");
        Ok(held.all(|line| line.ends_with(" 0")).then_some(()))
    })
}
