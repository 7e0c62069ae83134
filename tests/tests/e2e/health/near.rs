//! Reads that wait for a replica to be near enough to its primary.

use super::{Bed, MONITOR, server_id};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, wait};
use wire::CommandCode;

on_both_vendors!(a_read_waits_for_a_replica_to_come_near);

const CLUSTER: &str = "[[cluster]]
name = 'c'
writer = 0
reader = 1
writer_is_also_reader = false";

const CHAIN: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'hints' },
  { use = 'session-commands' },
  { use = 'route', policy = 'read-write-split', no_replica = 'wait', max_lag = '60s' },
]
backend = [{ use = 'catch-up' }]";

fn a_read_waits_for_a_replica_to_come_near(cluster: &Cluster) -> Result<()> {
    let monitor = format!("{MONITOR}\nheartbeat_table = 'app.heartbeat'");
    let more = [CLUSTER, &monitor, CHAIN];
    let mut bed = Bed::with(cluster.vendor, "1 2", &more, "500ms")?;
    until_known(&bed)?;
    bed.on(
        0,
        &[
            "CREATE TABLE app.heartbeat (server_id INT PRIMARY KEY, ts DATETIME(6) NOT NULL)",
            "INSERT INTO app.heartbeat VALUES (1, UTC_TIMESTAMP(6) - INTERVAL 100 SECOND)",
            "GRANT SELECT ON app.heartbeat TO monitor@'%'",
        ],
    )?;
    until_behind(&bed)?;
    let mut client = bed.connect()?;
    // A hint allows what the chain does not, and what may run anywhere does not wait.
    ensure!(server_id(&mut client, "/* max_lag_ms=3600000 */")? == "2");
    client.must("SET @a = 1")?;
    // The time that a connection may take is over.
    let reply = client.query("SELECT 1")?;
    let text = reply.error().context("a read on a replica that is far behind")?.to_string();
    ensure!(text.contains("ERR 9001") && text.contains("hostgroup 1 within 500ms"), "{text}");
    ensure!(text.contains("s behind, 60s is allowed"), "{text}");
    client.quit()?;
    // The replica comes nearer meanwhile.
    bed.proxy = bed.again(&more, "60s")?;
    until_known(&bed)?;
    until_behind(&bed)?;
    let mut client = bed.connect()?;
    client.must("SET @a = 1")?;
    client.send_command(CommandCode::QUERY, b"SELECT @@server_id, @a")?;
    bed.on(0, &["UPDATE app.heartbeat SET ts = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"])?;
    let reply = client.receive(CommandCode::QUERY)?;
    ensure!(reply.error().is_none(), "{:?}", reply.error());
    let rows = reply.rows(client.capabilities)?;
    ensure!(rows == [[Some("2".into()), Some("1".into())]], "{rows:?}");
    client.quit()
}

fn until_known(bed: &Bed) -> Result<()> {
    bed.until_role(0, "primary")?;
    bed.until_role(1, "replica")
}

fn until_behind(bed: &Bed) -> Result<()> {
    wait::until("the lag to be known", || {
        let lag = bed.report(1)?["lag_seconds"].as_f64();
        Ok(lag.filter(|lag| *lag > 60.0).map(|_| ()))
    })
}
