//! Primaries that become replicas, and replicas that become primaries.

use super::{Bed, CHAIN, CLUSTER, MONITOR, error, server_id};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, wait};
use serde_json::Value;

on_both_vendors!(a_switchover, two_that_can_be_written_to, the_file_is_wrong);

impl Bed {
    /// Who the admin port says is the primary.
    fn primary(&self) -> Result<Value> {
        let answer: Value = serde_json::from_str(&self.proxy.get("/servers")?)?;
        Ok(answer["clusters"][0]["primary"].clone())
    }

    fn until_primary(&self, at: usize) -> Result<()> {
        let address = &self.cluster().addresses[at];
        wait::until(&format!("server {at} to be the primary"), || {
            Ok((self.primary()? == address.as_str()).then_some(()))
        })
    }
}

fn a_switchover(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    let mut idle = bed.connect()?;
    idle.must("SET @kept = 'yes'")?;
    ensure!(server_id(&mut idle, "")? == "1" && server_id(&mut idle, "/* hg=1 */")? == "2");
    let mut open = bed.connect()?;
    open.must("BEGIN")?;
    open.must("INSERT INTO cluster_ready VALUES (2)")?;

    bed.demote(0)?;
    bed.until_role(0, "replica")?;
    bed.has_told(0, "primary", "replica", "read-only")?;
    // the open transaction ends with an error
    let told = error(&mut open, "INSERT INTO cluster_ready VALUES (3)");
    ensure!(told.is_err() || told.is_ok_and(|text| text.contains("ERR 9007")));
    ensure!(open.query("COMMIT").is_err(), "a session went on without its transaction");
    // both are replicas now: a write waits, and goes to the new primary
    bed.promote(1)?;
    let mut fresh = bed.connect()?;
    fresh.must("INSERT INTO cluster_ready VALUES (4)")?;
    ensure!(server_id(&mut fresh, "")? == "2");
    bed.until_primary(1)?;
    bed.has_told(1, "replica", "primary", "can be written to")?;
    // a session that was idle keeps what it has set, there and on the old primary
    ensure!(idle.rows("SELECT @kept, @@server_id")? == [[Some("yes".into()), Some("2".into())]]);
    wait::until("the old primary to read", || {
        let id = server_id(&mut bed.connect()?, "/* hg=1 */")?;
        Ok((id == "1").then_some(()))
    })?;
    let log = bed.proxy.log();
    ensure!(log.contains("the cluster's primary"), "no line about the primary");
    ensure!(bed.proxy.get("/metrics")?.contains("towpath_backend_member"));
    idle.quit()
}

fn two_that_can_be_written_to(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    let mut client = bed.connect()?;
    ensure!(server_id(&mut client, "")? == "1");
    bed.promote(1)?;
    bed.until_role(1, "primary")?;
    let log = bed.proxy.log();
    let line = log.lines().find(|line| line.contains("several servers can be written to"));
    let line = line.context("no line")?;
    ensure!(line.contains("ERROR") && line.contains(&bed.cluster().addresses[1]), "{line}");
    ensure!(bed.primary()? == bed.cluster().addresses[0].as_str());
    for comment in ["", "/* hg=1 */"] {
        ensure!(server_id(&mut bed.connect()?, comment)? == "1", "the rival is used");
    }
    ensure!(server_id(&mut client, "")? == "1");
    // the operator decides: the other one takes over when the primary is taken out
    let path = format!("/servers/{}/state", bed.cluster().addresses[0]);
    bed.proxy.post(&path, "{\"state\": \"offline-soft\"}")?;
    bed.until_primary(1)?;
    ensure!(server_id(&mut bed.connect()?, "")? == "2");
    client.quit()
}

/// The file takes a replica for the primary: the servers know better.
fn the_file_is_wrong(cluster: &Cluster) -> Result<()> {
    let swapped = CLUSTER.replace("writer = 0\nreader = 1", "writer = 1\nreader = 0");
    let bed = Bed::with(cluster.vendor, "1 2", &[&swapped, MONITOR, CHAIN], "20s")?;
    bed.until_primary(0)?;
    bed.until_role(1, "replica")?;
    let mut client = bed.connect()?;
    ensure!(server_id(&mut client, "/* hg=1 */")? == "1" && server_id(&mut client, "")? == "2");
    client.quit()
}
