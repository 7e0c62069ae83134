//! Servers that die, stop, lag, are full, or change sides: what the proxy makes of it, what its
//! clients see, and what the admin port, the log and the metrics say.

mod dying;
mod failover;
mod moving;
mod near;
mod operator;
mod sticking;

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, Setup, Throwaway, Vendor, wait};
use serde_json::Value;
use wire::CommandCode;

on_both_vendors!(
    killed_and_started_again,
    stopped_and_continued,
    replication_stops_and_goes_on,
    lag_by_a_table,
    a_full_server_is_not_dead,
    the_monitor_keeps_its_connection,
    without_a_monitor_sessions_find_out,
);

/// A chain that keeps session state and sends a command where its comment says.
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

const MONITOR: &str = "[monitor]
user = 'monitor'
password = 'monitorpw'
ping_interval = '200ms'
ping_timeout = '500ms'
read_only_interval = '200ms'
lag_interval = '200ms'
shun_time = '200ms'";

const CLUSTER: &str = "[[cluster]]
name = 'c'
writer = 0
reader = 1
max_lag = '60s'
writer_is_also_reader = false";

/// Servers of one's own and the proxy in front of them.
struct Bed {
    servers: Throwaway,
    proxy: Proxy,
    vendor: Vendor,
}

impl Bed {
    /// A primary and one replica, in a cluster that is watched.
    fn new(vendor: Vendor) -> Result<Self> {
        Self::with(vendor, "1 2", &[CLUSTER, MONITOR, CHAIN], "20s")
    }

    fn with(vendor: Vendor, nodes: &'static str, more: &[&str], budget: &str) -> Result<Self> {
        let servers = Throwaway::start_cluster(vendor, nodes)?;
        let proxy = proxy(&servers.cluster, more, budget)?;
        let bed = Self { servers, proxy, vendor };
        if more.contains(&CLUSTER) {
            bed.until_role(0, "primary")?;
            (1..bed.cluster().addresses.len()).try_for_each(|at| bed.until_role(at, "replica"))?;
        }
        Ok(bed)
    }

    /// Another proxy in front of the same servers.
    fn again(&self, more: &[&str], budget: &str) -> Result<Proxy> {
        proxy(self.cluster(), more, budget)
    }

    fn cluster(&self) -> &Cluster {
        &self.servers.cluster
    }

    /// An account that read_only holds for.
    fn login(&self) -> Login {
        self.cluster().login("app").schema("app")
    }

    fn connect(&self) -> Result<Client> {
        self.proxy.connect(&self.login())
    }

    /// What the admin port says of the server at this place in the cluster.
    fn report(&self, at: usize) -> Result<Value> {
        report(&self.proxy, &self.cluster().addresses[at])
    }

    fn until_state(&self, at: usize, state: &str) -> Result<Value> {
        wait::until(&format!("server {at} to be {state}"), || {
            Ok(Some(self.report(at)?).filter(|report| report["state"] == state))
        })
    }

    fn until_role(&self, at: usize, role: &str) -> Result<()> {
        wait::until(&format!("server {at} to be a {role}"), || {
            Ok((self.report(at)?["role"] == role).then_some(()))
        })
    }

    /// Statements on one server, as its administrator.
    fn on(&self, at: usize, script: &[&str]) -> Result<()> {
        let mut direct = Client::connect(&self.cluster().addresses[at], &self.cluster().admin())?;
        script.iter().try_for_each(|sql| direct.must(sql))?;
        direct.quit()
    }

    fn demote(&self, at: usize) -> Result<()> {
        self.on(at, &["SET GLOBAL read_only = 1"])
    }

    fn promote(&self, at: usize) -> Result<()> {
        self.on(
            at,
            match self.vendor {
                Vendor::MariaDb => &["STOP ALL SLAVES", "SET GLOBAL read_only = 0"],
                Vendor::MySql => {
                    &["STOP REPLICA", "SET GLOBAL super_read_only = 0", "SET GLOBAL read_only = 0"]
                }
            },
        )
    }

    /// Each change of a server's state is in its events, in the metrics, and a line of the log.
    fn has_told(&self, at: usize, from: &str, to: &str, cause: &str) -> Result<()> {
        let report = self.report(at)?;
        let events = report["events"].as_array().context("events")?;
        let has = |event: &&Value| {
            event["from"] == from
                && event["to"] == to
                && event["cause"].as_str().is_some_and(|text| text.contains(cause))
        };
        ensure!(events.iter().any(|event| has(&event)), "{from} {to} {cause}: {report:#}");
        let (name, log) = (&self.cluster().addresses[at], self.proxy.log());
        let line = log.lines().any(|line| {
            [name, from, to, cause].iter().all(|word| line.contains(*word))
                && line.contains("a server's")
        });
        ensure!(line, "no line of {from} {to} {cause}");
        let metric = format!(
            "towpath_backend_transitions_total{{server=\"{name}\",from=\"{from}\",to=\"{to}\"}}"
        );
        ensure!(self.proxy.get("/metrics")?.contains(&metric), "no {metric}");
        Ok(())
    }
}

