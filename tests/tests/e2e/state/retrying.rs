//! Reads whose connection has died before they were answered are sent again, and nothing else is.

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, Cut, Proxy, Relay, Setup,
    client::Reply,
    relay::{How, Side},
};

on_both_vendors!(
    a_read_is_sent_again,
    a_read_is_sent_again_no_more_often_than_the_rule_says,
    a_write_is_never_sent_twice,
    in_a_transaction_nothing_is_sent_again,
);

/// A proxy in front of a relay to the primary. Each session opens a connection of its own.
struct Bed {
    relay: Relay,
    proxy: Proxy,
    cluster: Cluster,
}

impl Bed {
    fn new(cluster: &Cluster, retries: u32) -> Result<Self> {
        let relay = Relay::start(&cluster.addresses[0])?;
        let mut behind = cluster.clone();
        behind.addresses = vec![relay.address.clone()];
        let chain = format!(
            "[chain.main]\nsession = [\n{{ use = 'parse' }},\n\
             {{ use = 'rules', rules = [{{ rule_id = 1, retries = {retries} }}] }},\n\
             {{ use = 'session-commands' }},\n{{ use = 'route' }},\n]\n\
             backend = [{{ use = 'catch-up' }}]\n[backend]\npool_max_idle = 0\n"
        );
        let proxy = Setup::of(&behind).append(&chain).start()?;
        Ok(Self { relay, proxy, cluster: cluster.clone() })
    }

    /// What a session gets for the last of these texts if its connection dies when the server has
    /// been sent it, and how often that has been sent in all.
    fn dying_behind(&self, texts: &[&str]) -> Result<(Reply, usize)> {
        let last = texts.last().context("no text")?;
        let mut client = self.proxy.connect(&self.cluster.admin())?;
        self.relay.forget();
        for text in texts {
            client.query(text)?;
        }
        let after = self.relay.passed().last().context("no connection")?.client.len();
        client.quit()?;
        // The next session says the same, byte by byte, and then no more.
        self.relay.close_all();
        let mut client = self.proxy.connect(&self.cluster.admin())?;
        self.relay.forget();
        self.relay.cut_after(0, Cut { side: Side::Client, after, how: How::Fin });
        let mut reply = None;
        for text in texts {
            reply = Some(client.query(text)?);
        }
        let has = |passed: &e2e::relay::Passed| {
            passed.client.windows(last.len()).filter(|window| *window == last.as_bytes()).count()
        };
        let sent = self.relay.passed().iter().map(has).sum();
        Ok((reply.context("no reply")?, sent))
    }
}

fn a_read_is_sent_again(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster, 1)?;
    let (reply, sent) = bed.dying_behind(&["SELECT 41 + 1"])?;
    let expected = cluster.direct()?.query("SELECT 41 + 1")?;
    ensure!(reply.raw == expected.raw, "{:?}", reply.error());
    ensure!(sent == 2, "it was sent {sent} times");
    Ok(())
}

fn a_read_is_sent_again_no_more_often_than_the_rule_says(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster, 0)?;
    let (reply, sent) = bed.dying_behind(&["SELECT 41 + 1"])?;
    ensure!(reply.error_code() == Some(9007), "{:?}", reply.error());
    ensure!(sent == 1, "it was sent {sent} times");
    Ok(())
}

fn a_write_is_never_sent_twice(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    cluster.direct()?.must(&format!("CREATE TABLE {}.t (a INT)", schema.name))?;
    let bed = Bed::new(cluster, 3)?;
    let insert = format!("INSERT INTO {}.t VALUES (1)", schema.name);
    let (reply, sent) = bed.dying_behind(&[&insert])?;
    ensure!(reply.error_code() == Some(9007), "{:?}", reply.error());
    ensure!(sent == 1, "it was sent {sent} times");
    Ok(())
}

fn in_a_transaction_nothing_is_sent_again(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster, 3)?;
    let (reply, sent) = bed.dying_behind(&["BEGIN", "SELECT 41 + 1"])?;
    ensure!(reply.error_code() == Some(9007), "{:?}", reply.error());
    ensure!(sent == 1, "it was sent {sent} times");
    Ok(())
}
