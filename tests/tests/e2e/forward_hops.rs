//! TLS and compression of forwarded sessions, on either hop: what one has does not depend on the
//! other.

use crate::forward::{on_go, one, with_rules};
use anyhow::{Context, Result, ensure};
use e2e::{
    Client, Cluster, Scale, Vendor,
    transcript::{Transcript, same},
};
use std::{collections::HashSet, fmt};
use wire::Capabilities;

on_both_vendors!(tls_and_compression_on_either_hop);

/// The listener's mode, and whether the client wants TLS.
const CLIENT_TLS: [(&str, bool); 4] =
    [("disable", false), ("prefer", false), ("prefer", true), ("require", true)];
const SERVER_TLS: [&str; 4] = ["disable", "prefer", "require", "verify-identity"];

/// One choice for each hop's TLS, and for each hop's compression, by their places in the lists.
type Choice = [usize; 4];

struct Hops {
    client_tls: (&'static str, bool),
    server_tls: &'static str,
    client: &'static str,
    server: &'static str,
}

impl fmt::Display for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client_tls: (mode, tls), server_tls, client, server } = self;
        let tls = if *tls { "with" } else { "without" };
        write!(f, "client {tls} TLS ({mode}) and {client}, server TLS {server_tls} and {server}")
    }
}

/// All choices, or so many that each two settings come together once.
fn choices(sizes: Choice, all: bool) -> Vec<Choice> {
    let [a, b, c, d] = sizes.map(|size| 0..size);
    let mut every = Vec::new();
    for a in a {
        for b in b.clone() {
            for c in c.clone() {
                every.extend(d.clone().map(|d| [a, b, c, d]));
            }
        }
    }
    if all {
        return every;
    }
    let pairs = |choice: &Choice| {
        let choice = *choice;
        (0..4).flat_map(move |n| (0..n).map(move |m| (m, choice[m], n, choice[n])))
    };
    let mut missing: HashSet<_> = every.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let new = |choice: &&Choice| pairs(choice).filter(|pair| missing.contains(pair)).count();
        let Some(best) = every.iter().max_by_key(new).copied() else { break };
        for pair in pairs(&best) {
            missing.remove(&pair);
        }
        chosen.push(best);
    }
    chosen
}

#[test]
fn each_two_settings_come_together() {
    let chosen = choices([4, 4, 3, 3], false);
    for (m, n, a, b) in [(0, 1, 3, 2), (0, 2, 1, 1), (1, 3, 2, 0), (2, 3, 2, 2)] {
        assert!(chosen.iter().any(|choice| choice[m] == a && choice[n] == b), "{m}{n}{a}{b}");
    }
    assert!(chosen.len() < 25, "{}", chosen.len());
    assert_eq!(choices([4, 4, 3, 3], true).len(), 144);
}

fn tls_and_compression_on_either_hop(cluster: &Cluster) -> Result<()> {
    let methods: &[&str] = match cluster.vendor {
        Vendor::MariaDb => &["none", "zlib"],
        Vendor::MySql => &["none", "zlib", "zstd"],
    };
    let sizes = [CLIENT_TLS.len(), SERVER_TLS.len(), methods.len(), methods.len()];
    for [a, b, c, d] in choices(sizes, Scale::of_this_run() == Scale::Full) {
        let (client_tls, server_tls) = (CLIENT_TLS[a], SERVER_TLS[b]);
        let hops = Hops { client_tls, server_tls, client: methods[c], server: methods[d] };
        forwards_on(cluster, &hops).with_context(|| hops.to_string())?;
    }
    Ok(())
}

fn forwards_on(cluster: &Cluster, hops: &Hops) -> Result<()> {
    let Hops { client_tls: (listener, tls), server_tls, client, server } = hops;
    let ca = match server_tls.starts_with("verify") {
        true => format!(", ca = {:?}", cluster.certificates.ca),
        false => String::new(),
    };
    let proxy = with_rules(cluster, &on_go())
        .listener_tls(listener)
        .server(&format!("compression = {server:?}\ntls = {{ mode = {server_tls:?}{ca} }}"))
        .start()?;
    let login = cluster.admin().with(Capabilities::LOCAL_FILES);
    let login = if *tls { login.tls() } else { login };
    let login = match *client {
        "zlib" => login.zlib(),
        "zstd" => login.zstd(3),
        _ => login,
    };
    is_so(&mut proxy.connect(&login)?, hops)?;
    same(cluster, &proxy, &login, script)
}

/// Both hops are what they are meant to be, behind the switch.
fn is_so(client: &mut Client, hops: &Hops) -> Result<()> {
    client.must("SELECT 'go'")?;
    ensure!(client.certificate().is_some() == hops.client_tls.1, "the client's TLS");
    let mut status = |name: &str| -> Result<String> {
        let rows = client.rows(&format!("SHOW SESSION STATUS LIKE '{name}'"))?;
        let value = rows.into_iter().next().and_then(|row| row.into_iter().nth(1)).flatten();
        value.with_context(|| format!("no {name}"))
    };
    ensure!(status("Ssl_cipher")?.is_empty() == (hops.server_tls == "disable"), "the server's TLS");
    ensure!(
        (status("Compression")? == "ON") == (hops.server != "none"),
        "the server's compression"
    );
    ensure!(one(client, "SELECT CONNECTION_ID()")?.parse::<u64>()? < 1 << 31);
    Ok(())
}

fn script(client: &mut Client, transcript: &mut Transcript) -> Result<()> {
    for sql in [
        "SELECT 'go'",
        "CREATE TABLE t (a LONGTEXT)",
        "INSERT INTO t VALUES (REPEAT('abc', 100000))",
        "SELECT a FROM t",
        "SELECT nonsense",
    ] {
        transcript.add(sql, &client.query(sql)?);
    }
    let sql = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t";
    transcript.add(sql, &client.upload(sql, "line\n".repeat(30_000).as_bytes())?);
    transcript.add("count", &client.query("SELECT COUNT(*) FROM t")?);
    Ok(())
}