fn proxy(cluster: &Cluster, more: &[&str], budget: &str) -> Result<Proxy> {
    let backend = format!("[backend]\nconnect_timeout = '500ms'\nconnect_budget = '{budget}'");
    let setup = Setup::of(cluster).append(&backend);
    more.iter().fold(setup, |setup, text| setup.append(text)).start()
}

fn report(proxy: &Proxy, name: &str) -> Result<Value> {
    let answer: Value = serde_json::from_str(&proxy.get("/servers")?)?;
    let servers = answer["servers"].as_array().context("servers")?;
    servers.iter().find(|server| server["name"] == name).cloned().context("no such server")
}

/// The server that runs a statement.
fn server_id(client: &mut Client, comment: &str) -> Result<String> {
    let rows = client.rows(&format!("SELECT @@server_id {comment}"))?;
    rows.into_iter().flatten().next().flatten().context("no row")
}

/// The error's number and text.
fn error(client: &mut Client, sql: &str) -> Result<String> {
    let reply = client.query(sql)?;
    Ok(reply.error().with_context(|| format!("no error for {sql}"))?.to_string())
}

fn killed_and_started_again(cluster: &Cluster) -> Result<()> {
    let bed = Bed::with(cluster.vendor, "1 2", &[CLUSTER, MONITOR, CHAIN], "1s")?;
    let mut client = bed.connect()?;
    client.must("SET @kept = 7")?;
    bed.servers.kill()?;
    let shunned = bed.until_state(0, "shunned")?;
    ensure!(shunned["shunned_for_seconds"].is_number(), "{shunned:#}");
    bed.has_told(0, "online", "shunned", "ping")?;
    // the one that is left is a replica: no write goes there
    let text = error(&mut client, "INSERT INTO cluster_ready VALUES (2)")?;
    let [primary, replica] = &bed.cluster().addresses[..] else { unreachable!("two") };
    ensure!(text.contains("ERR 9001") && text.contains("hostgroup 0 within 1s"), "{text}");
    ensure!(text.contains(&format!("{primary}: SHUNNED: ")), "{text}");
    ensure!(text.contains(&format!("{replica}: not in this hostgroup")), "{text}");
    // reads go on, and so does the session
    ensure!(server_id(&mut client, "/* hg=1 */")? == "2");
    bed.servers.start_again()?;
    bed.until_state(0, "online")?;
    bed.has_told(0, "shunned", "online", "answers again")?;
    ensure!(client.rows("SELECT @kept, @@server_id")? == [[Some("7".into()), Some("1".into())]]);
    client.quit()
}

fn stopped_and_continued(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    let mut waiting = bed.connect()?;
    bed.servers.stop()?;
    bed.until_state(0, "shunned")?;
    bed.has_told(0, "online", "shunned", "within 500ms")?;
    // it waits for a server, and is served once there is one
    waiting.send_command(CommandCode::QUERY, b"SELECT @@server_id")?;
    bed.servers.go_on()?;
    bed.until_state(0, "online")?;
    let reply = waiting.receive(CommandCode::QUERY)?;
    ensure!(reply.error().is_none(), "{:?}", reply.error());
    waiting.quit()
}

fn replication_stops_and_goes_on(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    let mut client = bed.connect()?;
    ensure!(server_id(&mut client, "/* hg=1 */")? == "2");
    wait::until("a lag", || {
        let known = bed.report(1)?["lag_seconds"].is_number();
        Ok(known.then_some(()))
    })?;
    let (stop, start) = match cluster.vendor {
        Vendor::MariaDb => ("STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD"),
        Vendor::MySql => ("STOP REPLICA SQL_THREAD", "START REPLICA SQL_THREAD"),
    };
    bed.on(1, &[stop])?;
    let report = bed.until_state(1, "lagging")?;
    ensure!(report["replication_stopped"] == true, "{report:#}");
    bed.has_told(1, "online", "lagging", "replication does not run")?;
    // the primary stands in while no replica can
    ensure!(server_id(&mut client, "/* hg=1 */")? == "1");
    bed.on(1, &[start])?;
    bed.until_state(1, "online")?;
    wait::until("the replica to read again", || {
        let mut client = bed.connect()?;
        Ok((server_id(&mut client, "/* hg=1 */")? == "2").then_some(()))
    })?;
    client.quit()
}

