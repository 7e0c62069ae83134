//! A reply depends on what the session has set before.

use super::{SESSIONS, World};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Vendor};
use wire::{Capabilities, CommandCode, status::Status};

on_both_vendors!(
    h64_what_never_is_the_same,
    h65_another_kind_of_reply,
    h66_bits_of_the_status,
    h54_a_part_of_it_is_for_all,
    h90_a_schema_twice,
    what_ties_a_session_ends_it,
    settings_of_servers_are_asked_anew,
);

fn h64_what_never_is_the_same(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    let login = world.login.clone().with(Capabilities::SESSION_TRACK);
    let track = "SET session_track_system_variables='*'";
    let run = |client: &mut Client| -> Result<()> {
        client.must(track)?;
        (0..10).try_for_each(|_| client.must("SET @a=1"))
    };
    world.learn_as(&login, run)?;
    let mut client = world.proxy.connect(&login)?;
    client.must(track)?;
    if cluster.vendor == Vendor::MySql {
        // statement_id is another one each time.
        world.by_server(&mut client, "SET @a=1")?;
        world.by_server(&mut client, "SET @a=1")?;
    }
    let mut direct = Client::connect(&world.primary, &login)?;
    direct.must(track)?;
    let length = |client: &mut Client| anyhow::Ok(client.query("SET @a=1")?.raw.len());
    ensure!(length(&mut client)?.abs_diff(length(&mut direct)?) < 4);
    Ok(())
}

fn h65_another_kind_of_reply(cluster: &Cluster) -> Result<()> {
    let mut world = World::start(cluster)?;
    world.login = world.login.clone().with(Capabilities::SESSION_TRACK);
    world.learn(&["SET @a=1"])?;
    let script = ["SET session_track_state_change=1", "SET @a=1", "SET @a=1"];
    for _ in 0..=SESSIONS {
        world.twins(&script)?.quit()?;
    }
    let before = world.predicted()?;
    world.twins(&script)?.quit()?;
    ensure!(world.predicted()? > before, "it is learnt by itself");
    Ok(())
}

fn h66_bits_of_the_status(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    world.learn(&["SET @a=1"])?;
    let script = ["SET sql_mode='NO_BACKSLASH_ESCAPES'", "SET @a=1", "SET sql_mode=''", "SET @a=1"];
    world.learn(&script)?;
    let (before, given) = (world.predicted()?, world.given("SET @a=1"));
    let mut client = world.twins(&script)?;
    ensure!(world.predicted()? == before + 4 && world.given("SET @a=1") == given);
    client.must("SET sql_mode='NO_BACKSLASH_ESCAPES'")?;
    let status = client.query("SET @a=1")?.end.status.unwrap_or_default();
    ensure!(status.contains(Status::NO_BACKSLASH_ESCAPES));
    // The proxy reads texts as the session has set it.
    ensure!(client.rows("SELECT 'a\\', @a")? == [["a\\", "1"].map(|it| Some(it.to_owned()))]);
    Ok(())
}

fn h54_a_part_of_it_is_for_all(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    let mut client = world.connect()?;
    let global = "GLOBAL net_write_timeout = @@GLOBAL.net_write_timeout";
    client.must(&format!("SET {global}, SESSION net_read_timeout = 77"))?;
    ensure!(client.rows("SELECT /* hg=1 */ @@net_read_timeout")? == [[Some("77".to_owned())]]);
    ensure!(world.given_each(global) == [1, 0, 0], "{:?}", world.given_each(global));
    ensure!(world.given("net_read_timeout = 77") == 2);
    Ok(())
}

fn h90_a_schema_twice(cluster: &Cluster) -> Result<()> {
    let (mut world, schema) = (World::start(cluster)?, cluster.schema()?);
    world.login = world.login.clone().with(Capabilities::SESSION_TRACK);
    let text = format!("USE {}", schema.name);
    world.learn(&[&text, &text])?;
    let given = world.given(&text);
    let mut client = world.twins(&[&text, &text])?;
    ensure!(world.given(&text) == given);
    ensure!(client.rows("SELECT /* hg=1 */ DATABASE()")? == [[Some(schema.name.clone())]]);
    ensure!(world.given(&text) == given + 1, "one USE after compaction");
    ensure!(client.rows("SELECT DATABASE()")? == [[Some(schema.name.clone())]]);
    client.quit()?;
    // As a command of its own, without tracking.
    let plain = cluster.admin();
    let enter = |client: &mut Client| client.command(CommandCode::INIT_DB, schema.name.as_bytes());
    world.learn_as(&plain, |client| enter(client).map(drop))?;
    let before = world.predicted()?;
    let mut client = world.proxy.connect(&plain)?;
    let reply = enter(&mut client)?;
    ensure!(world.predicted()? == before + 1);
    let mut direct = Client::connect(&world.primary, &plain)?;
    super::same("COM_INIT_DB", &enter(&mut direct)?, &reply)?;
    ensure!(client.rows("SELECT DATABASE()")? == [[Some(schema.name.clone())]]);
    Ok(())
}

fn what_ties_a_session_ends_it(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    world.learn(&["SET @a=1"])?;
    let mut client = world.connect()?;
    client.must(&format!("CREATE TEMPORARY TABLE {}.t (a INT)", schema.name))?;
    world.by_server(&mut client, "SET @a=1")?;
    client.must(&format!("DROP TEMPORARY TABLE {}.t", schema.name))?;
    world.remembered(&mut client, "SET @a=1")?;
    Ok(())
}

/// H53: what is set for all may change what the same command answers.
fn settings_of_servers_are_asked_anew(cluster: &Cluster) -> Result<()> {
    let server = e2e::Throwaway::start(cluster.vendor)?;
    let world = World::start(&server.cluster)?;
    world.learn(&["SET @a=1"])?;
    let mut client = world.connect()?;
    world.remembered(&mut client, "SET @a=1")?;
    client.must("SET GLOBAL max_error_count = 65")?;
    world.by_server(&mut client, "SET @a=1")?;
    world.learn(&["SET @a=1"])?;
    world.remembered(&mut client, "SET @a=1")?;
    Ok(())
}
