//! Who works on the primary alone.

use super::{PREPARED, begin, on, work};
use crate::modes;
use anyhow::{Result, ensure};
use e2e::{Client, Vendor, twin::Bed};

on_both_vendors!(replicas_hear_nothing_of_who_works_on_the_primary);

/// How often a server has been asked for what must not reach it.
fn counters(server: &mut Client) -> Result<Vec<Vec<Option<String>>>> {
    server.rows(
        "SHOW GLOBAL STATUS WHERE Variable_name IN \
         ('Com_set_option', 'Com_stmt_prepare', 'Com_prepare_sql', 'Com_change_db')",
    )
}

fn replicas_hear_nothing_of_who_works_on_the_primary(vendor: Vendor) -> Result<()> {
    let mut bed = Bed::start(vendor)?;
    let proxy = bed.proxy(&modes::from_primary(""))?;
    let addresses = bed.servers.cluster.addresses.clone();
    let admin = bed.servers.cluster.admin();
    let mut replicas =
        [Client::connect(&addresses[1], &admin)?, Client::connect(&addresses[2], &admin)?];
    let before = replicas.each_mut().map(counters);
    bed.log()?;
    for _ in 0..3 {
        let mut client = begin(&proxy, &bed)?;
        work(&mut client)?;
        client.quit()?;
    }
    let lines = bed.of_sessions()?;
    ensure!(on(&lines, 1).iter().filter(|line| line.starts_with("Prepare")).count() >= PREPARED);
    for (node, before) in [2, 3].into_iter().zip(before) {
        let heard = on(&lines, node);
        ensure!(heard.is_empty(), "server {node} was given {heard:?}");
        let after = counters(&mut replicas[node - 2])?;
        ensure!(before? == after, "server {node}: {after:?}");
    }
    Ok(())
}
