//! The end of the process: sessions finish what they do, new ones are refused, nothing is left.

use anyhow::Result;
use e2e::{Cluster, Proxy, Setup, wait};
use std::net::TcpStream;

on_both_vendors!(an_idle_process_ends_at_once, a_transaction_is_finished, the_grace_ends,);

fn an_idle_process_ends_at_once(cluster: &Cluster) -> Result<()> {
    for signal in ["TERM", "INT"] {
        let mut proxy = Proxy::start(cluster)?;
        proxy.connect(&cluster.admin())?.quit()?;
        let idle = proxy.connect(&cluster.admin())?;
        proxy.signal(signal)?;
        assert_eq!(proxy.ended()?.code(), Some(0), "SIG{signal}\n{}", proxy.log());
        assert!(!proxy.socket.exists(), "the unix socket is left");
        drop(idle);
    }
    Ok(())
}

fn refuses_new_ones(proxy: &Proxy) -> Result<()> {
    wait::until("the listener's end", || {
        Ok(TcpStream::connect(&proxy.address).is_err().then_some(()))
    })
}

fn a_transaction_is_finished(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t (a INT) ENGINE = InnoDB")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t VALUES (1)")?;
    proxy.signal("TERM")?;
    refuses_new_ones(&proxy)?;
    client.must("INSERT INTO t VALUES (2)")?;
    client.must("COMMIT")?;
    assert_eq!(proxy.ended()?.code(), Some(0), "{}", proxy.log());
    assert_eq!(cluster.ask(&format!("SELECT COUNT(*) FROM {}.t", schema.name))?, "2");
    Ok(())
}

fn the_grace_ends(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut proxy = Setup::of(cluster).append("[shutdown]\ngrace = \"200ms\"").start()?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t (a INT) ENGINE = InnoDB")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t VALUES (1)")?;
    proxy.signal("TERM")?;
    proxy.ended()?;
    // what was not committed in time is rolled back
    let sql = format!("SELECT COUNT(*) FROM {}.t", schema.name);
    assert_eq!(cluster.ask(&sql)?, "0");
    assert!(client.query("COMMIT").map_or(true, |reply| reply.error_code().is_some()));
    Ok(())
}
