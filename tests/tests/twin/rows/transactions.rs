//! Transactions, what is set for one statement, and what is evaluated once.

use super::{Twins, server, value};
use crate::modes;
use anyhow::{Result, ensure};
use e2e::{Client, Vendor, twin::Bed, wait};
use wire::CommandCode;

on_both_vendors!(h20_h21_h23_h24_h26_h31_h88_once);

/// One set of servers for all of them: to start it takes longer than they do.
fn h20_h21_h23_h24_h26_h31_h88_once(vendor: Vendor) -> Result<()> {
    let bed = Bed::start(vendor)?;
    h88_a_ping_with_nothing_connected(&bed)?;
    h21_what_may_have_been_used_up(&bed)?;
    h23_transactions_that_only_read(&bed)?;
    h26_a_value_read_from_a_table(&bed)?;
    h31_a_value_made_by_an_insert(&bed)?;
    h20_what_was_set_for_the_next_transaction(&bed)?;
    h24_an_id_for_one_insert(&bed)
}

fn h88_a_ping_with_nothing_connected(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut twins = Twins::new(bed, &proxy)?;
    for _ in 0..2 {
        let [direct, proxied] = [&mut twins.direct, &mut twins.proxied]
            .map(|client| client.command(CommandCode::PING, b""));
        let (direct, proxied) = (direct?, proxied?);
        ensure!(direct.raw == proxied.raw, "{:?} {:?}", direct.raw, proxied.raw);
        twins.same("DO 1")?;
    }
    Ok(())
}

fn h21_what_may_have_been_used_up(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut twins = Twins::new(bed, &proxy)?;
    twins.all_same(&["SET TRANSACTION READ ONLY", "SHOW /* hg=1 */ TABLES FROM twin_b"])?;
    // used up on MySQL alone
    let [direct, proxied] = [&mut twins.direct, &mut twins.proxied]
        .map(|client| client.query("INSERT INTO twin_a.w (v) VALUES ('x')"));
    ensure!(direct?.error_code() == proxied?.error_code());
    twins.all_same(&["COMMIT", "TRUNCATE twin_a.w"])
}

fn h23_transactions_that_only_read(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut twins = Twins::new(bed, &proxy)?;
    twins.all_same(&[
        "SET SESSION TRANSACTION READ ONLY",
        "START /* hg=1 */ TRANSACTION",
        "SELECT COUNT(*) FROM twin_a.fixed",
    ])?;
    ensure!(server(&mut twins.proxied, "")? != "1", "the transaction is on a replica");
    twins.same("COMMIT")?;
    ensure!(server(&mut twins.proxied, "")? == "1");
    twins.same("START TRANSACTION")?;
    twins.refused("INSERT INTO twin_a.w (v) VALUES ('x')", 1792)?;
    twins.all_same(&["COMMIT", "SET SESSION TRANSACTION READ WRITE"])
}

fn h26_a_value_read_from_a_table(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut twins = Twins::new(bed, &proxy)?;
    twins.all_same(&["SELECT /* hg=1 */ 1", "SET autocommit = 0"])?;
    let set = twins.same("SET @n = (SELECT MAX(id) FROM twin_a.fixed)")?;
    ensure!(set.end.status.is_some_and(|status| status.contains(wire::Status::IN_TRANS)));
    twins.all_same(&["SELECT /* hg=1 */ @n", "COMMIT", "SET autocommit = 1", "SELECT @n"])
}

fn h31_a_value_made_by_an_insert(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut twins = Twins::new(bed, &proxy)?;
    let mut both = |text: &str| -> Result<()> {
        // each in its own table would say the same; one after the other in one does too
        twins.same("TRUNCATE twin_a.w")?;
        twins.same(text).map(drop)
    };
    both("SET @v = 1")?;
    both("SELECT /* hg=1 */ @v")?;
    twins.direct.must("BEGIN")?;
    twins.direct.must("INSERT INTO twin_a.w (v) VALUES (@v := @v + 1)")?;
    twins.direct.must("ROLLBACK")?;
    twins.proxied.must("INSERT INTO twin_a.w (v) VALUES (@v := @v + 1)")?;
    twins.all_same(&["SELECT @v", "SELECT /* hg=1 */ @v"])?;
    ensure!(value(&mut twins.proxied, "SELECT COUNT(*) FROM twin_a.w")? == "1");
    twins.proxied.must("TRUNCATE twin_a.w")
}

