//! `/metrics` and `/status`, and what the logs must not say.

use anyhow::Result;
use e2e::{Cluster, Login, Proxy, Setup};

on_both_vendors!(metrics_and_status, no_secrets_in_the_log);

fn metrics_and_status(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 1")?;
    let metrics = proxy.get("/metrics")?;
    assert!(metrics.contains("# TYPE towpath_"), "{metrics}");
    assert!(metrics.trim_end().ends_with("# EOF"), "OpenMetrics ends with EOF: {metrics}");
    let status = proxy.get("/status")?;
    for address in &cluster.addresses {
        assert!(status.contains(address), "{address} in {status}");
    }
    client.quit()
}

fn no_secrets_in_the_log(cluster: &Cluster) -> Result<()> {
    let mut proxy = Setup::of(cluster).append("[log]\nlevel = \"trace\"").start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'text-of-a-statement'")?;
    let _ = client.query("SELECT text_of_a_wrong_statement FRM x");
    client.prepare("SELECT 'text-of-a-prepared-one'")?;
    client.quit()?;
    assert!(proxy.connect(&Login::new("admin", "a-wrong-password")).is_err());
    proxy.signal("TERM")?;
    proxy.ended()?;
    let log = proxy.log();
    assert!(!log.is_empty());
    for secret in [
        &cluster.admin().password,
        "text-of-a-statement",
        "text_of_a_wrong_statement",
        "text-of-a-prepared-one",
        "a-wrong-password",
    ] {
        assert!(!log.contains(secret), "{secret} in the log:\n{log}");
    }
    Ok(())
}
