//! A KILL meets the session that it was meant for, whoever has its connection by then.

use super::{login, same, start, value};
use anyhow::{Result, ensure};
use e2e::{Cluster, wait};
use wire::CommandCode;

on_both_vendors!(
    kill_query_strikes_nobody_else,
    kill_ends_a_session_that_has_no_connection,
    kill_query_stops_the_statement_it_is_meant_for,
);

/// The victim has used the connection last, and a third session has it now.
fn kill_query_strikes_nobody_else(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    // Whoever has killed keeps its connection until its next statement.
    let proxy = start(cluster, 3)?;
    let login = login(cluster, &schema.name);
    let (mut victim, mut killer) = (proxy.connect(&login)?, proxy.connect(&login)?);
    let mut bystander = proxy.connect(&login)?;
    for _ in 0..20 {
        victim.must("SELECT 1")?;
        bystander.send_command(CommandCode::QUERY, b"SELECT SLEEP(0.05)")?;
        killer.must(&format!("KILL QUERY {}", victim.greeting.thread_id))?;
        let reply = bystander.receive(CommandCode::QUERY)?;
        ensure!(reply.error().is_none(), "{:?}", reply.error());
        let rows = reply.rows(bystander.capabilities)?;
        ensure!(rows == [[Some("0".to_owned())]], "{rows:?}");
    }
    same(&mut victim, "SELECT 5", "5")
}

fn kill_ends_a_session_that_has_no_connection(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 2)?;
    let login = login(cluster, &schema.name);
    let (mut victim, mut killer) = (proxy.connect(&login)?, proxy.connect(&login)?);
    let mut bystander = proxy.connect(&login)?;
    victim.must("SET @a = 1")?;
    bystander.must("SET @a = 2")?;
    killer.must(&format!("KILL {}", victim.greeting.thread_id))?;
    wait::until("the session's end", || Ok(victim.query("SELECT 1").is_err().then_some(())))?;
    same(&mut bystander, "SELECT @a", "2")?;
    ensure!(value(&mut killer, "SELECT @a")?.is_none());
    Ok(())
}

fn kill_query_stops_the_statement_it_is_meant_for(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = start(cluster, 2)?;
    let login = login(cluster, &schema.name);
    let (mut victim, mut killer) = (proxy.connect(&login)?, proxy.connect(&login)?);
    for _ in 0..5 {
        victim.send_command(
            CommandCode::QUERY,
            b"SELECT SLEEP(60) FROM information_schema.SCHEMATA",
        )?;
        wait::until("the statement", || {
            let sql = format!(
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '{}' \
                 AND INFO LIKE 'SELECT SLEEP(60)%'",
                schema.name
            );
            Ok((cluster.ask(&sql)? == "1").then_some(()))
        })?;
        killer.must(&format!("KILL QUERY {}", victim.greeting.thread_id))?;
        let reply = victim.receive(CommandCode::QUERY)?;
        ensure!(reply.error_code() == Some(1317), "{:?}", reply.error());
        same(&mut victim, "SELECT 5", "5")?;
        same(&mut killer, "SELECT 6", "6")?;
    }
    Ok(())
}
