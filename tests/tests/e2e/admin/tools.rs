//! `towpath status`, `sessions` and `top`, against a proxy that runs.

use super::{id, json, start};
use anyhow::{Result, ensure};
use e2e::{Cluster, Proxy, Setup, program, skip, wait};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

on_both_vendors!(what_there_is, who_is_there, the_token, top_in_a_terminal);

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

/// `script` gives it a terminal of its own; what it draws is looked at, and keys are pressed.
fn top_in_a_terminal(cluster: &Cluster) -> Result<()> {
    let Some(script) = program::on_path("script") else {
        skip::report("there is no `script`, which makes terminals");
        return Ok(());
    };
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 1 FROM information_schema.ENGINES WHERE 'a-literal' = 1")?;
    let top = format!(
        "stty rows 40 cols 160; exec '{}' top --admin {}",
        Proxy::program()?.display(),
        proxy.admin
    );
    let mut command = Command::new(script);
    command.args(["--quiet", "--flush", "--return", "--command", &top, "/dev/null"]);
    command.env("TERM", "xterm").env("SHELL", "/bin/sh").env_remove("TOWPATH_TOKEN");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut keys, mut output) = (child.stdin.take(), child.stdout.take());
    let drawn = Arc::new(Mutex::new(Vec::new()));
    let seen = drawn.clone();
    let reader = thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Some(read) = output.as_mut().and_then(|output| output.read(&mut piece).ok()) {
            if read == 0 {
                break;
            }
            seen.lock().unwrap_or_else(PoisonError::into_inner).extend(&piece[..read]);
        }
    });
    let shows = |words: &str| {
        wait::until(words, || {
            let drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(screen(&drawn).contains(words).then_some(()))
        })
    };
    let mut press = |key: &[u8]| -> Result<()> {
        keys.iter_mut().try_for_each(|keys| Ok(keys.write_all(key).and_then(|()| keys.flush())?))
    };
    let looked = shows("commands a second")
        .and_then(|()| shows(&cluster.addresses[0]))
        .and_then(|()| shows(&format!("{}@127.0.0.1", cluster.admin().user)))
        .and_then(|()| press(b"\t"))
        .and_then(|()| shows("information_schema.ENGINES WHERE ?"))
        .and_then(|()| press(b"q"));
    if looked.is_err() {
        child.kill()?;
    }
    let ended = child.wait()?;
    drop(keys);
    let _ = reader.join();
    let drawn = text(&drawn.lock().unwrap_or_else(PoisonError::into_inner));
    looked.map_err(|error| error.context(screen(drawn.as_bytes())))?;
    ensure!(ended.code() == Some(0), "{ended} {drawn}");
    ensure!(drawn.contains("\u{1b}[?1049l"), "the terminal is as it was: {drawn}");
    ensure!(!drawn.contains("a-literal"), "{drawn}");
    client.quit()
}

/// What a terminal shows that was sent this: only what changes is drawn.
fn screen(drawn: &[u8]) -> String {
    let drawn = text(drawn);
    let (mut shown, mut at) = (BTreeMap::new(), (0, 0));
    let mut rest = drawn.chars();
    while let Some(one) = rest.next() {
        match one {
            '\u{1b}' if rest.as_str().starts_with('[') => {
                let order: String = rest.by_ref().take_while(|it| !it.is_alphabetic()).collect();
                let end = drawn[..drawn.len() - rest.as_str().len()].chars().next_back();
                let mut numbers = order[1..].split(';').map(|it| it.parse().unwrap_or(1_usize));
                match end {
                    Some('H') => at = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1)),
                    Some('J') => shown.clear(),
                    _ => {}
                }
            }
            one if one.is_control() => {}
            one => {
                shown.insert(at, one);
                at.1 += 1;
            }
        }
    }
    let (mut lines, mut last) = (String::new(), (0, 0));
    for (at, one) in shown {
        if at != last {
            lines.push(if at.0 == last.0 { ' ' } else { '\n' });
        }
        lines.push(one);
        last = (at.0, at.1 + 1);
    }
    lines
}
