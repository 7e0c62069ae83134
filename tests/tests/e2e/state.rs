//! What a session sets holds on each of its connections: rows H of the hazard table, one test for
//! each group of them, with the client's reply compared with a direct connection's.
//!
//! A statement with `hg=1` in a comment goes to a replica, any other to the primary.

mod answering;
mod losing;
mod prepared;
mod propagating;
pub(crate) mod resetting;
mod retrying;
mod setting;
mod staying;

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, Setup, wait};

/// A chain that sends a command where its comment says.
const CHAIN: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'rules', rules = [
    { rule_id = 1, match_pattern = 'hg=1', destination_hostgroup = 1, apply = true },
  ] },
  { use = 'session-commands' },
  { use = 'route' },
]
backend = [{ use = 'catch-up' }]";

fn start(cluster: &Cluster) -> Result<Proxy> {
    Setup::of(cluster).append(CHAIN).start()
}

/// The same client twice: on a direct connection to the primary, and through the proxy.
struct Twins {
    direct: Client,
    proxied: Client,
    _proxy: Proxy,
}

impl Twins {
    fn start(cluster: &Cluster, login: &Login) -> Result<Self> {
        let proxy = start(cluster)?;
        let direct = Client::connect(&cluster.addresses[0], login)?;
        let proxied = proxy.connect(login)?;
        Ok(Self { direct, proxied, _proxy: proxy })
    }

    /// Sends each statement to both and compares every byte of the replies.
    fn same(&mut self, script: &[&str]) -> Result<()> {
        for text in script {
            let (direct, proxied) = (self.direct.query(text)?, self.proxied.query(text)?);
            let shown =
                |reply: &e2e::client::Reply| String::from_utf8_lossy(&reply.raw).into_owned();
            ensure!(
                direct.raw == proxied.raw,
                "{text}:\n direct  {:?}\n proxied {:?}",
                shown(&direct),
                shown(&proxied)
            );
        }
        Ok(())
    }
}

/// Waits until all replicas have `table`, with `rows` rows.
pub(crate) fn replicated(cluster: &Cluster, table: &str, rows: usize) -> Result<()> {
    for address in &cluster.addresses[1..] {
        let mut client = Client::connect(address, &cluster.admin())?;
        wait::until("replication", || {
            let count = client.query(&format!("SELECT COUNT(*) FROM {table}"))?;
            let found = count.rows(client.capabilities).unwrap_or_default();
            Ok((found == [[Some(rows.to_string())]]).then_some(()))
        })?;
        client.quit()?;
    }
    Ok(())
}

/// The first value of a statement's first row.
fn value(client: &mut Client, text: &str) -> Result<String> {
    let rows = client.rows(text)?;
    rows.first().and_then(|row| row.first()).cloned().flatten().with_context(|| text.to_owned())
}

/// The port of the server that a statement with this comment reaches.
fn port(client: &mut Client, comment: &str) -> Result<String> {
    value(client, &format!("SELECT {comment} @@port"))
}
