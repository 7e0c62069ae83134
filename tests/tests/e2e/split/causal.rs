//! Reads behind a write of their session.

use super::{on_the_primary, start, table, value};
use anyhow::{Result, ensure};
use e2e::Cluster;
use std::collections::BTreeSet;

on_both_vendors!(a_session_reads_what_it_has_written, a_session_that_has_written_reads_there);

fn a_session_reads_what_it_has_written(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let proxy = start(cluster, ", after_write = 'wait', after_write_timeout = '20s'")?;
    let mut client = proxy.connect(&cluster.admin())?;
    let mut seen = BTreeSet::new();
    for n in 1..=40 {
        match n % 3 {
            0 => {
                client.must("BEGIN")?;
                client.must(&format!("INSERT INTO {table} (at) VALUES ({n})"))?;
                client.must("COMMIT")?;
            }
            _ => client.must(&format!("INSERT INTO {table} (at) VALUES ({n})"))?,
        }
        for _ in 0..2 {
            let rows = client.rows(&format!("SELECT MAX(at), @@server_id FROM {table}"))?;
            ensure!(rows[0][0] == Some(n.to_string()), "{n}: {rows:?}");
            seen.extend(rows[0][1].clone());
        }
    }
    ensure!(seen.iter().eq(["2", "3"]), "the replicas have answered: {seen:?}");
    // The same, where the server says behind each write what it was.
    let tracked = match cluster.vendor {
        e2e::Vendor::MySql => "SET session_track_gtids = OWN_GTID",
        e2e::Vendor::MariaDb => "SET session_track_system_variables = 'last_gtid'",
    };
    client.must(tracked)?;
    for n in 41..=60 {
        client.must(&format!("INSERT INTO {table} (at) VALUES ({n})"))?;
        ensure!(value(&mut client, &format!("SELECT MAX(at) FROM {table}"))? == n.to_string());
    }
    client.quit()
}

fn a_session_that_has_written_reads_there(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let proxy = start(cluster, ", after_write = 'primary'")?;
    let mut client = proxy.connect(&cluster.admin())?;
    ensure!(value(&mut client, "SELECT @@server_id")? != "1");
    client.must(&format!("INSERT INTO {table} (at) VALUES (1)"))?;
    on_the_primary(&mut client, "SELECT @@server_id")?;
    client.quit()
}
