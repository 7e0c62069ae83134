//! What the admin port shows of it.

use super::World;
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster};
use serde_json::Value;

on_both_vendors!(
    what_is_answered_is_counted,
    a_session_says_why_it_is_not_answered,
    connections_say_how_far_they_are_behind,
);

impl World {
    fn json(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.proxy.get(path)?)?)
    }

    fn shown(&self, client: &Client) -> Result<Value> {
        self.json(&format!("/sessions/{}", client.greeting.thread_id))
    }
}

fn what_is_answered_is_counted(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    world.learn(&["SET @a = 1"])?;
    let mut client = world.connect()?;
    world.remembered(&mut client, "SET @a = 1")?;
    client.quit()?;
    let all = world.json("/predictions")?;
    let [one] = &all.as_array().context("a list")?[..] else { anyhow::bail!("{all}") };
    ensure!(one["chain"] == "main" && one["stopped"] == 0, "{one}");
    ensure!(one["commands"]["predicted"] == 1 && one["commands"]["sent"] == 5, "{one}");
    ensure!(
        one["keys"] == serde_json::json!({"cold": 0, "predictable": 1, "volatile": 0}),
        "{one}"
    );
    ensure!(one["changes"]["predictable"] == 1 && one["mismatches"]["hard"] == 0, "{one}");
    ensure!(one["bytes"].as_u64() > Some(100), "{one}");
    ensure!(!all.to_string().contains("@a"), "no text is kept");
    Ok(())
}

fn a_session_says_why_it_is_not_answered(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    let mut client = world.connect()?;
    ensure!(world.shown(&client)?["predicts"] == true);
    client.must(&format!("CREATE TEMPORARY TABLE {}.t (a INT)", schema.name))?;
    client.must("SELECT 1")?;
    let shown = world.shown(&client)?;
    ensure!(shown["predicts"] == false, "{shown}");
    ensure!(shown["predicts_not"] == "something ties the session to a connection", "{shown}");
    ensure!(shown["pins"][0].is_string(), "{shown}");
    client.command(wire::CommandCode::RESET_CONNECTION, b"")?;
    client.must("SELECT 1")?;
    let shown = world.shown(&client)?;
    ensure!(shown["predicts"] == true && shown["predicts_not"].is_null(), "{shown}");
    client.must("BEGIN")?;
    let shown = world.shown(&client)?;
    ensure!(shown["predicts_not"] == "a transaction is open", "{shown}");
    Ok(())
}

fn connections_say_how_far_they_are_behind(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    let mut client = world.connect()?;
    client.must("SELECT /* hg=1 */ 1")?;
    client.must("SELECT 1")?;
    client.must("SET @a = 1")?;
    client.must("SET @b = 1")?;
    let lags = |shown: &Value| -> Vec<(Value, Value)> {
        let connections = shown["connections"].as_array().cloned().unwrap_or_default();
        connections.into_iter().map(|one| (one["hostgroup"].clone(), one["lag"].clone())).collect()
    };
    let shown = world.shown(&client)?;
    ensure!(lags(&shown) == [(1.into(), 2.into()), (0.into(), 0.into())], "{shown}");
    client.must("SELECT /* hg=1 */ 1")?;
    let shown = world.shown(&client)?;
    ensure!(lags(&shown) == [(0.into(), 0.into()), (1.into(), 0.into())], "{shown}");
    Ok(())
}
