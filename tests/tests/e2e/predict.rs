//! Session commands that are answered from memory: rows H of the hazard table, with the client's
//! reply compared with a direct connection's, and with what has reached the servers.
//!
//! A statement with `hg=1` in a comment goes to a replica, any other to the primary.

mod ambient;
mod begin;
mod counted;
mod denied;
mod seen;
mod state;
mod statements;
mod sticking;
mod transactions;
mod versions;

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, Relay, Setup, client::Reply};

/// A chain that answers from memory, always where it can.
const CHAIN: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'rules', rules = [
    { rule_id = 1, match_pattern = 'hg=1', destination_hostgroup = 1, apply = true },
  ] },
  { use = 'session-commands', mode = 'predict', predict.audit_rate = 0 },
  { use = 'route' },
]
backend = [{ use = 'catch-up' }]";

/// Sessions after which a reply is sure.
const SESSIONS: usize = 5;

/// A proxy, and a relay before each server that writes down what reaches it.
struct World {
    relays: Vec<Relay>,
    proxy: Proxy,
    primary: String,
    login: Login,
}

impl World {
    fn start(cluster: &Cluster) -> Result<Self> {
        let alone = cluster.addresses.len() == 1;
        let replicas = |line: &&str| alone && line.contains("hg=1");
        let lines: Vec<_> = CHAIN.lines().filter(|line| !replicas(line)).collect();
        Self::start_with(cluster, |setup| setup.append(&lines.join("\n")))
    }

    fn start_with(cluster: &Cluster, more: impl FnOnce(Setup) -> Setup) -> Result<Self> {
        let relays = cluster.addresses.iter().map(|address| Relay::start(address));
        let relays = relays.collect::<Result<Vec<_>>>()?;
        let mut behind = cluster.clone();
        behind.addresses = relays.iter().map(|relay| relay.address.clone()).collect();
        let proxy = more(Setup::of(&behind)).start()?;
        let (primary, login) = (cluster.addresses[0].clone(), cluster.admin());
        Ok(Self { relays, proxy, primary, login })
    }

    fn connect(&self) -> Result<Client> {
        self.proxy.connect(&self.login)
    }

    /// Runs `script` in as many sessions as make its replies sure.
    fn learn(&self, script: &[&str]) -> Result<()> {
        self.learn_as(&self.login, |client| {
            script.iter().try_for_each(|text| client.query(text).map(drop))
        })
    }

    fn learn_as(&self, login: &Login, run: impl Fn(&mut Client) -> Result<()>) -> Result<()> {
        for _ in 0..SESSIONS {
            let mut client = self.proxy.connect(login)?;
            run(&mut client)?;
            client.quit()?;
        }
        Ok(())
    }

    /// How often `mark` has reached each of the servers.
    fn given_each(&self, mark: &str) -> Vec<usize> {
        let times = |bytes: &[u8]| {
            bytes.windows(mark.len()).filter(|window| *window == mark.as_bytes()).count()
        };
        let of = |relay: &Relay| relay.passed().iter().map(|passed| times(&passed.client)).sum();
        self.relays.iter().map(of).collect()
    }

    fn given(&self, mark: &str) -> usize {
        self.given_each(mark).iter().sum()
    }

    /// Connections that were opened to the servers.
    fn opened(&self) -> usize {
        self.relays.iter().map(|relay| relay.passed().len()).sum()
    }

    /// A number of `/metrics` of this name, summed over all lines that have `label`.
    fn counted(&self, name: &str, label: &str) -> Result<u64> {
        let metrics = self.proxy.get("/metrics")?;
        let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit_once(' ')).try_fold(0, |sum, (_, value)| {
            Ok(sum + value.parse::<f64>().context("a number")? as u64)
        })
    }

    fn predicted(&self) -> Result<u64> {
        self.counted("towpath_session_commands_total", "what=\"predicted\"")
    }

    /// The same script on a direct connection to the primary and through the proxy: every byte of
    /// the replies is the same. The proxied connection.
    fn twins(&self, script: &[&str]) -> Result<Client> {
        let mut direct = Client::connect(&self.primary, &self.login)?;
        let mut proxied = self.connect()?;
        for text in script {
            same(text, &direct.query(text)?, &proxied.query(text)?)?;
        }
        direct.quit()?;
        Ok(proxied)
    }

    /// The next command is answered from memory: nothing of it reaches a server.
    fn remembered(&self, client: &mut Client, text: &str) -> Result<Reply> {
        let (given, before) = (self.given(text), self.predicted()?);
        let reply = client.query(text)?;
        ensure!(self.given(text) == given, "{text} has reached a server");
        ensure!(self.predicted()? == before + 1, "{text} was not counted");
        Ok(reply)
    }

    /// The next command is executed by a server at once.
    fn by_server(&self, client: &mut Client, text: &str) -> Result<Reply> {
        let given = self.given(text);
        let reply = client.query(text)?;
        ensure!(self.given(text) == given + 1, "{text} has not reached a server");
        Ok(reply)
    }
}

fn same(text: &str, direct: &Reply, proxied: &Reply) -> Result<()> {
    let shown = |reply: &Reply| reply.raw.escape_ascii().to_string();
    ensure!(
        direct.raw == proxied.raw,
        "{text}:\n direct  {}\n proxied {}",
        shown(direct),
        shown(proxied)
    );
    Ok(())
}
