//! Draining: what is under way ends, and nothing else does.

use super::order;
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, wait};
use std::{
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

on_both_vendors!(
    an_order_to_drain_is_followed,
    the_command_line_drains,
    no_transaction_is_cut_that_ends_in_time,
);

fn an_order_to_drain_is_followed(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    let idle = proxy.connect(&cluster.admin())?;
    client.must("CREATE TABLE t (a INT) ENGINE = InnoDB")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t VALUES (1)")?;
    let (status, body) = proxy.post("/drain", "{}")?;
    ensure!(status == 202 && body.contains("\"sessions\":2"), "{status} {body}");
    let (status, body) = proxy.ask("/ready")?;
    ensure!(status == 503 && body.contains("draining"), "at once: {status} {body}");
    ensure!(proxy.ask("/live")?.0 == 200 && proxy.get("/status")?.contains("draining"));
    wait::until("the listener's end", || {
        Ok(TcpStream::connect(&proxy.address).is_err().then_some(()))
    })?;
    let (status, body) = proxy.post("/reload", "{}")?;
    ensure!(status == 422 && body.contains("draining"), "{status} {body}");
    client.must("COMMIT")?;
    ensure!(proxy.ended()?.code() == Some(0), "{}", proxy.log());
    ensure!(cluster.ask(&format!("SELECT COUNT(*) FROM {}.t", schema.name))? == "1");
    drop(idle);
    Ok(())
}

fn the_command_line_drains(cluster: &Cluster) -> Result<()> {
    let mut proxy = Proxy::start(cluster)?;
    let (code, text) = order(&proxy, "drain")?;
    ensure!(code == Some(0) && text.contains("draining: 0 sessions have 30.0 s"), "{text}");
    ensure!(proxy.ended()?.code() == Some(0), "{}", proxy.log());
    Ok(())
}

/// Transactions one after the other, until the proxy has ended between two of them. Gives how many
/// were committed; an error in the middle of one is an error.
fn transactions(mut client: Client, begun: &AtomicUsize) -> Result<usize> {
    let mut committed = 0;
    loop {
        if client.must("BEGIN").is_err() {
            return Ok(committed);
        }
        begun.fetch_add(1, Relaxed);
        client.must("INSERT INTO t VALUES (1)")?;
        client.must("SELECT SLEEP(0.02)")?;
        client.must("INSERT INTO t VALUES (2)")?;
        client.must("COMMIT")?;
        committed += 1;
    }
}

fn no_transaction_is_cut_that_ends_in_time(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut proxy = Setup::of(cluster).append("[shutdown]\ngrace = \"5s\"").start()?;
    let login = cluster.admin().schema(&schema.name);
    proxy.connect(&login)?.must("CREATE TABLE t (a INT) ENGINE = InnoDB")?;
    let begun = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let (client, begun) = (proxy.connect(&login)?, begun.clone());
            Ok(thread::spawn(move || transactions(client, &begun)))
        })
        .collect::<Result<_>>()?;
    wait::until("some load", || Ok((begun.load(Relaxed) > 64).then_some(())))?;
    proxy.signal("TERM")?;
    let mut committed = 0;
    for thread in threads {
        committed += thread.join().expect("it does not panic")?;
    }
    ensure!(proxy.ended()?.code() == Some(0), "{}", proxy.log());
    ensure!(!proxy.log().contains("sessions are cut"), "{}", proxy.log());
    let rows = cluster.ask(&format!("SELECT COUNT(*) FROM {}.t", schema.name))?;
    ensure!(rows == (committed * 2).to_string(), "{committed} commits, {rows} rows");
    Ok(())
}