fn h24_an_id_for_one_insert(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut admin = bed.servers.cluster.direct()?;
    let mut client = proxy.connect(&bed.servers.cluster.admin())?;
    client.must("SET NAMES latin1")?;
    client.must("SET insert_id = 100")?;
    client.must("INSERT INTO twin_a.w (v) VALUES ('x')")?;
    let id = connection(&mut client, &mut admin)?;
    lose(&mut admin, &id)?;
    client.must("INSERT INTO twin_a.w (v) VALUES ('y')")?;
    let ids = client.rows("SELECT id FROM twin_a.w ORDER BY id")?;
    ensure!(ids == [[Some("100".to_owned())], [Some("101".to_owned())]], "{ids:?}");
    ensure!(value(&mut client, "SELECT @@character_set_client")? == "latin1");
    client.must("TRUNCATE twin_a.w")?;
    client.quit()
}

/// The primary's id of the session's connection.
fn connection(client: &mut Client, admin: &mut Client) -> Result<String> {
    let mark = format!("mark{}", std::process::id());
    client.must(&format!(
        "INSERT INTO twin_c.secret SELECT id FROM information_schema.processlist \
         WHERE info LIKE '%{mark}%'"
    ))?;
    let id = value(admin, "SELECT a FROM twin_c.secret")?;
    admin.must("TRUNCATE twin_c.secret")?;
    Ok(id)
}

/// Ends that connection, and waits until it is gone.
fn lose(admin: &mut Client, id: &str) -> Result<()> {
    admin.must(&format!("KILL {id}"))?;
    let count = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
    wait::until("the connection's end", || Ok((value(admin, &count)? == "0").then_some(())))
}

/// A connection that is lost with it is replaced by one that is given it: no transaction begins without.
/// Once a statement may have used it up, the session ends with its connection.
fn h20_what_was_set_for_the_next_transaction(bed: &Bed) -> Result<()> {
    let mut admin = bed.servers.cluster.direct()?;
    for chain in [modes::by_comment(""), modes::split("propagate = 'eager'")] {
        let proxy = bed.proxy(&chain)?;
        let begin = |admin: &mut Client, between: &[&str]| -> Result<Client> {
            let mut client = proxy.connect(&bed.servers.cluster.admin())?;
            client.must("SET @on = 'the primary'")?;
            let id = connection(&mut client, admin)?;
            client.must("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")?;
            for text in between {
                client.must(text)?;
            }
            lose(admin, &id)?;
            Ok(client)
        };
        let mut client =
            begin(&mut admin, &["SET @more = 1", "SET TRANSACTION READ WRITE", "DO 1"])?;
        client.must("BEGIN")?;
        client.must("SELECT COUNT(*) FROM twin_a.fixed")?;
        // a serializable transaction locks what it reads
        let locked = "SELECT id FROM twin_a.fixed FOR UPDATE NOWAIT";
        ensure!(admin.query(locked)?.error().is_some(), "it has begun without");
        client.must("COMMIT")?;
        // for one transaction alone, and the session is free again
        client.must("BEGIN")?;
        client.must("SELECT COUNT(*) FROM twin_a.fixed")?;
        ensure!(admin.query(locked)?.error().is_none(), "the next has it too");
        client.must("COMMIT")?;
        ensure!(value(&mut client, "SELECT @on")? == "the primary");
        client.quit()?;

        let used = "SELECT COUNT(*) FROM twin_a.fixed";
        let mut client = begin(&mut admin, &[used])?;
        let begun = client.query("BEGIN").is_ok_and(|reply| reply.error().is_none());
        ensure!(!begun, "nobody knows whether it was used");
    }
    Ok(())
}
