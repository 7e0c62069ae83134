//! The log of slow commands.

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Proxy, Setup, wait};
use serde_json::Value;

on_both_vendors!(slow_commands_have_a_line, without_the_setting_there_is_none, no_flood);

const PARSED: &str =
    "[chain.main]\nsession = [{ use = \"parse\" }, { use = \"route\", policy = \"hostgroup\" }]";
const RAW: &str = "[chain.main]\nsession = [{ use = \"route\", policy = \"hostgroup\" }]";

/// The lines of slow commands so far.
fn lines(proxy: &Proxy) -> Vec<Value> {
    let log = proxy.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "slow").collect()
}

fn next(proxy: &Proxy, before: usize) -> Result<Value> {
    wait::until("a line", || Ok(lines(proxy).get(before).cloned()))
}

fn slow_commands_have_a_line(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut direct = cluster.direct()?;
    direct.must(&format!("CREATE TABLE {}.t (id INT PRIMARY KEY)", schema.name))?;
    direct.must(&format!("INSERT INTO {}.t VALUES (1)", schema.name))?;
    for chain in [PARSED, RAW] {
        let log = format!("[log]\nslow_queries = \"300ms\"\n{chain}");
        let proxy = Setup::of(cluster).append(&log).start()?;
        let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
        client.must("SELECT 'a fast one'")?;
        let reply = client.query("SELECT SLEEP(0.4), 'a-literal'")?;
        let line = next(&proxy, 0)?;
        for (key, expected) in [
            ("message", Value::from("done")),
            ("command", "COM_QUERY".into()),
            ("digest_text", "SELECT SLEEP(?),?".into()),
            ("user", cluster.admin().user.into()),
            ("schema", schema.name.clone().into()),
            ("client", "127.0.0.1".into()),
            ("server", cluster.addresses[0].clone().into()),
            ("hostgroup", 0.into()),
            ("bytes", reply.raw.len().into()),
            ("error", Value::Null),
        ] {
            ensure!(line[key] == expected, "{key} of {line}");
        }
        ensure!(line["microseconds"].as_u64().context("no time")? >= 300_000, "{line}");
        ensure!(line["digest"].as_str().is_some_and(|hash| hash.len() >= 16), "{line}");

        direct.must("BEGIN")?;
        direct.must(&format!("UPDATE {}.t SET id = 2", schema.name))?;
        client.must("SET innodb_lock_wait_timeout = 1")?;
        let failed = client.query("UPDATE t SET id = 3 WHERE id = 1")?;
        direct.must("ROLLBACK")?;
        ensure!(failed.error_code() == Some(1205));
        let line = next(&proxy, 1)?;
        ensure!(line["error"] == 1205 && line["message"] == "done", "{line}");

        let sleep = client.prepare("SELECT SLEEP(0.4)")?;
        let reply = client.execute(&sleep, 0, &[])?;
        let line = next(&proxy, 2)?;
        ensure!(line["command"] == "COM_STMT_EXECUTE", "{line}");
        ensure!(line["bytes"] == reply.raw.len(), "{line}");
        let known = line["digest_text"] == "SELECT SLEEP(?)";
        ensure!(known == (chain == PARSED), "what is executed is known by `parse`: {line}");
        client.quit()?;
        let log = proxy.log();
        ensure!(lines(&proxy).len() == 3 && !log.contains("a-literal") && !log.contains("fast"));
    }
    Ok(())
}

fn without_the_setting_there_is_none(cluster: &Cluster) -> Result<()> {
    let mut proxy = Setup::of(cluster).append(PARSED).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT SLEEP(0.4)")?;
    client.quit()?;
    proxy.signal("TERM")?;
    proxy.ended()?;
    ensure!(lines(&proxy).is_empty());
    Ok(())
}

fn no_flood(cluster: &Cluster) -> Result<()> {
    let log = format!("[log]\nslow_queries = \"1ms\"\n{PARSED}");
    let proxy = Setup::of(cluster).append(&log).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let mut ran = 0_u64;
    // Until a second is over in which more was slow than is told.
    let line = wait::until("lines that were left out", || {
        client.must("DO SLEEP(0.002)")?;
        ran += 1;
        Ok(lines(&proxy).into_iter().find(|line| !line["left_out"].is_null()))
    });
    let left_out = line?["left_out"].as_u64().context("a number")?;
    ensure!(left_out < ran, "{left_out} of {ran}");
    Ok(())
}
