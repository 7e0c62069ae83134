//! `/metrics` and `/status`, and what the logs must not say.

use anyhow::{Context, Result};
use e2e::{Cluster, Login, Proxy, Setup};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

on_both_vendors!(metrics_and_status, no_secrets_in_the_log);

fn get(proxy: &Proxy, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(proxy.admin)?;
    stream.set_read_timeout(Some(e2e::wait::LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: towpath\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the headers")?;
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    Ok(body.to_owned())
}

fn metrics_and_status(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 1")?;
    let metrics = get(&proxy, "/metrics")?;
    assert!(metrics.contains("# TYPE towpath_"), "{metrics}");
    assert!(metrics.trim_end().ends_with("# EOF"), "OpenMetrics ends with EOF: {metrics}");
    let status = get(&proxy, "/status")?;
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
