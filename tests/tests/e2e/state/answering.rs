//! Who executes session commands first, seen by the servers' own logs.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, Throwaway, wait};
use wire::CommandCode;

on_both_vendors!(an_application_that_works_on_the_primary_leaves_replicas_alone);

/// Two servers that know nothing of each other; the second stands for a replica.
struct Bed {
    servers: [Throwaway; 2],
    proxy: Proxy,
}

impl Bed {
    fn start(cluster: &Cluster, answer_from: &str) -> Result<Self> {
        let servers = [Throwaway::start(cluster.vendor)?, Throwaway::start(cluster.vendor)?];
        let mut both = servers[0].cluster.clone();
        both.addresses.extend(servers[1].cluster.addresses.iter().cloned());
        both.sockets.extend(servers[1].cluster.sockets.iter().cloned());
        let chain = format!(
            "[chain.main]
session = [
  {{ use = 'parse' }},
  {{ use = 'session-commands' }},
  {{ use = 'route', policy = 'read-write-split', primary = 0, replicas = 1, answer_from = '{answer_from}' }},
]
backend = [{{ use = 'catch-up' }}]"
        );
        let proxy = Setup::of(&both).append(&chain).start()?;
        Ok(Self { servers, proxy })
    }

    /// What applications do when they start, and then work on the primary.
    fn work(&self) -> Result<()> {
        let mut client = self.proxy.connect(&self.servers[0].cluster.login("app").schema("app"))?;
        let client = &mut client;
        client.must("SET NAMES utf8mb4")?;
        client.must("SET autocommit=1")?;
        client.must("SET time_zone='+00:00'")?;
        for number in 0..20 {
            prepare(client, &format!("SELECT {number} + ?"))?;
        }
        ensure!(client.command(CommandCode::PING, b"")?.error().is_none());
        client.must("CREATE TABLE IF NOT EXISTS answered (a INT)")?;
        client.must("INSERT INTO answered VALUES (1)")?;
        client.must("BEGIN")?;
        client.must("SELECT * FROM answered")?;
        client.must("COMMIT")
    }

    /// Whether a session of the application's account was on the server.
    fn was_on(&self, server: usize) -> Result<bool> {
        let log = self.servers[server].log()?;
        Ok(log.lines().any(|line| line.contains("Connect") && line.contains("app@")))
    }
}

fn prepare(client: &mut Client, text: &str) -> Result<()> {
    let reply = client.command(CommandCode::STMT_PREPARE, text.as_bytes())?;
    ensure!(reply.error().is_none(), "{text}: {:?}", reply.error());
    Ok(())
}

fn an_application_that_works_on_the_primary_leaves_replicas_alone(cluster: &Cluster) -> Result<()> {
    let bed = Bed::start(cluster, "primary")?;
    bed.work()?;
    wait::until("the primary's log", || Ok(bed.was_on(0)?.then_some(())))
        .context("the primary did the work")?;
    ensure!(!bed.was_on(1)?, "the replica had a connection");

    let bed = Bed::start(cluster, "last-used")?;
    bed.work()?;
    wait::until("the replica's log", || Ok(bed.was_on(1)?.then_some(())))
        .context("a session that has used no server yet asks a replica")
}
