//! What a client and its server have agreed on holds behind the switch: each capability that changes
//! what is said, with and without.

use crate::forward::{count, on_go, with_rules};
use anyhow::{Context, Result, ensure};
use e2e::{
    Client, Cluster, Login, Vendor,
    transcript::{Transcript, same},
};
use wire::{Capabilities, CommandCode};

on_both_vendors!(each_flag_with_and_without);

/// Flags that a server may offer, by name. MariaDB's own are the second list.
const FLAGS: [(&str, Capabilities); 16] = [
    ("DEPRECATE_EOF", Capabilities::DEPRECATE_EOF),
    ("SESSION_TRACK", Capabilities::SESSION_TRACK),
    ("TRANSACTIONS", Capabilities::TRANSACTIONS),
    ("MULTI_STATEMENTS", Capabilities::MULTI_STATEMENTS),
    ("MULTI_RESULTS", Capabilities::MULTI_RESULTS),
    ("PS_MULTI_RESULTS", Capabilities::PS_MULTI_RESULTS),
    ("OPTIONAL_RESULTSET_METADATA", Capabilities::OPTIONAL_RESULTSET_METADATA),
    ("FOUND_ROWS", Capabilities::FOUND_ROWS),
    ("IGNORE_SPACE", Capabilities::IGNORE_SPACE),
    ("INTERACTIVE", Capabilities::INTERACTIVE),
    ("LONG_FLAG", Capabilities::LONG_FLAG),
    ("NO_SCHEMA", Capabilities::NO_SCHEMA),
    ("ODBC", Capabilities::ODBC),
    ("CONNECT_ATTRS", Capabilities::CONNECT_ATTRS),
    ("LOCAL_FILES", Capabilities::LOCAL_FILES),
    ("PLUGIN_AUTH_LENENC_CLIENT_DATA", Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA),
];
const OF_MARIADB: [(&str, Capabilities); 2] = [
    ("EXTENDED_METADATA", Capabilities::EXTENDED_METADATA),
    ("STMT_BULK_OPERATIONS", Capabilities::STMT_BULK_OPERATIONS),
];

/// All together, none, each one alone, and each one missing.
fn logins(cluster: &Cluster) -> Vec<(String, Login)> {
    let mut flags = FLAGS.to_vec();
    if cluster.vendor == Vendor::MariaDb {
        flags.extend(OF_MARIADB);
    }
    let of = |wanted: &dyn Fn(usize) -> bool| {
        let mut login = cluster.admin();
        for (at, (_, flag)) in flags.iter().enumerate() {
            login = if wanted(at) { login.with(*flag) } else { login.without(*flag) };
        }
        login
    };
    let mut logins = vec![("all".to_owned(), of(&|_| true)), ("none".to_owned(), of(&|_| false))];
    for (chosen, (name, _)) in flags.iter().enumerate() {
        logins.push((format!("only {name}"), of(&|at| at == chosen)));
        logins.push((format!("all but {name}"), of(&|at| at != chosen)));
    }
    logins
}

fn each_flag_with_and_without(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let left = || count(&proxy, "towpath_fast_forward_total{chain=\"main\",cause=\"rule\"}");
    for (which, login) in logins(cluster) {
        let before = left()?;
        same(cluster, &proxy, &login, script).with_context(|| which.clone())?;
        ensure!(left()? == before + 1, "{which}: it has not left");
    }
    Ok(())
}

/// Nothing in it needs more than what the client has agreed on.
fn script(client: &mut Client, transcript: &mut Transcript) -> Result<()> {
    let has = |client: &Client, flag| client.capabilities.contains(flag);
    for sql in [
        "SELECT 'go'",
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20), c JSON)",
        "INSERT INTO t VALUES (1, 'x', '{}'), (2, NULL, NULL)",
        "UPDATE t SET b = 'x'",
        "SELECT a, b, c, POINT(a, a) FROM t",
        "SELECT * FROM t WHERE a > 5",
        "SELECT count (*) FROM t",
        "SELECT @@interactive_timeout = @@wait_timeout, DATABASE()",
        "SET NAMES utf8mb4",
        "BEGIN",
        "DELETE FROM t",
        "ROLLBACK",
        "SELECT nosuch",
        "SELECT 1; SELECT a FROM t; DO 1",
        "CREATE PROCEDURE p() SELECT a, b FROM t",
    ] {
        let reply = client.query(sql)?;
        transcript.add(sql, &reply);
        if sql == "SELECT 1; SELECT a FROM t; DO 1" {
            let several = has(client, Capabilities::MULTI_STATEMENTS);
            ensure!(reply.error().is_none() == several, "{:?}", reply.error());
        }
    }
    let statement = client.prepare("SELECT a, ? AS p FROM t")?;
    transcript.add("prepare", &statement.reply);
    transcript.add("execute", &client.execute(&statement, 0, &[Some(b"v")])?);
    transcript.add("again", &client.execute(&statement, 0, &[None])?);
    transcript.add("cursor", &client.execute(&statement, 1, &[Some(b"v")])?);
    transcript.add("fetch", &client.fetch(&statement, 9)?);
    client.close_statement(&statement)?;
    transcript.add("call", &client.query("CALL p()")?);
    let call = client.prepare("CALL p()")?;
    transcript.add("prepare call", &call.reply);
    if call.reply.error().is_none() {
        transcript.add("execute call", &client.execute(&call, 0, &[])?);
        client.close_statement(&call)?;
    }
    let file = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a)";
    if has(client, Capabilities::LOCAL_FILES) {
        transcript.add(file, &client.upload(file, b"7\n8\n")?);
    } else {
        transcript.add(file, &client.query(file)?);
    }
    transcript.add("option", &client.command(CommandCode::SET_OPTION, &[1, 0])?);
    transcript.add("reset", &client.command(CommandCode::RESET_CONNECTION, b"")?);
    transcript.add("ping", &client.command(CommandCode::PING, b"")?);
    Ok(())
}
