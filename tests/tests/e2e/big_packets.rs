//! Messages around the borders of packets, both ways.

use anyhow::Result;
use e2e::{Cluster, Proxy, Scale, Setup, transcript::same};
use wire::{Capabilities, CommandCode, packet::MAX_PAYLOAD};

on_both_vendors!(around_a_packet, around_two_packets, prepared, larger_than_allowed);

/// Statements of exactly `length` bytes of payload, and results with a row of about as many.
fn around(cluster: &Cluster, lengths: &[usize]) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    for login in [cluster.admin(), cluster.admin().without(Capabilities::DEPRECATE_EOF)] {
        same(cluster, &proxy, &login, |client, transcript| {
            for &length in lengths {
                let (head, tail) = ("SELECT LENGTH('", "')");
                // the command's byte counts too
                let sql =
                    format!("{head}{}{tail}", "x".repeat(length - 1 - head.len() - tail.len()));
                transcript.add(&format!("{length} up"), &client.query(&sql)?);
                // a row is its value behind a length of four bytes
                let sql = format!("SELECT REPEAT('y', {})", length - 4);
                transcript.add(&format!("{length} down"), &client.query(&sql)?);
            }
            transcript.add("after", &client.query("SELECT 'after'")?);
            Ok(())
        })?;
    }
    Ok(())
}

fn around_a_packet(cluster: &Cluster) -> Result<()> {
    around(cluster, &[MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1])
}

fn around_two_packets(cluster: &Cluster) -> Result<()> {
    if Scale::is_for_load() {
        around(cluster, &[2 * MAX_PAYLOAD - 1, 2 * MAX_PAYLOAD, 2 * MAX_PAYLOAD + 1])?;
    }
    Ok(())
}

fn prepared(cluster: &Cluster) -> Result<()> {
    let value = vec![b'z'; MAX_PAYLOAD + 10];
    same(cluster, &Proxy::start(cluster)?, &cluster.admin(), |client, transcript| {
        let statement = client.prepare("SELECT ? AS v, LENGTH(?) AS l")?;
        let parameters = [Some(&value[..]), Some(&value[..])];
        transcript.add("execute", &client.execute(&statement, 0, &parameters)?);
        transcript.add("after", &client.query("SELECT 'after'")?);
        Ok(())
    })
}

fn larger_than_allowed(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[limits]\nmax_allowed_packet = \"1 MiB\"").start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must(&format!("SELECT LENGTH('{}')", "x".repeat(900_000)))?;
    let sql = format!("SELECT LENGTH('{}')", "x".repeat(1_100_000));
    // as a server does it: ERR 1153, then the connection ends; a client that is still writing may
    // see the end only
    match client.query(&sql) {
        Ok(reply) => assert_eq!(reply.error_code(), Some(1153)),
        Err(error) => assert!(error.is::<std::io::Error>(), "{error:#}"),
    }
    assert!(client.command(CommandCode::PING, b"").is_err());
    proxy.connect(&cluster.admin())?.quit()
}
