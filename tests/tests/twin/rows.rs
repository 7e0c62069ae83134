//! Rows of the hazard table that need accounts, servers or logs of their own. The others are in
//! `tests/tests/e2e/state`.

mod accounts;
mod sticking;
mod transactions;

use anyhow::{Context, Result, ensure};
use e2e::{Client, Proxy, client::Reply, twin::Bed};

/// The same session twice: on a direct connection to the primary, and through the proxy.
struct Twins {
    direct: Client,
    proxied: Client,
}

impl Twins {
    /// As the account that all of a bed's logins share.
    fn new(bed: &Bed, proxy: &Proxy) -> Result<Self> {
        let login = &bed.logins[1];
        let direct = Client::connect(&bed.servers.cluster.addresses[0], login)?;
        Ok(Self { direct, proxied: proxy.connect(login)? })
    }

    /// Sends a statement to both and compares every byte of the replies.
    fn same(&mut self, text: &str) -> Result<Reply> {
        let (direct, proxied) = (self.direct.query(text)?, self.proxied.query(text)?);
        let shown = |reply: &Reply| String::from_utf8_lossy(&reply.raw).into_owned();
        ensure!(
            direct.raw == proxied.raw,
            "{text}:\n direct  {:?}\n proxied {:?}",
            shown(&direct),
            shown(&proxied)
        );
        Ok(proxied)
    }

    fn all_same(&mut self, script: &[&str]) -> Result<()> {
        script.iter().try_for_each(|text| self.same(text).map(drop))
    }

    /// The same, and this error.
    fn refused(&mut self, text: &str, code: u16) -> Result<()> {
        let reply = self.same(text)?;
        ensure!(reply.error_code() == Some(code), "{text}: {:?}", reply.error());
        Ok(())
    }
}

/// The first value of a statement's first row.
fn value(client: &mut Client, text: &str) -> Result<String> {
    let rows = client.rows(text)?;
    rows.first().and_then(|row| row.first()).cloned().flatten().with_context(|| text.to_owned())
}

/// The number of the server that a statement with this comment reaches: 1 is the primary.
fn server(client: &mut Client, comment: &str) -> Result<String> {
    value(client, &format!("SELECT {comment} @@server_id"))
}