fn lag_by_a_table(cluster: &Cluster) -> Result<()> {
    let heartbeat = format!("{MONITOR}\nheartbeat_table = 'app.heartbeat'");
    let bed = Bed::with(cluster.vendor, "1 2", &[CLUSTER, &heartbeat, CHAIN], "20s")?;
    wait::until("the monitor to say that it cannot read the table", || {
        let report = bed.report(1)?;
        let probes = report["probes"].as_array().context("probes")?;
        let lag = probes.iter().find(|probe| probe["probe"] == "lag");
        Ok(lag.and_then(|lag| lag["error"].as_str()).map(|_| ()))
    })?;
    // what it may not read says nothing of the server
    ensure!(bed.report(1)?["state"] == "online");
    bed.on(
        0,
        &[
            "CREATE TABLE app.heartbeat (server_id INT PRIMARY KEY, ts DATETIME(6) NOT NULL)",
            "INSERT INTO app.heartbeat VALUES (1, UTC_TIMESTAMP(6) - INTERVAL 100 SECOND)",
            // last: an empty table that can be read counts as replication that does not run
            "GRANT SELECT ON app.heartbeat TO monitor@'%'",
        ],
    )?;
    let report = bed.until_state(1, "lagging")?;
    let lag = report["lag_seconds"].as_f64().context("no lag")?;
    ensure!(lag >= 100.0 && lag.fract() != 0.0, "{report:#}");
    bed.on(0, &["UPDATE app.heartbeat SET ts = UTC_TIMESTAMP(6)"])?;
    bed.until_state(1, "online")?;
    bed.has_told(1, "lagging", "online", "within max_lag of 60s")
}

fn a_full_server_is_not_dead(cluster: &Cluster) -> Result<()> {
    let bed = Bed::with(cluster.vendor, "1 2", &[CLUSTER, MONITOR, CHAIN], "500ms")?;
    bed.on(0, &["SET GLOBAL max_connections = 10"])?;
    let mut held = Vec::new();
    let full = loop {
        ensure!(held.len() < 20, "it is never full");
        let mut client = bed.proxy.connect(&bed.cluster().login("app"))?;
        let reply = client.query("SELECT 1")?;
        if let Some(error) = reply.error() {
            break error.to_string();
        }
        held.push(client);
    };
    ensure!(full.contains("ERR 9001") && full.contains("1040"), "{full}");
    let probes = |bed: &Bed| -> Result<f64> {
        let metrics = bed.proxy.get("/metrics")?;
        let name = format!(
            "towpath_backend_probes_total{{server=\"{}\",probe=\"read-only\",result=\"ok\"}} ",
            bed.cluster().addresses[0]
        );
        let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
        Ok(value.context("no probes")?.parse()?)
    };
    let before = probes(&bed)?;
    wait::until("more answers", || Ok((probes(&bed)? > before + 3.0).then_some(())))?;
    ensure!(bed.report(0)?["state"] == "online");
    // one goes, another comes
    held.pop().context("one that is held")?.quit()?;
    let mut client = bed.proxy.connect(&bed.cluster().login("app"))?;
    wait::until("room", || Ok(client.query("SELECT 1")?.error().is_none().then_some(())))?;
    client.quit()
}

fn the_monitor_keeps_its_connection(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    ensure!(!bed.proxy.log().contains("connections are cut"), "there were none of sessions");
    let mine = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'monitor'";
    let id = bed.cluster().ask(mine)?;
    let asked = |bed: &Bed| {
        let metrics = bed.proxy.get("/metrics")?;
        let counts = metrics.lines().filter(|line| {
            line.starts_with("towpath_backend_probes_total") && line.contains("result=\"ok\"")
        });
        let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok::<_, anyhow::Error>(counts.sum::<f64>())
    };
    let before = asked(&bed)?;
    wait::until("twenty more answers", || Ok((asked(&bed)? > before + 20.0).then_some(())))?;
    ensure!(bed.cluster().ask(mine)? == id, "it is another connection");
    // it is killed: another takes its place, and nothing is said of the server
    bed.on(0, &[&format!("KILL {id}")])?;
    wait::until("another connection", || {
        let now = bed.cluster().ask(mine).unwrap_or_default();
        Ok((now != id && !now.is_empty()).then_some(()))
    })?;
    ensure!(
        bed.report(0)?["events"]
            .as_array()
            .is_some_and(|events| { events.iter().all(|event| event["kind"] != "state") })
    );
    Ok(())
}

/// Two servers of one hostgroup and no monitor: one that cannot be connected to is tried last.
fn without_a_monitor_sessions_find_out(cluster: &Cluster) -> Result<()> {
    let servers = [Throwaway::start(cluster.vendor)?, Throwaway::start(cluster.vendor)?];
    let second = &servers[1].cluster.addresses[0];
    let more = format!("[[server]]\nhostgroup = 0\naddress = {second:?}");
    let setup = Setup::of(&servers[0].cluster).append(&more);
    let proxy = setup.append("[monitor]\nshun_time = '100ms'").start()?;
    let login = servers[0].cluster.admin();
    let state = || Ok::<_, anyhow::Error>(report(&proxy, second)?["state"].clone());
    servers[1].kill()?;
    wait::until("the dead one to be shunned", || {
        let mut client = proxy.connect(&login)?;
        client.must("SELECT 1")?;
        client.quit()?;
        Ok((proxy.get("/metrics")?.contains("from=\"online\",to=\"shunned\"")).then_some(()))
    })?;
    servers[1].start_again()?;
    wait::until("its time to be over", || Ok((state()? == "online").then_some(())))
}
