//! What route asks of servers on its own is not seen by anybody: neither in what a session's last
//! statement has left, nor by the sessions with which it shares its connections.

use super::{chain, table, value};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, wait};

on_both_vendors!(
    what_the_last_statement_has_left_outlives_a_prepare,
    a_shared_connection_keeps_its_state,
    anothers_write_is_not_taken_for_ones_own,
);

fn what_the_last_statement_has_left_outlives_a_prepare(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    for after in ["any", "primary", "wait", "gtid"] {
        let settings = format!("replicas = 1, after_write = '{after}'");
        let proxy = Setup::of(cluster).append(&chain(&settings)).start()?;
        let (mut direct, mut proxied) = (cluster.direct()?, proxy.connect(&cluster.admin())?);
        for asks in ["SELECT ROW_COUNT()", "SHOW WARNINGS", "SELECT FOUND_ROWS()"] {
            let script = |client: &mut Client| -> Result<_> {
                client.must("SET sql_mode = ''")?;
                client.must(&format!("INSERT INTO {table} (at) VALUES ('x'), ('y'), ('z')"))?;
                client.prepare(&format!("SELECT at FROM {table}"))?;
                client.rows(asks)
            };
            let (here, there) = (script(&mut direct)?, script(&mut proxied)?);
            ensure!(here == there, "{after}: {asks}: {here:?} directly, else {there:?}");
        }
        proxied.quit()?;
    }
    Ok(())
}

fn sharing(cluster: &Cluster, connections: u32, after: &str) -> Result<Proxy> {
    let chain = chain(&format!("replicas = 1, after_write = {after}"));
    let chain = chain.replace("[chain.main]", "[chain.main]\nmultiplex = true");
    let servers = format!("max_connections = {connections}");
    Setup::of(cluster).server(&servers).append(&chain).start()
}

fn a_shared_connection_keeps_its_state(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let proxy = sharing(cluster, 1, "'wait', after_write_timeout = '20s'")?;
    let (mut one, mut other) = (proxy.connect(&cluster.admin())?, proxy.connect(&cluster.admin())?);
    let mode = "SELECT @@sql_mode FOR UPDATE";
    let plain = value(&mut other, mode)?;
    one.must("SET sql_mode = 'ANSI_QUOTES'")?;
    one.must(&format!("INSERT INTO {table} (at) VALUES (1)"))?;
    // The primary is asked what was written, and no more runs there.
    value(&mut one, &format!("SELECT MAX(at) FROM {table}"))?;
    let found = value(&mut other, mode)?;
    ensure!(found == plain, "the other session's is {found:?}");
    ensure!(value(&mut one, mode)? == "ANSI_QUOTES");
    Ok(())
}

fn anothers_write_is_not_taken_for_ones_own(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let proxy = sharing(cluster, 2, "'gtid'")?;
    let insert = format!("INSERT INTO {table} (at) VALUES (1)");
    let count = format!("SELECT COUNT(*) FROM {table}");
    let connect = || proxy.connect(&cluster.admin());
    let (mut first, mut one, mut other) = (connect()?, connect()?, connect()?);
    first.must(&insert)?;
    let before = value(&mut cluster.direct()?, &count)?.parse::<u32>()?;
    let mut replicas = Vec::new();
    for address in &cluster.addresses[1..3] {
        let mut replica = Client::connect(address, &cluster.admin())?;
        wait::until("replication", || {
            Ok((value(&mut replica, &count)? == before.to_string()).then_some(()))
        })?;
        // It does not get the next row while this lasts.
        replica.must(&format!("LOCK TABLES {table} READ"))?;
        replicas.push(replica);
    }
    // The connection of the first write is in use, then the one of the second.
    first.must("BEGIN")?;
    one.must(&insert)?;
    other.must("BEGIN")?;
    first.must("COMMIT")?;
    let found = value(&mut one, &count)?;
    ensure!(found == (before + 1).to_string(), "{found} rows, {before} before its own");
    for mut replica in replicas {
        replica.must("UNLOCK TABLES")?;
        replica.quit()?;
    }
    Ok(())
}
