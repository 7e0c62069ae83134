//! What a session leaves on its connection is not there for the next one, whatever the server's own
//! reset leaves.

use crate::hostile::Powerless;
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Held, Proxy};
use wire::{Capabilities, CommandCode};

on_both_vendors!(an_option, a_role, anything_else);

/// COM_SET_OPTION outlives COM_RESET_CONNECTION; the next session must not have what it has not asked
/// for, nor lack what it has.
fn an_option(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let several = Capabilities::MULTI_STATEMENTS;
    for (login, option) in [(cluster.admin(), 0), (cluster.admin().with(several), 1)] {
        let expected = Client::connect(&cluster.addresses[0], &login)?.query("DO 1; DO 2")?;
        for turn in 0..5 {
            let mut client = proxy.connect(&login)?;
            let reply = client.query("DO 1; DO 2")?;
            ensure!(reply.raw == expected.raw, "turn {turn}, option {option}: {reply:?}");
            ensure!(client.command(CommandCode::SET_OPTION, &[option, 0])?.error().is_none());
            let changed = client.query("DO 1; DO 2")?;
            ensure!(changed.error().is_some() != expected.error().is_some(), "no effect");
            client.quit()?;
        }
    }
    Ok(())
}

/// SET ROLE outlives COM_RESET_CONNECTION; what a role may do, only the session may that has set it.
fn a_role(cluster: &Cluster) -> Result<()> {
    let account = Powerless::new(cluster)?;
    let (user, role) = (&account.login.user, format!("{}_r", account.login.user));
    let mut direct = cluster.direct()?;
    direct.must(&format!("DROP ROLE IF EXISTS {role}"))?;
    direct.must(&format!("CREATE ROLE {role}"))?;
    direct.must(&format!("GRANT {role} TO {user}"))?;
    let proxy = account.setup().start()?;
    let current = "SELECT CURRENT_ROLE()";
    let expected = Client::connect(&cluster.addresses[0], &account.login)?.rows(current)?;
    for set in [format!("SET ROLE {role}"), format!("SET /* a comment */ ROLE {role}")] {
        for turn in 0..3 {
            let mut client = proxy.connect(&account.login)?;
            ensure!(client.rows(current)? == expected, "{set}, turn {turn}");
            client.must(&set)?;
            ensure!(client.rows(current)? != expected, "no effect");
            client.quit()?;
        }
    }
    direct.must(&format!("DROP ROLE {role}"))
}

/// What one session does, and what shows whether another one finds it.
const DOINGS: [(&str, &str); 18] = [
    ("SELECT LAST_INSERT_ID(77)", "SELECT LAST_INSERT_ID()"),
    ("SET timestamp = 5", "SELECT NOW() < '2000-01-01'"),
    ("SET insert_id = 9", "SELECT @@insert_id"),
    ("SET pseudo_thread_id = 12345", "SELECT @@pseudo_thread_id = 12345"),
    ("SET sql_log_bin = 0", "SELECT @@sql_log_bin"),
    ("SELECT 1 / 0, CAST('a' AS SIGNED)", "SHOW WARNINGS"),
    ("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SHOW VARIABLES LIKE '%isolation'"),
    ("SET SESSION TRANSACTION READ ONLY", "INSERT INTO t VALUES (1)"),
    ("SET TRANSACTION READ ONLY", "INSERT INTO t VALUES (1)"),
    ("HANDLER t OPEN", "HANDLER t READ FIRST"),
    ("LOCK TABLES t READ", "INSERT INTO t VALUES (1)"),
    ("FLUSH TABLES t WITH READ LOCK", "INSERT INTO t VALUES (1)"),
    ("SELECT GET_LOCK(SHA2(DATABASE(), 224), 0)", "SELECT IS_FREE_LOCK(SHA2(DATABASE(), 224))"),
    ("XA START 'left behind'", "XA START 'left behind'"),
    ("SET character_set_results = NULL", "SELECT @@character_set_results"),
    ("SET sql_mode = 'ANSI'", "SELECT @@sql_mode"),
    ("SET optimizer_switch = 'mrr=on'", "SELECT @@optimizer_switch"),
    ("CREATE TEMPORARY TABLE scratch (a INT)", "SELECT * FROM scratch"),
];

fn anything_else(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    cluster.direct()?.must(&format!("CREATE TABLE {}.t (a INT)", schema.name))?;
    let login = cluster.admin().schema(&schema.name);
    let proxy = Proxy::start(cluster)?;
    let held = Held::at_start(&proxy)?;
    for (doing, shown) in DOINGS {
        let mut first = proxy.connect(&login)?;
        let done = first.query(doing)?;
        ensure!(done.error().is_none(), "{doing}: {:?}", done.error());
        first.quit()?;
        held.until_again(&proxy)?;
        let mut next = proxy.connect(&login)?;
        let proxied = next.query(shown)?;
        next.quit()?;
        let mut direct = Client::connect(&cluster.addresses[0], &login)?;
        let expected = direct.query(shown)?;
        direct.quit()?;
        ensure!(proxied.raw == expected.raw, "after {doing}: {proxied:?}, directly {expected:?}");
    }
    Ok(())
}
