//! Two writes of which the second depends on the first, read the other way round: who sees the
//! second must see the first. One replica is always a second behind the other.

use super::chain;
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Scale, Setup, Throwaway, Vendor, wait};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

on_both_vendors!(sticky_sessions_see_causes_before_effects);

/// Makes node 3 apply everything a second late.
fn delay(cluster: &Cluster) -> Result<()> {
    let mut client = Client::connect(&cluster.addresses[2], &cluster.admin())?;
    let script = match cluster.vendor {
        Vendor::MariaDb => ["STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY = 1", "START SLAVE"],
        Vendor::MySql => [
            "STOP REPLICA SQL_THREAD",
            "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 1",
            "START REPLICA SQL_THREAD",
        ],
    };
    script.iter().try_for_each(|sql| client.must(sql))?;
    client.quit()
}

/// Writes A, then B, again and again, until it is told to stop.
fn write(cluster: &Cluster, stop: &AtomicBool) -> Result<()> {
    let mut client = cluster.direct()?;
    for n in 1.. {
        if stop.load(Relaxed) {
            break;
        }
        client.must(&format!("INSERT INTO app.causes VALUES ({n})"))?;
        client.must(&format!("INSERT INTO app.effects VALUES ({n})"))?;
    }
    client.quit()
}

fn last(client: &mut Client, hint: &str, table: &str) -> Result<u64> {
    let rows = client.rows(&format!("SELECT {hint} COALESCE(MAX(n), 0) FROM app.{table}"))?;
    let value = rows.into_iter().flatten().next().flatten().context("one value")?;
    Ok(value.parse()?)
}

/// How many of so many looks at B and then at A have found a B without its A.
fn torn(proxy: &Proxy, cluster: &Cluster, hint: &str, looks: usize) -> Result<usize> {
    let mut torn = 0;
    let mut client = None;
    for n in 0..looks {
        // A session is balanced once, so there have to be many.
        if n % 20 == 0 {
            client.take().map(Client::quit).transpose()?;
        }
        let client = match &mut client {
            Some(client) => client,
            none => none.insert(proxy.connect(&cluster.admin())?),
        };
        let effect = last(client, hint, "effects")?;
        torn += usize::from(last(client, hint, "causes")? < effect);
    }
    Ok(torn)
}

#[allow(clippy::print_stderr)]
fn sticky_sessions_see_causes_before_effects(cluster: &Cluster) -> Result<()> {
    let own = Throwaway::start_cluster(cluster.vendor, "1 2 3")?;
    let cluster = Arc::new(own.cluster.clone());
    let mut direct = cluster.direct()?;
    for table in ["causes", "effects"] {
        direct.must(&format!("CREATE TABLE app.{table} (n INT PRIMARY KEY)"))?;
    }
    delay(&cluster)?;
    let filters = chain("replicas = 1, balance = 'round-robin'").replace(
        "{ use = 'session-commands' }",
        "{ use = 'hints' }, { use = 'sticky' }, { use = 'session-commands' }",
    );
    let proxy = Setup::of(&cluster).append(&filters).start()?;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (cluster, stop) = (cluster.clone(), stop.clone());
        thread::spawn(move || write(&cluster, &stop))
    };
    for address in &cluster.addresses[1..] {
        let mut replica = Client::connect(address, &cluster.admin())?;
        wait::until("replication", || {
            let reply = replica.query("SELECT n FROM app.effects LIMIT 1")?;
            if reply.error().is_some() {
                return Ok(None);
            }
            Ok((!reply.rows(replica.capabilities)?.is_empty()).then_some(()))
        })?;
    }
    let looks = if Scale::of_this_run() == Scale::Full { 10_000 } else { 400 };
    let sticky = torn(&proxy, &cluster, "/* sticky_backend=1 */", looks)?;
    let loose = torn(&proxy, &cluster, "", looks)?;
    stop.store(true, Relaxed);
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    eprintln!(
        "{}: of {looks} pairs {sticky} torn in sticky sessions, {loose} in others",
        own.cluster.vendor
    );
    ensure!(sticky == 0, "{sticky} of {looks} pairs were torn in sticky sessions");
    ensure!(loose > 0, "no pair was torn without stickiness: the test shows nothing");
    Ok(())
}
