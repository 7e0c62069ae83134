//! Sessions of each sticky mode whose replica dies, comes back, and falls behind.

use super::{Bed, CLUSTER, MONITOR, error, server_id};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Vendor, wait};

on_both_vendors!(a_replica_dies_comes_back_and_lags);

const CHAIN: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'hints' },
  { use = 'sticky' },
  { use = 'session-commands' },
  { use = 'route', policy = 'read-write-split', balance = 'weighted-random' },
]
backend = [{ use = 'catch-up' }]";

/// A session in this mode, and the server that it reads on.
fn session(bed: &Bed, mode: u8) -> Result<(Client, String)> {
    let mut client = bed.connect()?;
    let id = server_id(&mut client, &format!("/* sticky_backend={mode} */"))?;
    Ok((client, id))
}

/// One that reads there.
fn session_on(bed: &Bed, mode: u8, id: &str) -> Result<Client> {
    wait::until(&format!("a session on server {id}"), || {
        let (client, found) = session(bed, mode)?;
        Ok((found == id).then_some(client))
    })
}

fn a_replica_dies_comes_back_and_lags(cluster: &Cluster) -> Result<()> {
    let bed = Bed::with(cluster.vendor, "1 2 3 4", &[CLUSTER, MONITOR, CHAIN], "20s")?;
    let name = &bed.cluster().addresses[1];
    let mut off = session_on(&bed, 0, "2")?;
    let (mut alive, mut strict) = (session_on(&bed, 1, "2")?, session_on(&bed, 2, "2")?);
    for client in [&mut alive, &mut strict] {
        client.must("SET @kept = 7")?;
        ensure!(server_id(client, "")? == "2" && server_id(client, "")? == "2");
    }
    bed.servers.kill_node(2)?;
    bed.until_state(1, "shunned")?;
    let others = ["3", "4"];
    ensure!(others.contains(&&*server_id(&mut off, "")?));
    let went = server_id(&mut alive, "")?;
    ensure!(others.contains(&&*went), "{went}");
    for _ in 0..2 {
        let text = error(&mut strict, "SELECT 1")?;
        ensure!(text.contains("ERR 9004") && text.contains(&**name), "{text}");
        ensure!(text.contains("strict") && text.contains("SHUNNED"), "{text}");
    }
    // Writes go elsewhere, and the session goes on.
    strict.must("DELETE FROM cluster_ready WHERE i = 4711")?;
    bed.servers.start_node(2)?;
    bed.until_state(1, "online")?;
    bed.until_role(1, "replica")?;
    let kept = |client: &mut Client, id: &str| -> Result<()> {
        let rows = client.rows("SELECT @kept, @@server_id")?;
        ensure!(rows == [[Some("7".into()), Some(id.into())]], "{rows:?}");
        Ok(())
    };
    wait::until("the replica to read again", || {
        Ok((server_id(&mut bed.connect()?, "")? == "2").then_some(()))
    })?;
    // It does not go back by itself; the strict one has nowhere else.
    (0..4).try_for_each(|_| kept(&mut alive, &went))?;
    (0..4).try_for_each(|_| kept(&mut strict, "2"))?;
    let (stop, start) = match bed.vendor {
        Vendor::MariaDb => ("STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD"),
        Vendor::MySql => ("STOP REPLICA SQL_THREAD", "START REPLICA SQL_THREAD"),
    };
    bed.on(1, &[stop])?;
    bed.until_state(1, "lagging")?;
    let text = error(&mut strict, "SELECT 1")?;
    ensure!(text.contains("ERR 9004") && text.contains("LAGGING"), "{text}");
    bed.on(1, &[start])?;
    bed.until_state(1, "online")?;
    let lags = went.parse::<usize>()? - 1;
    bed.on(lags, &[stop])?;
    bed.until_state(lags, "lagging")?;
    let goes = server_id(&mut alive, "")?;
    ensure!(goes != went, "it leaves one that lags");
    (0..4).try_for_each(|_| kept(&mut alive, &goes))?;
    kept(&mut strict, "2")?;
    // Switched off with the statement that says so, both are balanced again.
    bed.on(lags, &[start])?;
    bed.until_state(lags, "online")?;
    for client in [&mut alive, &mut strict] {
        let first = server_id(client, "/* sticky_backend=0 */")?;
        wait::until("another replica", || Ok((server_id(client, "")? != first).then_some(())))?;
    }
    Ok(())
}
