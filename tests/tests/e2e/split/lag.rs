//! Replicas of which one has stopped applying what the primary does.

use super::{chain, table, value};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, Throwaway, Vendor, wait};
use std::collections::BTreeSet;

on_both_vendors!(reads_behind_a_write_and_reads_in_order);

/// Makes a replica apply, or stop applying, what it gets.
fn apply(cluster: &Cluster, node: usize, word: &str) -> Result<()> {
    let mut client = Client::connect(&cluster.addresses[node - 1], &cluster.admin())?;
    client.must(&format!("{word} REPLICA SQL_THREAD"))?;
    client.quit()
}

/// One cluster for both: it takes long to start.
fn reads_behind_a_write_and_reads_in_order(cluster: &Cluster) -> Result<()> {
    let own = Throwaway::start_cluster(cluster.vendor, "1 2 3")?;
    let cluster = &own.cluster;
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    apply(cluster, 3, "STOP")?;
    behind_a_write(cluster, &table)?;
    behind_what_a_hint_names(cluster, &table)?;
    as_a_rule_asks(cluster, &table)?;
    in_order(cluster, &table)
}

/// Rules send reads to the replicas, and say whose writes they must see.
fn as_a_rule_asks(cluster: &Cluster, table: &str) -> Result<()> {
    let (mut seen, mut misses) = (BTreeSet::new(), 0);
    for asks in [false, true] {
        let from = if asks { "gtid_from_hostgroup = 0, " } else { "" };
        let chain = format!(
            "[chain.main]\nsession = [\n{{ use = 'parse' }},\n{{ use = 'rules', rules = [\n\
             {{ rule_id = 1, match_digest = '^SELECT', {from}destination_hostgroup = 1, apply = true }},\n\
             ] }},\n{{ use = 'session-commands' }},\n\
             {{ use = 'route', balance = 'round-robin', balance_each = 'command' }},\n]\n\
             backend = [{{ use = 'catch-up' }}]\n"
        );
        let proxy = Setup::of(cluster).append(&chain).start()?;
        let mut client = proxy.connect(&cluster.admin())?;
        for n in 0..6 {
            let at = 1000 + 100 * u32::from(asks) + n;
            client.must(&format!("INSERT INTO {table} (at) VALUES ({at})"))?;
            let read = format!("SELECT COUNT(*), @@server_id FROM {table} WHERE at = {at}");
            let found = client.rows(&read)?.remove(0);
            let sees = found[0].as_deref() == Some("1");
            ensure!(sees || !asks, "{n}: {found:?}");
            misses += usize::from(!sees);
            if asks {
                seen.extend(found[1].clone());
            }
        }
        client.quit()?;
    }
    ensure!(misses > 0, "node 3 was asked by nobody");
    ensure!(seen.contains("2") && !seen.contains("3"), "{seen:?}");
    Ok(())
}

/// Node 3 never has what the session has written, node 2 has it soon.
fn behind_a_write(cluster: &Cluster, table: &str) -> Result<()> {
    let start = |after: &str| {
        let settings = format!("replicas = 1, balance = 'round-robin', {after}");
        Setup::of(cluster).append(&chain(&settings)).start()
    };
    let mut misses = 0;
    for (after, sees_all) in [
        ("after_write = 'any'", false),
        ("after_write = 'primary'", true),
        ("after_write = 'gtid'", true),
        ("after_write = 'wait', after_write_timeout = '0s'", true),
        ("after_write = 'wait', after_write_timeout = '200ms'", true),
    ] {
        let proxy = start(after)?;
        let mut client = proxy.connect(&cluster.admin())?;
        for _ in 0..6 {
            client.must(&format!("INSERT INTO {table} (at) VALUES (7)"))?;
            let id = value(&mut client, "SELECT LAST_INSERT_ID()")?;
            let read = format!("SELECT COUNT(*), @@server_id FROM {table} WHERE id = {id}");
            let found = client.rows(&read)?;
            let sees = found[0][0].as_deref() == Some("1");
            ensure!(sees || !sees_all, "{after}: {found:?}");
            ensure!(!sees || found[0][1].as_deref() != Some("3"), "{after}: {found:?}");
            misses += usize::from(!sees);
        }
    }
    ensure!(misses > 0, "node 3 was asked by nobody");
    Ok(())
}

/// Another session's write, whose GTID the client has been told.
fn behind_what_a_hint_names(cluster: &Cluster, table: &str) -> Result<()> {
    let mut writer = cluster.direct()?;
    writer.must(&format!("INSERT INTO {table} (at) VALUES (4711)"))?;
    let gtids = match cluster.vendor {
        Vendor::MariaDb => value(&mut writer, "SELECT @@gtid_binlog_pos")?,
        Vendor::MySql => value(&mut writer, "SELECT @@GLOBAL.gtid_executed")?.replace('\n', ""),
    };
    let filters = chain("replicas = 1, balance = 'round-robin'")
        .replace("{ use = 'session-commands' }", "{ use = 'hints' }, { use = 'session-commands' }");
    let proxy = Setup::of(cluster).append(&filters).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let mut misses = 0;
    for hint in ["", &format!("/* min_gtid={gtids} */")] {
        for _ in 0..4 {
            let read = format!("SELECT {hint} COUNT(*), @@server_id FROM {table} WHERE at = 4711");
            let found = client.rows(&read)?;
            let sees = found[0][0].as_deref() == Some("1");
            ensure!(sees || hint.is_empty(), "{hint}: {found:?}");
            misses += usize::from(!sees);
        }
    }
    ensure!(misses > 0, "node 3 was asked by nobody");
    client.quit()
}

/// Whoever sees the second of two writes must see the first: a session that stays on its replica
/// does, one that does not sees the second on node 2 and misses the first on node 3.
fn in_order(cluster: &Cluster, table: &str) -> Result<()> {
    let mut writer = cluster.direct()?;
    for at in [100, 200] {
        writer.must(&format!("INSERT INTO {table} (at) VALUES ({at})"))?;
    }
    let mut near = Client::connect(&cluster.addresses[1], &cluster.admin())?;
    let there = |client: &mut Client, hint: &str, at: u32| -> Result<bool> {
        let read = format!("SELECT {hint} COUNT(*) FROM {table} WHERE at = {at}");
        Ok(value(client, &read)? == "1")
    };
    wait::until("replication", || Ok(there(&mut near, "", 200)?.then_some(())))?;
    let filters = chain("replicas = 1, balance = 'round-robin'").replace(
        "{ use = 'session-commands' }",
        "{ use = 'hints' }, { use = 'sticky' }, { use = 'session-commands' }",
    );
    let proxy = Setup::of(cluster).append(&filters).start()?;
    let torn = |proxy: &Proxy, hint: &str| -> Result<usize> {
        let mut torn = 0;
        for _ in 0..10 {
            let mut client = proxy.connect(&cluster.admin())?;
            let second = there(&mut client, hint, 200)?;
            torn += usize::from(second && !there(&mut client, hint, 100)?);
            client.quit()?;
        }
        Ok(torn)
    };
    ensure!(torn(&proxy, "/* sticky_backend=1 */")? == 0, "a sticky session saw them apart");
    ensure!(torn(&proxy, "")? > 0, "no session was moved between its reads");
    Ok(())
}
