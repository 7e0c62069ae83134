//! How reads are spread over servers of different weights.

use super::{chain, value};
use anyhow::{Result, ensure};
use e2e::{Cluster, Scale, Setup};
use std::{collections::BTreeMap, fmt::Write as _};

on_both_vendors!(reads_are_spread_by_weight, a_server_without_weight_gets_nothing);

/// A proxy whose hostgroup 5 has all three servers, with these weights.
fn reads(cluster: &Cluster, weights: [u32; 3], balance: &str, count: u32) -> Result<Counts> {
    let mut more = String::new();
    for (address, weight) in cluster.addresses.iter().zip(weights) {
        writeln!(more, "[[server]]\nhostgroup = 5\naddress = {address:?}\nweight = {weight}")?;
    }
    more += &chain(&format!("replicas = 5, balance = '{balance}'"));
    let proxy = Setup::of(cluster).append(&more).start()?;
    let mut clients =
        (0..4).map(|_| proxy.connect(&cluster.admin())).collect::<Result<Vec<_>>>()?;
    let mut counts = Counts::new();
    for n in 0..count {
        let client = &mut clients[n as usize % 4];
        *counts.entry(value(client, "SELECT @@server_id")?).or_default() += 1;
    }
    Ok(counts)
}

type Counts = BTreeMap<String, u32>;

fn reads_are_spread_by_weight(cluster: &Cluster) -> Result<()> {
    let count = if Scale::of_this_run() == Scale::Full { 100_000 } else { 6_000 };
    for balance in ["weighted-random", "round-robin"] {
        let counts = reads(cluster, [1, 2, 3], balance, count)?;
        for (id, share) in [("1", 1.0 / 6.0), ("2", 2.0 / 6.0), ("3", 3.0 / 6.0)] {
            let found = f64::from(counts.get(id).copied().unwrap_or(0)) / f64::from(count);
            ensure!((found - share).abs() < 0.03, "{balance}: {counts:?}");
        }
    }
    // One at a time finds all of them idle, so weights alone count; of three, two are compared.
    let counts = reads(cluster, [1, 1, 1], "least-outstanding", count / 10)?;
    ensure!(counts.values().all(|found| *found > count / 10 / 6), "{counts:?}");
    ensure!(counts.len() == 3);
    let counts = reads(cluster, [1, 1, 1], "lowest-latency", count / 10)?;
    ensure!(counts.values().all(|found| *found > 0), "every server is looked at: {counts:?}");
    Ok(())
}

fn a_server_without_weight_gets_nothing(cluster: &Cluster) -> Result<()> {
    for balance in ["least-outstanding", "weighted-random", "round-robin", "lowest-latency"] {
        let counts = reads(cluster, [0, 1, 1], balance, 60)?;
        ensure!(counts.keys().eq(["2", "3"]), "{balance}: {counts:?}");
    }
    Ok(())
}
