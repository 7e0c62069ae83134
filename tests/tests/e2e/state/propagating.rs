//! When other connections of a session execute what one has executed, seen by the servers' own log.

use super::port;
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, Throwaway, wait};

on_both_vendors!(
    lazy_is_when_they_are_used,
    eager_is_at_once,
    last_used_is_one_of_them,
    off_is_before_the_reply,
    what_is_answered_from_memory_is_brought_too,
    a_connection_that_cannot_have_it_is_given_up,
);

/// A session with one connection to each of two servers, which know nothing of each other.
struct Bed {
    /// Of hostgroup 0 and of hostgroup 1.
    servers: [Throwaway; 2],
    client: Client,
    proxy: Proxy,
}

impl Bed {
    fn start(cluster: &Cluster, settings: &str) -> Result<Self> {
        let servers = [Throwaway::start(cluster.vendor)?, Throwaway::start(cluster.vendor)?];
        let mut both = servers[0].cluster.clone();
        both.addresses.extend(servers[1].cluster.addresses.iter().cloned());
        both.sockets.extend(servers[1].cluster.sockets.iter().cloned());
        let chain = format!(
            "[chain.main]
session = [
  {{ use = 'parse' }},
  {{ use = 'rules', rules = [
    {{ rule_id = 1, match_pattern = 'hg=1', destination_hostgroup = 1, apply = true }},
  ] }},
  {{ use = 'session-commands', {settings} }},
  {{ use = 'route' }},
]
backend = [{{ use = 'catch-up' }}]"
        );
        let proxy = Setup::of(&both).append(&chain).start()?;
        let client = Self::connect(&servers, &proxy)?;
        Ok(Self { servers, client, proxy })
    }

    /// A session that has used both servers.
    fn connect(servers: &[Throwaway; 2], proxy: &Proxy) -> Result<Client> {
        let mut client = proxy.connect(&servers[0].cluster.admin())?;
        port(&mut client, "/* hg=1 */")?;
        port(&mut client, "")?;
        Ok(client)
    }

    /// How often the server was given something with this in it.
    fn given(&self, server: usize, mark: &str) -> Result<usize> {
        self.servers[server].times_given(mark)
    }

    fn until_given(&self, server: usize, mark: &str) -> Result<()> {
        wait::until(&format!("{mark} on server {server}"), || {
            Ok((self.given(server, mark)? == 1).then_some(()))
        })
    }
}

fn lazy_is_when_they_are_used(cluster: &Cluster) -> Result<()> {
    let mut bed = Bed::start(cluster, "propagate = 'lazy'")?;
    bed.client.must("SET @lazy = 1")?;
    bed.until_given(0, "SET @lazy")?;
    ensure!(bed.given(1, "SET @lazy")? == 0);
    port(&mut bed.client, "/* hg=1 */")?;
    bed.until_given(1, "SET @lazy")
}

fn eager_is_at_once(cluster: &Cluster) -> Result<()> {
    let mut bed = Bed::start(cluster, "propagate = 'eager'")?;
    for text in ["SET @eager = 1", "SET @later = @eager + 1", "SET @wrong = no_such_function()"] {
        bed.client.query(text)?;
    }
    // The client says nothing more.
    bed.until_given(1, "SET @eager")?;
    bed.until_given(1, "SET @later")?;
    // Each was given once, and what has failed to nobody else.
    ensure!(port(&mut bed.client, "/* hg=1 @later */")? != port(&mut bed.client, "")?);
    ensure!(bed.client.rows("SELECT /* hg=1 */ @later")? == [[Some("2".to_owned())]]);
    for mark in ["SET @eager", "SET @later"] {
        ensure!((bed.given(0, mark)?, bed.given(1, mark)?) == (1, 1), "{mark}");
    }
    ensure!(bed.given(1, "no_such_function")? == 0);
    // What is open is left alone: no transaction is begun or ended by it.
    bed.client.must("BEGIN")?;
    bed.client.must("SET @inside = 1")?;
    bed.client.must("COMMIT")
}

fn last_used_is_one_of_them(cluster: &Cluster) -> Result<()> {
    let mut bed = Bed::start(cluster, "propagate = 'last-used'")?;
    // The session was on server 0 last; this one goes to server 1.
    bed.client.must("SET /* hg=1 */ @one = 1")?;
    bed.until_given(0, "@one = 1")?;
    // It was on server 1 last, and is there again.
    bed.client.must("SET /* hg=1 */ @two = 2")?;
    bed.until_given(1, "@two = 2")?;
    bed.client.must("SELECT /* hg=1 */ 1")?;
    ensure!(bed.given(0, "@two = 2")? == 0);
    Ok(())
}

fn off_is_before_the_reply(cluster: &Cluster) -> Result<()> {
    let mut bed = Bed::start(cluster, "mode = 'off'")?;
    bed.client.must("SET @off = 1")?;
    // The reply is here: the other server has answered before.
    ensure!((bed.given(0, "SET @off")?, bed.given(1, "SET @off")?) == (1, 1));
    ensure!(bed.client.query("SET NAMES nosuch")?.error().is_some());
    ensure!(bed.given(1, "nosuch")? == 0, "what fails goes no further");
    Ok(())
}

fn what_is_answered_from_memory_is_brought_too(cluster: &Cluster) -> Result<()> {
    let settings = "mode = 'predict', propagate = 'eager', \
                    predict = { min_observations = 1, min_sessions = 1, audit_rate = 0 }";
    let bed = Bed::start(cluster, settings)?;
    // Each of them asks no server that has not been asked before.
    for session in 0..6 {
        let mut client = Bed::connect(&bed.servers, &bed.proxy)?;
        client.must("SET @known = 1")?;
        // The client says nothing more: both servers have it all the same.
        for server in [0, 1] {
            wait::until("the server's log", || {
                Ok((bed.given(server, "SET @known")? == session + 1).then_some(()))
            })?;
        }
    }
    let metrics = bed.proxy.get("/metrics")?;
    let predicted = metrics.lines().find(|line| line.contains("\"predicted\""));
    ensure!(predicted.is_some_and(|line| !line.ends_with(" 0")), "{predicted:?}");
    Ok(())
}

fn a_connection_that_cannot_have_it_is_given_up(cluster: &Cluster) -> Result<()> {
    let mut bed = Bed::start(cluster, "mode = 'off'")?;
    bed.client.must("CREATE DATABASE here_alone")?;
    // The server that has it answers; the other connection is of no use any more.
    bed.client.must("USE here_alone")?;
    ensure!(bed.client.rows("SELECT DATABASE()")? == [[Some("here_alone".to_owned())]]);
    let reply = bed.client.query("SELECT /* hg=1 */ 1")?;
    let error = reply.error().map(|error| error.to_string()).unwrap_or_default();
    ensure!(error.contains("deferred session command failed"), "{error:?}");
    Ok(())
}
