//! Scripts by their seeds.

use crate::modes::{self, Mode};
use anyhow::{Result, ensure};
use e2e::{
    Cluster, Proxy, Scale, Vendor,
    twin::{Bed, Script, generator, shrink},
};
use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

/// Scripts of one vendor in one run, over all modes.
const SCRIPTS: usize = 1200;
/// Failures after which a run gives up.
const ENOUGH: usize = 4;

#[test]
fn mariadb() -> Result<()> {
    on(Vendor::MariaDb, SCRIPTS)
}

#[test]
fn mysql() -> Result<()> {
    on(Vendor::MySql, SCRIPTS)
}

/// As long as `TOWPATH_TWIN_MINUTES` says, with other scripts each time.
#[test]
fn soak_mariadb() -> Result<()> {
    soak(Vendor::MariaDb)
}

#[test]
fn soak_mysql() -> Result<()> {
    soak(Vendor::MySql)
}

/// A number in the environment.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Failures so far, for a person.
#[derive(Default)]
struct Failures {
    text: String,
    count: usize,
}

fn on(vendor: Vendor, scripts: usize) -> Result<()> {
    if Cluster::find(vendor)?.is_none() {
        return Ok(());
    }
    let scripts = if Scale::of_this_run() == Scale::Fast { scripts / 10 } else { scripts };
    let mut bed = Bed::start(vendor)?;
    let modes = modes::all();
    let mut failures = Failures::default();
    for (number, mode) in modes.iter().enumerate() {
        let proxy = bed.proxy(&mode.chain)?;
        let first = (number * 1_000_000) as u64;
        let seeds = match asked("TOWPATH_TWIN_SEED") {
            Some(seed) => seed..seed + 1,
            None => first..first + (scripts / modes.len()) as u64,
        };
        for seed in seeds {
            one(&mut bed, &proxy, mode, seed, &mut failures)?;
            if failures.count >= ENOUGH {
                break;
            }
        }
        failures.count = 0;
    }
    ensure!(failures.text.is_empty(), "{}", failures.text);
    Ok(())
}

fn soak(vendor: Vendor) -> Result<()> {
    let Some(minutes) = asked("TOWPATH_TWIN_MINUTES") else { return Ok(()) };
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let mut bed = Bed::start(vendor)?;
    let modes = modes::all();
    let proxies: Result<Vec<Proxy>> = modes.iter().map(|mode| bed.proxy(&mode.chain)).collect();
    let proxies = proxies?;
    let mut failures = Failures::default();
    let mut said = 0;
    while Instant::now() < end && failures.count < ENOUGH {
        let seed = fastrand::u64(1 << 32..1 << 53);
        for (mode, proxy) in modes.iter().zip(&proxies) {
            one(&mut bed, proxy, mode, seed, &mut failures)?;
            said += 1;
        }
    }
    ensure!(failures.text.is_empty(), "{}", failures.text);
    ensure!(said > 0);
    Ok(())
}

/// The script of one seed. What fails is made shorter and noted.
fn one(
    bed: &mut Bed,
    proxy: &Proxy,
    mode: &Mode,
    seed: u64,
    failures: &mut Failures,
) -> Result<()> {
    let script = generator::script(seed, bed.plan(mode.split));
    let Some(difference) = bed.difference(proxy, &script)? else { return Ok(()) };
    failures.count += 1;
    // what one session leaves in a pool the next may find, or not
    let mut fails =
        |script: &Script| (0..3).any(|_| bed.difference(proxy, script).ok().flatten().is_some());
    let short = if fails(&script) { shrink::shrink(&script, fails) } else { script };
    let again = bed.difference(proxy, &short)?;
    let last = again.unwrap_or_else(|| format!("(not every time) {difference}"));
    let _ = writeln!(failures.text, "seed {seed}, {}:\n{short}=> {last}\n", mode.name);
    Ok(())
}
