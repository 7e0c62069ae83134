//! Accounts, roles, and what is set for a whole server.

use super::{Twins, server, value};
use crate::modes;
use anyhow::{Result, ensure};
use e2e::{Vendor, twin::Bed};

on_both_vendors!(h53_h55_h56_h71_h81_accounts_and_servers);

/// One set of servers for all of them: to start it takes longer than they do.
fn h53_h55_h56_h71_h81_accounts_and_servers(vendor: Vendor) -> Result<()> {
    let mut bed = Bed::start(vendor)?;
    h56_a_role_holds_everywhere(&bed)?;
    h71_another_user_begins_anew(&bed)?;
    h81_what_is_not_to_be_replicated(&bed)?;
    h53_a_global_is_set_once(&mut bed)?;
    h55_a_password_commits(&bed)
}

fn h56_a_role_holds_everywhere(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut twins = Twins::new(bed, &proxy)?;
    twins.refused("SELECT /* hg=1 */ * FROM twin_c.secret", 1142)?;
    twins.all_same(&[
        "SET ROLE twin_r",
        "PREPARE p FROM 'SELECT COUNT(*) FROM twin_c.secret'",
        "EXECUTE /* hg=1 */ p",
        "SELECT /* hg=1 */ CURRENT_ROLE(), COUNT(*) FROM twin_c.secret",
        "SELECT CURRENT_ROLE()",
        "SET ROLE NONE",
        "SELECT /* hg=1 */ CURRENT_ROLE()",
    ])?;
    twins.refused("SELECT /* hg=1 */ * FROM twin_c.secret", 1142)?;
    ensure!(server(&mut twins.proxied, "")? != server(&mut twins.proxied, "/* hg=1 */")?);
    Ok(())
}

fn h71_another_user_begins_anew(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut twins = Twins::new(bed, &proxy)?;
    twins.all_same(&["SET @a = 1", "SET NAMES latin1", "SELECT /* hg=1 */ @a", "SELECT @a"])?;
    for client in [&mut twins.direct, &mut twins.proxied] {
        client.change_user(&bed.accounts[1])?;
    }
    let look = "@a, @@character_set_client, DATABASE(), SUBSTRING_INDEX(CURRENT_USER(), '@', 1)";
    twins.all_same(&[&format!("SELECT {look}"), &format!("SELECT /* hg=1 */ {look}")])?;
    ensure!(value(&mut twins.proxied, "SELECT /* hg=1 */ CURRENT_USER()")?.starts_with("twin_2"));
    let wrong = e2e::Login::new("twin_2", "three");
    for client in [&mut twins.direct, &mut twins.proxied] {
        let error = client.change_user(&wrong).map_err(|error| error.to_string());
        ensure!(error.as_ref().is_err_and(|error| error.starts_with("ERR 1045")), "{error:?}");
    }
    Ok(())
}

fn h81_what_is_not_to_be_replicated(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut twins = Twins::new(bed, &proxy)?;
    twins.refused("SET sql_log_bin = 0", 1227)?;
    let login = bed.servers.cluster.admin();
    twins.direct = e2e::Client::connect(&bed.servers.cluster.addresses[0], &login)?;
    twins.proxied = proxy.connect(&login)?;
    twins.same("BEGIN")?;
    twins.refused("SET sql_log_bin = 0", 1694)?;
    twins.all_same(&["ROLLBACK", "SET sql_log_bin = 0", "SELECT /* hg=1 */ @@sql_log_bin"])?;
    ensure!(server(&mut twins.proxied, "/* hg=1 */")? == "1");
    Ok(())
}

/// Where the text is in the logs of the servers: one number for each time that it was executed.
fn given(bed: &mut Bed, text: &str) -> Result<Vec<usize>> {
    let lines = bed.log()?;
    let executed = lines.iter().filter(|line| line.command == "Query" && line.text == text);
    Ok(executed.map(|line| line.node).collect())
}

fn h53_a_global_is_set_once(bed: &mut Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut client = proxy.connect(&bed.servers.cluster.admin())?;
    client.must("SELECT /* hg=1 */ 1")?;
    bed.log()?;
    let mut texts = vec!["SET GLOBAL max_connect_errors = 77"];
    if bed.servers.cluster.vendor == Vendor::MySql {
        texts.push("SET PERSIST max_connect_errors = 78");
    }
    for text in texts {
        client.must(text)?;
        client.must("SELECT /* hg=1 */ 2")?;
        client.must("SELECT 2")?;
        ensure!(given(bed, text)? == [1], "{text}");
    }
    let mut twins = Twins::new(bed, &proxy)?;
    twins.refused("SET GLOBAL max_connect_errors = 76", 1227)
}

fn h55_a_password_commits(bed: &Bed) -> Result<()> {
    let proxy = bed.proxy(&modes::by_comment(""))?;
    let mut client = proxy.connect(&bed.logins[0])?;
    client.must("BEGIN")?;
    client.must("INSERT INTO twin_a.w (v) VALUES ('stays')")?;
    let text = match bed.servers.cluster.vendor {
        Vendor::MariaDb => "SET PASSWORD = PASSWORD('one')",
        Vendor::MySql => "SET PASSWORD = 'one'",
    };
    let set = client.query(text)?;
    ensure!(set.error().is_none(), "{:?}", set.error());
    let in_transaction = wire::Status::IN_TRANS;
    ensure!(!set.end.status.is_some_and(|status| status.contains(in_transaction)));
    client.must("ROLLBACK")?;
    ensure!(value(&mut client, "SELECT COUNT(*) FROM twin_a.w WHERE v = 'stays'")? == "1");
    // the session may move again
    ensure!(server(&mut client, "/* hg=1 */")? != "1");
    client.quit()
}
