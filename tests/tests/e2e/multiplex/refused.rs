//! What brings nothing to a connection says nothing about it, and what outlives a reset is nobody
//! else's.

use super::{login, metric, same, start, value};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster};
use wire::CommandCode;

on_both_vendors!(
    a_command_that_is_not_sent_brings_nothing_there,
    what_outlives_a_reset_is_one_sessions_own,
);

/// One that was another session's, and is refused a question, is not in the asker's state for that.
fn a_command_that_is_not_sent_brings_nothing_there(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 1)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    one.must("CREATE TABLE t (a INT)")?;
    for _ in 0..2 {
        one.must("SET NAMES latin1")?;
        one.must("INSERT INTO t VALUES (1)")?;
        other.must("SET NAMES greek")?;
        same(&mut other, "SELECT @@character_set_client", "greek")?;
        // Behind a write nobody knows it but the connection, which is the other one's by now.
        let refused = one.query("SELECT FOUND_ROWS()")?.error_code();
        ensure!(refused == Some(9005), "{refused:?}");
        same(&mut one, "SELECT @@character_set_client", "latin1")?;
        same(&mut other, "SELECT @@character_set_client", "greek")?;
    }
    Ok(())
}

fn reset(client: &mut Client) -> Result<()> {
    let reset = client.command(CommandCode::RESET_CONNECTION, b"")?;
    ensure!(reset.error().is_none(), "{:?}", reset.error());
    Ok(())
}

/// Roles, and what COM_SET_OPTION has allowed: who is in the same state otherwise gets neither.
fn what_outlives_a_reset_is_one_sessions_own(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let role = crate::state::resetting::Role::new(cluster, "refused")?;
    let proxy = start(cluster, 3)?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    let mut third = proxy.connect(&login)?;
    one.must(&format!("SET ROLE {}", role.name))?;
    let allow = one.command(CommandCode::SET_OPTION, &[0, 0])?;
    ensure!(allow.error().is_none());
    let (active, several) = ("SELECT CURRENT_ROLE()", "SELECT 1; SELECT 2");
    reset(&mut one)?;
    one.must("SELECT 'parked in this state'")?;
    reset(&mut other)?;
    // The other one's own connection is gone: it takes what it finds.
    third.must("SET @mine = 1")?;
    ensure!(!role.is(value(&mut other, active)?), "the other one has the role");
    ensure!(other.query(several)?.error_code() == Some(1064), "the other one may send several");
    ensure!(role.is(value(&mut one, active)?), "who has set it has it no longer");
    let reply = one.query(several)?;
    ensure!(reply.error().is_none(), "{:?}", reply.error());
    ensure!(metric(&proxy, "towpath_backend_shared_total{fit=\"own\"}")? > 0);
    Ok(())
}
