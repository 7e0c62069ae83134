//! What session commands are put off for, counted on the servers: one that nobody needs hears nothing.

mod primary;

use crate::modes;
use anyhow::{Context, Result, ensure};
use e2e::{
    Client, Proxy, Vendor,
    twin::{Bed, witness::Line},
};

on_both_vendors!(nothing_is_sent_before_the_first_statement_that_needs_it);

/// Statements that an application prepares when it starts.
const PREPARED: usize = 20;
/// Sessions after which the replies to all of this are known.
const KNOWN: usize = 8;

/// How an application begins: what it says before it does anything.
fn begin(proxy: &Proxy, bed: &Bed) -> Result<Client> {
    let mut client = proxy.connect(&bed.logins[0])?;
    for text in ["SET NAMES utf8mb4", "SET autocommit=1", "SET time_zone = '+00:00'"] {
        client.must(text)?;
    }
    for n in 0..PREPARED {
        let statement =
            client.prepare(&format!("INSERT INTO twin_a.w (v) VALUES (CONCAT({n}, ?))"))?;
        ensure!(statement.reply.error().is_none(), "{:?}", statement.reply.error());
    }
    Ok(client)
}

/// Work that only the primary can do.
fn work(client: &mut Client) -> Result<()> {
    client.must("INSERT INTO twin_a.w (v) VALUES ('work')")?;
    client.must("SELECT COUNT(*) FROM twin_a.w FOR UPDATE")
}

/// What scripts' accounts have done on a server.
fn on(lines: &[Line], node: usize) -> Vec<String> {
    let of_sessions =
        |line: &&Line| line.node == node && !line.text.starts_with("SHOW GLOBAL STATUS");
    lines.iter().filter(of_sessions).map(|line| format!("{} {}", line.command, line.text)).collect()
}

fn nothing_is_sent_before_the_first_statement_that_needs_it(vendor: Vendor) -> Result<()> {
    let mut bed = Bed::start(vendor)?;
    let proxy = bed.proxy(&modes::split("mode = 'predict'"))?;
    for _ in 0..KNOWN {
        let mut client = begin(&proxy, &bed)?;
        work(&mut client)?;
        client.quit()?;
    }
    // what those have left behind is over once another has been answered
    let mut last = proxy.connect(&bed.logins[0])?;
    work(&mut last)?;
    last.quit()?;
    let mut client = begin(&proxy, &bed)?;
    bed.quiet()?;
    drop(client);
    client = begin(&proxy, &bed)?;
    let lines = bed.of_sessions()?;
    let sent: Vec<String> = lines
        .iter()
        .filter(|line| !line.command.starts_with("Reset") && !line.command.starts_with("Quit"))
        .map(|line| format!("{} {}", line.command, line.text))
        .collect();
    ensure!(sent.is_empty(), "before the first work: {sent:?}");
    work(&mut client)?;
    let lines = bed.of_sessions()?;
    let primary = on(&lines, 1);
    for text in ["SET NAMES utf8mb4", "SET time_zone = '+00:00'"] {
        let place = |text: &str| primary.iter().position(|line| line.ends_with(text));
        let (set, worked) = (place(text).context("not set")?, place("VALUES ('work')"));
        ensure!(worked.is_some_and(|worked| set < worked), "{primary:?}");
    }
    ensure!(on(&lines, 2).is_empty() && on(&lines, 3).is_empty());
    client.quit()
}
