//! The same under sysbench's `oltp_read_write`, which ends at the first error that is not the
//! server's business.

use super::load::{CHAIN, change, with_certificates};
use crate::sysbench::{Bench, Figures};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Held, Proxy, Scale, Setup};
use std::{fs, path::Path, thread};

on_both_vendors!(sysbench_sees_nothing_of_it,);

const THREADS: &str = "--threads=32";

fn sysbench_sees_nothing_of_it(cluster: &Cluster) -> Result<()> {
    let Some(bench) = Bench::new(cluster)? else { return Ok(()) };
    let reloads = if Scale::of_this_run() == Scale::Full { 1000 } else { 100 };
    let folder = tempfile::TempDir::with_prefix("towpath-certificates-")?;
    let tls = with_certificates(cluster, folder.path(), 0)?;
    let proxy = Setup::of(cluster).listener(&tls).append(CHAIN).start()?;
    bench.prepare()?;
    let held = Held::at_start(&proxy)?;
    let (mut turn, mut transactions) = (0, 0);
    for mode in ["disable", "auto"].into_iter().cycle() {
        if turn >= reloads {
            break;
        }
        let mode = format!("--db-ps-mode={mode}");
        let arguments = [mode.as_str(), "--mysql-ssl=on", THREADS, "--time=4", "run"];
        let report = thread::scope(|scope| {
            let load = scope.spawn(|| bench.call(&proxy.address, &arguments));
            let reloaded = reload(cluster, &proxy, folder.path(), &mut turn, || load.is_finished());
            load.join().expect("it does not panic").and_then(|report| reloaded.map(|()| report))
        })?;
        let figures = Figures::read(&report)?;
        ensure!(figures.reconnects == 0, "after {turn} reloads: {report}");
        transactions += figures.transactions;
    }
    ensure!(transactions > 100, "{transactions} transactions");
    held.until_again(&proxy)
}

/// Another file after the other until it is over; each is in use before the next.
fn reload(
    cluster: &Cluster,
    proxy: &Proxy,
    folder: &Path,
    turn: &mut usize,
    is_over: impl Fn() -> bool,
) -> Result<()> {
    let original = fs::read_to_string(proxy.config())?;
    let replica = format!("[[server]]\nhostgroup = 1\naddress = {:?}\n", cluster.addresses[1]);
    while !is_over() {
        *turn += 1;
        proxy.edit(|_| change(&original, *turn, &replica))?;
        with_certificates(cluster, folder, *turn)?;
        proxy.reload().with_context(|| format!("reload {turn}"))?;
    }
    proxy.edit(|_| original)?;
    proxy.reload().map(drop)
}
