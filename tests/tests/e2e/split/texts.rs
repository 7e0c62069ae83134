//! Texts of several statements in a transaction that only reads, on a replica.

use super::{READ, on_one_replica, start, table, value};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Vendor, wait};
use wire::Capabilities;

on_both_vendors!(a_text_that_leaves_the_transaction_may_write);

fn a_text_that_leaves_the_transaction_may_write(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    // Of an administrator MariaDB's replicas take writes.
    let login = cluster.login("app").with(Capabilities::MULTI_STATEMENTS);
    cluster.direct()?.must(&format!("GRANT ALL ON {}.* TO app@'%'", schema.name))?;
    for address in &cluster.addresses[1..] {
        wait::until("the grant", || {
            let reply =
                Client::connect(address, &login)?.query(&format!("SELECT 1 FROM {table}"))?;
            Ok(reply.error().is_none().then_some(()))
        })?;
    }
    let proxy = start(cluster, "")?;
    let mut direct = Client::connect(&cluster.addresses[0], &login)?;
    let mut proxied = proxy.connect(&login)?;
    let insert = format!("INSERT INTO {table} (at) VALUES (4711)");
    let mut written = 0;
    for text in [
        format!("COMMIT; {insert}"),
        format!("ROLLBACK; {insert}"),
        format!("START TRANSACTION READ WRITE; {insert}; COMMIT"),
        format!("BEGIN; {insert}; COMMIT"),
    ] {
        for client in [&mut direct, &mut proxied] {
            client.must("START TRANSACTION READ ONLY")?;
        }
        on_one_replica(&mut proxied, READ)?;
        let fails = [&mut direct, &mut proxied].map(|client| -> Result<_> {
            let reply = client.query(&text)?;
            let last = reply.packets().pop().unwrap_or_default();
            Ok(last.first() == Some(&0xFF))
        });
        let [here, there] = fails;
        let (here, there) = (here?, there?);
        ensure!(here == there, "{text}: refused {here} directly, else {there}");
        // MySQL's BEGIN says nothing of writing, and is as what it ends.
        ensure!(!here || cluster.vendor == Vendor::MySql && text.starts_with("BEGIN"), "{text}");
        written += if here { 0 } else { 2 };
        for client in [&mut direct, &mut proxied] {
            client.must("COMMIT")?;
        }
    }
    let count = format!("SELECT COUNT(*) FROM {table} WHERE at = 4711");
    ensure!(value(&mut cluster.direct()?, &count)? == written.to_string());
    wait::until("the session to read on replicas again", || {
        Ok((value(&mut proxied, READ)? != "1").then_some(()))
    })?;
    cluster.direct()?.must(&format!("REVOKE ALL ON {}.* FROM app@'%'", schema.name))?;
    proxied.quit()
}
