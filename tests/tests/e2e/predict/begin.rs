//! How a session begins: what is known opens no connection.

use super::World;
use anyhow::{Result, ensure};
use e2e::{Client, Cluster};
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    h01_h02_a_set_that_is_known,
    h03_before_a_write,
    h04_an_error_is_never_given_from_memory,
    h59_behind_what_is_on_its_way,
    h82_nothing_is_opened_for_who_leaves,
    h91_the_same_again_and_again,
    h92_a_pooled_client,
    a_whole_beginning_sends_nothing,
    one_of_so_many_is_asked,
);

fn h01_h02_a_set_that_is_known(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    // H2: not known yet.
    let mut client = world.connect()?;
    world.by_server(&mut client, "set names utf8mb4")?;
    ensure!(world.given_each("set names utf8mb4") == [1, 0, 0]);
    client.must("SELECT /* hg=1 */ 1")?;
    ensure!(world.given("set names utf8mb4") == 2);
    client.quit()?;
    // H1.
    world.learn(&["set names utf8mb4"])?;
    let mut direct = Client::connect(&world.primary, &world.login.clone())?;
    let mut client = world.connect()?;
    let (given, opened) = (world.given("set names utf8mb4"), world.opened());
    let reply = world.remembered(&mut client, "set names utf8mb4")?;
    super::same("SET NAMES", &direct.query("set names utf8mb4")?, &reply)?;
    ensure!(world.opened() == opened);
    client.must("SELECT 'work'")?;
    ensure!(world.given("set names utf8mb4") == given + 1);
    let collation = client.rows("SELECT @@collation_connection")?;
    ensure!(collation == direct.rows("SELECT @@collation_connection")?);
    client.quit()?;
    // With session tracking it is another reply, and another key.
    let tracking = world.login.clone().with(Capabilities::SESSION_TRACK);
    let mut direct = Client::connect(&world.primary, &tracking)?;
    for _ in 0..super::SESSIONS {
        let mut client = world.proxy.connect(&tracking)?;
        world.by_server(&mut client, "set names utf8mb4")?;
    }
    let mut client = world.proxy.connect(&tracking)?;
    let reply = world.remembered(&mut client, "set names utf8mb4")?;
    super::same("SET NAMES", &direct.query("set names utf8mb4")?, &reply)
}

fn h03_before_a_write(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    let mut client = world.connect()?;
    client.must(&format!("CREATE TABLE {}.t (a VARCHAR(9))", schema.name))?;
    client.quit()?;
    world.learn(&["SET NAMES latin1", "SET time_zone = '+03:00'"])?;
    let mut client = world.connect()?;
    world.remembered(&mut client, "SET NAMES latin1")?;
    world.remembered(&mut client, "SET time_zone = '+03:00'")?;
    let insert = format!("INSERT INTO {}.t VALUES (@@time_zone)", schema.name);
    client.must(&insert)?;
    let read = format!("SELECT a, @@character_set_client FROM {}.t", schema.name);
    ensure!(client.rows(&read)? == [["+03:00", "latin1"].map(|it| Some(it.to_owned()))]);
    Ok(())
}

fn h04_an_error_is_never_given_from_memory(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    world.learn(&["SET NAMES nosuch", "SET NAMES nosuch"])?;
    let mut client = world.connect()?;
    ensure!(world.by_server(&mut client, "SET NAMES nosuch")?.error_code() == Some(1115));
    client.must("SELECT /* hg=1 */ 1")?;
    ensure!(world.given_each("SET NAMES nosuch")[1..] == [0, 0], "it is in the log");
    Ok(())
}

fn h59_behind_what_is_on_its_way(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    world.learn(&["SET @a=1"])?;
    let mut client = world.connect()?;
    let sleep = client.framed(CommandCode::QUERY, b"SELECT SLEEP(0.3), 'first'");
    let set = client.framed(CommandCode::QUERY, b"SET @a=1");
    client.send(&[sleep, set].concat())?;
    let first = client.receive(CommandCode::QUERY)?;
    ensure!(first.rows(client.capabilities)?[0][1].as_deref() == Some("first"));
    let second = client.receive(CommandCode::QUERY)?;
    ensure!(second.error_code().is_none() && second.packets().len() == 1);
    ensure!(world.predicted()? == 1);
    ensure!(client.rows("SELECT @a")? == [[Some("1".to_owned())]]);
    Ok(())
}

fn h82_nothing_is_opened_for_who_leaves(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    world.learn(&["SET @a=1"])?;
    let (opened, given) = (world.opened(), world.given("SET @a=1"));
    for _ in 0..10 {
        let mut client = world.connect()?;
        client.must("SET @a=1")?;
        client.quit()?;
    }
    ensure!(world.opened() == opened && world.given("SET @a=1") == given);
    ensure!(world.predicted()? == 10);
    Ok(())
}

