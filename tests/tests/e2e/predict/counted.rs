//! What is counted of session commands, by the server that executes them or is spared them.

use super::{Result, World};
use anyhow::ensure;
use e2e::{Cluster, wait};
use wire::CommandCode;

on_both_vendors!(what_servers_execute_and_what_they_are_spared);

const SCRIPT: [&str; 2] = ["SET @counted = 1", "SET SESSION sort_buffer_size = 262144"];

fn what_servers_execute_and_what_they_are_spared(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    world.learn(&SCRIPT)?;
    let logged = |what: &str| world.counted("towpath_session_log", &format!("what=\"{what}\""));
    wait::until("the learners' logs to go", || Ok((logged("entries")? == 0).then_some(())))?;
    let lag = |what: &str, server: &str| {
        world.counted(&format!("towpath_backend_catch_up_lag_{what}"), server)
    };
    let executed = |server: &str| world.counted("towpath_backend_session_commands_total", server);
    let avoided = |server: &str| world.counted("towpath_session_commands_avoided_total", server);
    let names = servers(&world)?;
    let before = names.iter().map(|name| Ok((executed(name)?, avoided(name)?)));
    let before = before.collect::<Result<Vec<_>>>()?;
    let (lags, lagging) = (lag("count", "")?, lag("sum", "")?);

    let mut client = world.connect()?;
    for text in SCRIPT {
        world.remembered(&mut client, text)?;
    }
    // What the last one did is in the log from the next command on.
    client.command(CommandCode::PING, b"")?;
    ensure!(logged("entries")? == 2);
    ensure!(logged("bytes")? == SCRIPT.concat().len() as u64);
    // Up to here no server was needed.
    for (name, (executed_before, _)) in names.iter().zip(&before) {
        ensure!(executed(name)? == *executed_before, "{name}");
    }
    client.must("INSERT INTO mysql.nosuch VALUES (1)").expect_err("there is no such table");
    ensure!((lag("count", "")?, lag("sum", "")?) == (lags + 1, lagging + 2));
    client.quit()?;
    wait::until("the log to go", || Ok((logged("entries")? == 0).then_some(())))?;
    ensure!(logged("bytes")? == 0);
    // The first is the primary.
    for (at, (name, before)) in names.iter().zip(&before).enumerate() {
        let here = (executed(name)? - before.0, avoided(name)? - before.1);
        ensure!(here == if at == 0 { (2, 0) } else { (0, 2) }, "{name}: {here:?}");
    }
    Ok(())
}

/// Their names as labels, the primary's first.
fn servers(world: &World) -> Result<Vec<String>> {
    let metrics = world.proxy.get("/metrics")?;
    let lines = metrics.lines().filter(|line| line.starts_with("towpath_backend_commands_total"));
    let label = |line: &str| {
        line.split_once("server=\"")?.1.split_once('"').map(|(name, _)| name.to_owned())
    };
    let mut names: Vec<_> = lines.filter_map(label).collect();
    names.sort_by_key(|name| *name != world.relays[0].address && name != "primary");
    names.dedup();
    ensure!(names.len() == world.relays.len(), "{names:?}");
    Ok(names.into_iter().map(|name| format!("server=\"{name}\"")).collect())
}
