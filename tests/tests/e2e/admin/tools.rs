//! `towpath status`, `sessions` and `top`, against a proxy that runs.

use super::{id, json, start};
use anyhow::{Result, ensure};
use e2e::{Cluster, Proxy, Setup};
use serde_json::Value;
use std::process::{Command, Output};

on_both_vendors!(what_there_is, who_is_there, the_token);

fn towpath(proxy: &Proxy, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(Proxy::program()?);
    let admin = proxy.admin.to_string();
    Ok(command.args(arguments).args(["--admin", &admin]).env_remove("TOWPATH_TOKEN").output()?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn what_there_is(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let output = towpath(&proxy, &["status"])?;
    let said = text(&output.stdout);
    ensure!(output.status.code() == Some(0), "{said} {}", text(&output.stderr));
    for words in ["running", proxy.address.as_str(), "main", &cluster.addresses[0], "online"] {
        ensure!(said.contains(words), "{words} is not in {said}");
    }
    ensure!(!said.contains('\u{1b}'), "colours where there is no terminal: {said}");
    let output = towpath(&proxy, &["status", "--json"])?;
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(printed["state"] == "running" && printed["servers"].is_array(), "{printed}");
    let path = format!("/servers/{}/state", cluster.addresses[0]);
    ensure!(proxy.post(&path, r#"{"state": "offline-soft"}"#)?.0 == 200);
    let output = towpath(&proxy, &["status"])?;
    ensure!(output.status.code() == Some(1), "a server is out of use");
    ensure!(text(&output.stdout).contains("offline-soft"));
    // where there is no terminal
    let output = towpath(&proxy, &["top"])?;
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(printed["pools"].is_array() && printed["sessions"]["total"] == 0, "{printed}");
    Ok(())
}

fn who_is_there(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("BEGIN")?;
    client.must("SELECT 1")?;
    let id = id(&mut client)?.to_string();
    let said = text(&towpath(&proxy, &["sessions"])?.stdout);
    for words in [id.as_str(), cluster.admin().user.as_str(), "127.0.0.1", "main", "transaction"] {
        ensure!(said.contains(words), "{words} is not in {said}");
    }
    let output = towpath(&proxy, &["sessions", "--user", "no body & more", "--json"])?;
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(printed["total"] == 0, "{printed}");
    let output = towpath(&proxy, &["sessions", "--busy", "--json", "--limit", "1"])?;
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    let first = printed["sessions"][0]["id"].as_u64();
    ensure!(first == Some(id.parse()?), "{printed}");
    ensure!(printed == json(&proxy, "/sessions?busy=true")? || printed["total"] == 1, "{printed}");
    Ok(())
}

fn the_token(cluster: &Cluster) -> Result<()> {
    const TOKEN: &str = "a-token-of-the-tests-1234";
    let proxy = Setup::of(cluster).admin(&format!("token = {TOKEN:?}")).start()?;
    let output = towpath(&proxy, &["status"])?;
    ensure!(output.status.code() == Some(1));
    ensure!(text(&output.stderr).contains("TOWPATH_TOKEN"), "{}", text(&output.stderr));
    let file = proxy.file("token");
    std::fs::write(&file, format!("{TOKEN}\n"))?;
    let file = file.to_string_lossy().into_owned();
    let output = towpath(&proxy, &["status", "--token-file", &file])?;
    ensure!(output.status.code() == Some(0), "{}", text(&output.stderr));
    let mut command = Command::new(Proxy::program()?);
    command.args(["status", "--admin", &proxy.admin.to_string()]).env("TOWPATH_TOKEN", TOKEN);
    ensure!(command.output()?.status.code() == Some(0));
    let refused = towpath(&proxy, &["reload"])?;
    ensure!(refused.status.code() == Some(1), "an order without a token");
    for order in ["reload", "drain"] {
        let output = towpath(&proxy, &[order, "--token-file", &file])?;
        ensure!(output.status.code() == Some(0), "{order}: {}", text(&output.stderr));
    }
    drop(proxy);
    let nobody =
        Command::new(Proxy::program()?).args(["status", "--admin", "127.0.0.1:1"]).output()?;
    ensure!(nobody.status.code() == Some(1));
    ensure!(text(&nobody.stderr).contains("no answer from the admin port 127.0.0.1:1"));
    Ok(())
}
