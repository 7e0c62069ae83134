//! How reads are spread over servers of different weights.

use super::{chain, value};
use anyhow::{Result, ensure};
use e2e::{Cluster, Proxy, Scale, Setup};
use std::{collections::BTreeMap, fmt::Write as _};

on_both_vendors!(
    reads_are_spread_by_weight,
    sticky_sessions_are_balanced_when_they_begin,
    a_server_without_weight_gets_nothing,
);

/// A proxy whose hostgroup 5 has all three servers, with these weights.
fn start(cluster: &Cluster, weights: [u32; 3], balance: &str) -> Result<Proxy> {
    let mut more = String::new();
    for (address, weight) in cluster.addresses.iter().zip(weights) {
        writeln!(more, "[[server]]\nhostgroup = 5\naddress = {address:?}\nweight = {weight}")?;
    }
    more += &chain(&format!("replicas = 5, balance = '{balance}'")).replace(
        "{ use = 'session-commands' }",
        "{ use = 'hints' }, { use = 'sticky' }, { use = 'session-commands' }",
    );
    Setup::of(cluster).append(&more).start()
}

fn reads(cluster: &Cluster, weights: [u32; 3], balance: &str, count: u32) -> Result<Counts> {
    let proxy = start(cluster, weights, balance)?;
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

#[allow(clippy::print_stderr)]
fn reads_are_spread_by_weight(cluster: &Cluster) -> Result<()> {
    // Of few reads the lot is further off.
    let (count, off) = match Scale::of_this_run() {
        Scale::Full => (100_000, 0.03),
        _ => (6_000, 0.15),
    };
    for balance in ["least-outstanding", "weighted-random", "round-robin"] {
        let counts = reads(cluster, [1, 2, 3], balance, count)?;
        eprintln!("{}: {balance}: {count} reads, weights 1:2:3: {counts:?}", cluster.vendor);
        for (id, weight) in [("1", 1.0), ("2", 2.0), ("3", 3.0)] {
            let wanted = f64::from(count) * weight / 6.0;
            let found = f64::from(counts.get(id).copied().unwrap_or(0));
            ensure!((found - wanted).abs() < off * wanted, "{balance}: {counts:?}");
        }
    }
    let counts = reads(cluster, [1, 1, 1], "lowest-latency", count / 10)?;
    ensure!(counts.values().all(|found| *found > 0), "every server is looked at: {counts:?}");
    Ok(())
}

fn sticky_sessions_are_balanced_when_they_begin(cluster: &Cluster) -> Result<()> {
    for balance in ["least-outstanding", "round-robin"] {
        let proxy = start(cluster, [1, 2, 3], balance)?;
        let mut counts = Counts::new();
        let mut clients = Vec::new();
        for _ in 0..12 {
            let mut client = proxy.connect(&cluster.admin())?;
            let first = value(&mut client, "/* sticky_backend=1 */ SELECT @@server_id")?;
            for _ in 0..3 {
                ensure!(value(&mut client, "SELECT @@server_id")? == first, "{balance}");
            }
            *counts.entry(first).or_default() += 1;
            clients.push(client);
        }
        ensure!(counts.values().eq(&[2, 4, 6]), "{balance}: {counts:?}");
    }
    Ok(())
}

fn a_server_without_weight_gets_nothing(cluster: &Cluster) -> Result<()> {
    for balance in ["least-outstanding", "weighted-random", "round-robin", "lowest-latency"] {
        let counts = reads(cluster, [0, 1, 1], balance, 60)?;
        ensure!(counts.keys().eq(["2", "3"]), "{balance}: {counts:?}");
    }
    Ok(())
}
