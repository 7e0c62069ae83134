//! The log of events.

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Proxy, Setup, wait};
use serde_json::Value;
use std::path::Path;

on_both_vendors!(by_rule, of_all_with_their_texts, it_does_not_grow_for_ever, off_by_default);

const RULE: &str = r#"[chain.main]
session = [
  { use = "parse" },
  { use = "rules", rules = [
    { rule_id = 3, match_digest = "FROM logged", log = true },
    { rule_id = 4, match_digest = "FROM answered", log = true, OK_msg = "none" },
  ] },
  { use = "route", policy = "hostgroup" },
]"#;

fn lines(file: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(file)?;
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

fn until(file: &Path, count: usize) -> Result<Vec<Value>> {
    wait::until(&format!("{count} events"), || {
        let lines = lines(file)?;
        Ok((lines.len() >= count).then_some(lines))
    })
}

fn by_rule(cluster: &Cluster) -> Result<()> {
    let mut proxy =
        Setup::of(cluster).append(&format!("[events]\nfile = \"events.jsonl\"\n{RULE}")).start()?;
    let file = proxy.file("events.jsonl");
    let schema = cluster.schema()?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE logged (id INT)")?;
    client.must("SELECT 'a-literal'")?;
    let reply = client.query("SELECT id, 'a-literal' FROM logged")?;
    client.must("SELECT 'a-literal' FROM answered")?;
    ensure!(client.query("SELECT nothing FROM logged")?.error_code() == Some(1054));
    let events = until(&file, 3)?;
    ensure!(events.len() == 3, "{events:#?}");
    for (key, expected) in [
        ("outcome", Value::from("done")),
        ("user", cluster.admin().user.into()),
        ("client", "127.0.0.1".into()),
        ("schema", schema.name.clone().into()),
        ("command", "COM_QUERY".into()),
        ("digest_text", "SELECT id,? FROM logged".into()),
        ("rules", vec![3].into()),
        ("hostgroup", 0.into()),
        ("server", cluster.addresses[0].clone().into()),
        ("bytes", reply.raw.len().into()),
        ("error", Value::Null),
    ] {
        ensure!(events[0][key] == expected, "{key} of {}", events[0]);
    }
    ensure!(events[0]["microseconds"].as_u64() > Some(0) && events[0].get("text").is_none());
    ensure!(events[1]["rules"][0] == 4 && events[1]["server"].is_null(), "{}", events[1]);
    ensure!(events[2]["error"] == 1054, "{}", events[2]);
    ensure!(!std::fs::read_to_string(&file)?.contains("a-literal"));
    client.must("SELECT 9 FROM logged")?;
    client.quit()?;
    proxy.signal("TERM")?;
    ensure!(proxy.ended()?.success());
    ensure!(lines(&file)?.len() == 4, "what waits is written before the end");
    Ok(())
}

fn of_all_with_their_texts(cluster: &Cluster) -> Result<()> {
    let events = "[events]\nfile = \"all.jsonl\"\ncommands = \"all\"\nstatement = \"text\"";
    let proxy = Setup::of(cluster).append(events).start()?;
    let file = proxy.file("all.jsonl");
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'a-literal'")?;
    for text in [
        "SET PASSWORD FOR nobody_such@localhost = 'marked-word'",
        "CREATE USER 'nobody such'@'%' IDENTIFIED BY 'marked-word' REQUIRE X",
        "SELECT 1; ALTER USER x IDENTIFIED BY 'marked-word'",
        "/*!00000 SET PASSWORD = 'marked-word' */ FOR",
    ] {
        client.query(text)?;
    }
    let events = until(&file, 5)?;
    ensure!(events[0]["text"] == "SELECT 'a-literal'", "{}", events[0]);
    ensure!(events[0]["rules"] == Value::Array(vec![]), "{}", events[0]);
    ensure!(!std::fs::read_to_string(&file)?.contains("marked"));
    Ok(())
}

fn it_does_not_grow_for_ever(cluster: &Cluster) -> Result<()> {
    let events =
        "[events]\nfile = \"e.jsonl\"\ncommands = \"all\"\nmax_size = \"64 KiB\"\nkeep = 2";
    let mut proxy = Setup::of(cluster).append(events).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    for _ in 0..900 {
        client.must("SELECT 1")?;
    }
    client.quit()?;
    proxy.signal("TERM")?;
    ensure!(proxy.ended()?.success());
    for name in ["e.jsonl", "e.jsonl.1", "e.jsonl.2"] {
        let size = proxy.file(name).metadata().with_context(|| name.to_owned())?.len();
        ensure!(size <= 64 << 10, "{name}: {size}");
        lines(&proxy.file(name))?;
    }
    ensure!(!proxy.file("e.jsonl.3").exists());
    Ok(())
}

fn off_by_default(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append(RULE).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.query("SELECT 1 FROM logged")?;
    let nothing = |proxy: &Proxy| -> Result<bool> {
        let folder = proxy.file("");
        let names = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
        Ok(names.iter().all(|entry| !entry.file_name().to_string_lossy().contains("jsonl")))
    };
    ensure!(nothing(&proxy)?);
    Ok(())
}
