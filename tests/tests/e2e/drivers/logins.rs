//! Every driver, every plugin that the proxy asks for, with and without TLS.

use super::{
    bed::{Bed, Case, To},
    languages,
};
use anyhow::{Context, Result};
use e2e::{Cluster, Scale, skip};

on_both_vendors!(mysql_native_password, caching_sha2_password);

/// Accounts and TLS, those first that are always tried.
const PAIRS: [(&str, bool); 4] =
    [("admin", false), ("app_nopw", true), ("admin", true), ("app_nopw", false)];

fn mysql_native_password(cluster: &Cluster) -> Result<()> {
    every_driver(cluster, "mysql_native_password")
}

fn caching_sha2_password(cluster: &Cluster) -> Result<()> {
    every_driver(cluster, "caching_sha2_password")
}

/// What the server asks for directly may be another plugin: the session behind it is the same.
fn every_driver(cluster: &Cluster, plugin: &str) -> Result<()> {
    let full = Scale::of_this_run() == Scale::Full;
    let bed = Bed::with(cluster, &format!("default_auth = {plugin:?}"))?;
    for driver in languages::ALL {
        let Some(program) = driver.program() else {
            skip::report(&format!("{} is not installed", driver.name));
            continue;
        };
        for (account, tls) in PAIRS.iter().take(if full { 4 } else { 2 }) {
            let login = cluster.login(account);
            let case = Case { tls: *tls, compress: "none" };
            // the one schema that both may use
            bed.same_as(&login, &case, |to| To { schema: "app", ..to }.run(&program, 0, "login"))
                .with_context(|| format!("{} as {account}", driver.name))?;
        }
    }
    Ok(())
}
