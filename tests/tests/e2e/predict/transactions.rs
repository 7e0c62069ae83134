//! In a transaction nothing is given from memory.

use super::{World, same};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster};
use wire::status::Status;

on_both_vendors!(
    h14_autocommit_goes_off,
    h15_autocommit_goes_off_and_on,
    h16_in_a_transaction,
    without_autocommit_work_ends_it,
);

fn h14_autocommit_goes_off(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    world.connect()?.must(&format!("CREATE TABLE {}.t (a INT)", schema.name))?;
    world.learn(&["SET autocommit=0"])?;
    let mut client = world.connect()?;
    let mut direct = Client::connect(&world.primary, &world.login)?;
    let off = world.remembered(&mut client, "SET autocommit=0")?;
    same("SET autocommit=0", &direct.query("SET autocommit=0")?, &off)?;
    ensure!(off.end.status.is_some_and(|status| !status.contains(Status::AUTOCOMMIT)));
    let read = format!("SELECT * FROM {}.t", schema.name);
    let rows = client.query(&read)?;
    same(&read, &direct.query(&read)?, &rows)?;
    ensure!(rows.end.status.is_some_and(|status| status.contains(Status::IN_TRANS)));
    Ok(())
}

fn h15_autocommit_goes_off_and_on(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    let script = ["SET autocommit=0", "SET autocommit=1"];
    world.learn(&script)?;
    let mut client = world.connect()?;
    for text in script {
        world.remembered(&mut client, text)?;
    }
    let off = world.given("SET autocommit=0");
    client.must("SELECT /* hg=1 */ 1")?;
    ensure!(world.given("SET autocommit=0") == off, "nobody can tell that it was off");
    world.twins(&["SET autocommit=0", "SET autocommit=1", "SELECT @@autocommit"])?.quit()
}

fn h16_in_a_transaction(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    world.learn(&["SET NAMES latin1", "SET @a=1"])?;
    let mut client = world.connect()?;
    client.must("BEGIN")?;
    let reply = world.by_server(&mut client, "SET NAMES latin1")?;
    ensure!(reply.end.status.is_some_and(|status| status.contains(Status::IN_TRANS)));
    client.must("COMMIT")?;
    client.quit()?;
    world.twins(&["BEGIN", "SET NAMES latin1", "SET @a=1", "COMMIT", "SET NAMES latin1"])?.quit()
}

/// T1: with autocommit off, what was executed may have left a transaction that no flag tells of.
fn without_autocommit_work_ends_it(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    world.learn(&["SET autocommit=0", "SET @a=1"])?;
    let mut client = world.connect()?;
    world.remembered(&mut client, "SET autocommit=0")?;
    world.remembered(&mut client, "SET @a=1")?;
    client.must("DO 1")?;
    world.by_server(&mut client, "SET @a=1")?;
    world.by_server(&mut client, "SET autocommit=1")?;
    Ok(())
}