fn h91_the_same_again_and_again(cluster: &Cluster) -> Result<()> {
    let world = World::start(cluster)?;
    // In a session that has it, it is the same command in another state: compacted, it is one again.
    world.learn(&["set names utf8mb4"; 3])?;
    let mut client = world.connect()?;
    let given = world.given("set names utf8mb4");
    let reply = client.query("set names utf8mb4")?;
    let many = 2000;
    for _ in 1..many {
        ensure!(client.query("set names utf8mb4")?.raw == reply.raw);
    }
    ensure!(world.predicted()? >= many, "{}", world.predicted()?);
    ensure!(world.given("set names utf8mb4") == given);
    client.must("SELECT 1")?;
    ensure!(world.given("set names utf8mb4") == given + 1);
    Ok(())
}

/// The cycle of a pool: what each borrower sets, its work, and a reset.
fn h92_a_pooled_client(cluster: &Cluster) -> Result<()> {
    const SETS: [&str; 5] = [
        "set names utf8mb4",
        "SET time_zone = '+00:00'",
        "SET sql_mode = 'ANSI'",
        "SET autocommit = 1",
        "SET SESSION TRANSACTION READ WRITE",
    ];
    let world = World::start(cluster)?;
    let cycle = |client: &mut Client| -> Result<()> {
        SETS.iter().try_for_each(|set| client.must(set))?;
        client.must("SELECT /* hg=1 */ 'work'")?;
        let reset = client.command(CommandCode::RESET_CONNECTION, b"")?;
        ensure!(reset.error_code().is_none());
        Ok(())
    };
    world.learn_as(&world.login, |client| (0..3).try_for_each(|_| cycle(client)))?;
    let mut client = world.connect()?;
    // each by its text: a connection that was left is reset, and given its character set, in its time
    let by_primary = || SETS.map(|set| world.given_each(set)[0]);
    let (predicted, primary) = (world.predicted()?, by_primary());
    cycle(&mut client)?;
    cycle(&mut client)?;
    ensure!(world.predicted()? >= predicted + 10, "{} of 12", world.predicted()? - predicted);
    ensure!(by_primary() == primary, "the primary had work");
    Ok(())
}

/// The purpose of it all: who connects as applications do, with a schema, settings and statements,
/// takes nothing from any server before there is something to do.
fn a_whole_beginning_sends_nothing(cluster: &Cluster) -> Result<()> {
    let (world, schema) = (World::start(cluster)?, cluster.schema()?);
    let login = world.login.clone().schema(&schema.name).with(Capabilities::SESSION_TRACK);
    let texts: Vec<_> = (0..20).map(|n| format!("SELECT {n} + ?, 'twenty'")).collect();
    let sets = ["set names utf8mb4", "SET autocommit=1", "SET time_zone='+00:00'"];
    let begin = |client: &mut Client| -> Result<Vec<Vec<u8>>> {
        let mut raw = Vec::new();
        for set in sets {
            raw.push(client.query(set)?.raw);
        }
        for text in &texts {
            raw.push(client.prepare(text)?.reply.raw);
        }
        Ok(raw)
    };
    world.learn_as(&login, |client| begin(client).map(drop))?;
    let prepared: usize = world.given("twenty");
    let (opened, set) = (world.opened(), sets.map(|set| world.given(set)));
    let names = world.given(&schema.name);
    let mut client = world.proxy.connect(&login)?;
    let proxied = begin(&mut client)?;
    ensure!(world.predicted()? == 24, "{} were from memory", world.predicted()?);
    ensure!(world.given("twenty") == prepared && sets.map(|set| world.given(set)) == set);
    ensure!(world.given(&schema.name) == names && world.opened() == opened);
    let mut direct = Client::connect(&world.primary, &login)?;
    ensure!(begin(&mut direct)? == proxied);
    // Then all of it is there.
    let replica = client.rows("SELECT /* hg=1 */ DATABASE(), @@time_zone, @@autocommit")?;
    let expected = [schema.name.as_str(), "+00:00", "1"].map(|it| Some(it.to_owned()));
    ensure!(replica == [expected]);
    ensure!(world.given("twenty") == prepared + 20);
    Ok(())
}

fn one_of_so_many_is_asked(cluster: &Cluster) -> Result<()> {
    let chain = super::CHAIN.replace("audit_rate = 0", "audit_rate = 4");
    let world = World::start_with(cluster, |setup| setup.append(&chain))?;
    world.learn(&["SET @a=1"])?;
    let before = world.given("SET @a=1");
    world.learn_as(&world.login, |client| client.must("SET @a=1"))?;
    ensure!(world.given("SET @a=1") == before + 1, "one of five");
    Ok(())
}
