//! Many things at once: what a connection lacks goes out in few writes.

use super::{chain, start, value};
use anyhow::{Result, ensure};
use e2e::{Cluster, Setup, Vendor};
use wire::Capabilities;

on_both_vendors!(
    h78_on_compressed_links,
    h79_replies_that_fill_the_socket,
    h85_before_a_file_of_the_client_s,
    h39_before_long_data,
    long_ones_and_short_ones,
);

/// A compression each that the vendor's servers have.
fn compressions(cluster: &Cluster) -> Vec<&'static str> {
    match cluster.vendor {
        Vendor::MariaDb => vec!["none", "zlib"],
        Vendor::MySql => vec!["none", "zlib", "zstd"],
    }
}

fn h78_on_compressed_links(cluster: &Cluster) -> Result<()> {
    for compression in compressions(cluster) {
        let line = format!("compression = {compression:?}");
        let proxy = Setup::of(cluster).server(&line).append(&chain("")).start()?;
        for read in [true, false] {
            let mut client = proxy.connect(&cluster.admin())?;
            for number in 0..20 {
                // Some of them in more than one packet of TCP.
                let length = if number % 5 == 0 { 3000 } else { 3 };
                client.must(&format!("SET @v{number} = '{}'", "v".repeat(length)))?;
                client.must(&format!("SET @w{number} = '{}'", "w".repeat(length)))?;
            }
            client.prepare("SELECT ?")?;
            if !read {
                client.must("DO /* hg=1 */ 1")?;
            }
            let sum: Vec<String> =
                (0..20).map(|it| format!("LENGTH(@v{it}) + LENGTH(@w{it})")).collect();
            let text = format!("SELECT /* hg=1 */ {}", sum.join("+"));
            let here = value(&mut client, &text.replace("hg=1", ""))?;
            let there = value(&mut client, &text)?;
            ensure!(here == there, "{compression}: {here} {there}");
            client.quit()?;
        }
    }
    Ok(())
}

fn h79_replies_that_fill_the_socket(cluster: &Cluster) -> Result<()> {
    let tables: Vec<String> =
        (0..8).map(|it| format!("information_schema.columns t{it}")).collect();
    let text = format!("SELECT * FROM {} LIMIT 0", tables.join(", "));
    for compression in compressions(cluster) {
        let line = format!("compression = {compression:?}");
        let proxy = Setup::of(cluster).server(&line).append(&chain("")).start()?;
        let mut client = proxy.connect(&cluster.admin())?;
        let mut last = None;
        for _ in 0..500 {
            let statement = client.prepare(&text)?;
            ensure!(statement.reply.error().is_none(), "{:?}", statement.reply.error());
            last = Some(statement);
        }
        ensure!(value(&mut client, "SELECT /* hg=1 */ 'there'")? == "there");
        if let Some(statement) = last {
            ensure!(client.execute(&statement, 0, &[])?.error_code().is_none());
        }
        client.quit()?;
    }
    Ok(())
}

fn h85_before_a_file_of_the_client_s(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster)?;
    let login = cluster.admin().schema(&schema.name).with(Capabilities::LOCAL_FILES);
    let mut client = proxy.connect(&login)?;
    client.must("CREATE TABLE t (a INT, b INT)")?;
    // The replica has it first.
    client.must("SET /* hg=1 */ @b = 40")?;
    let load = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a) SET b = @b + a";
    let reply = client.upload(load, b"1\n2\n")?;
    ensure!(reply.error_code().is_none(), "{:?}", reply.error());
    ensure!(value(&mut client, "SELECT SUM(b) FROM t")? == "83");
    client.quit()
}

fn h39_before_long_data(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let statement = client.prepare("SELECT CONCAT(@a, ?)")?;
    client.must("SET /* hg=1 */ @a = 'before '")?;
    client.long_data(&statement, 0, b"long ")?;
    client.long_data(&statement, 0, b"data")?;
    let executed = client.execute_with_long_data(&statement)?;
    let wanted = b"before long data";
    ensure!(executed.raw.windows(wanted.len()).any(|window| window == wanted));
    client.quit()
}

fn long_ones_and_short_ones(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SET @sum = 0")?;
    for length in [10, 70_000, 10, 300_000, 200_000, 60_000, 60_000, 60_000, 60_000, 60_000, 1] {
        client.must(&format!("SET @sum = @sum + LENGTH('{}')", "x".repeat(length)))?;
    }
    ensure!(value(&mut client, "SELECT /* hg=1 */ @sum")? == "870021");
    client.quit()
}
