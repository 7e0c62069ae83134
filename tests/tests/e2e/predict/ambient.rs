//! A session command that is answered from memory, anywhere in any script: the client cannot tell.

use super::{World, same};
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Scale};
use wire::Capabilities;

on_both_vendors!(wherever_a_set_stands);

/// What is put in between.
const SETS: [&str; 12] = [
    "SET @a=1",
    "SET @a=@a+1",
    "SET NAMES latin1",
    "SET NAMES utf8mb4",
    "SET autocommit=0",
    "SET autocommit=1",
    "SET sql_mode='NO_BACKSLASH_ESCAPES'",
    "SET sql_mode='ANSI_QUOTES'",
    "SET sql_mode=''",
    "SET time_zone='+01:00'",
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION TRANSACTION READ WRITE",
];

/// What a session does otherwise. `t` is a table of its own.
const WORK: [&str; 9] = [
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SELECT @a, @@autocommit, @@time_zone, @@character_set_client, @@sql_mode",
    "SELECT COUNT(*), SUM(a) FROM t",
    "INSERT INTO t VALUES (1)",
    "DELETE FROM t",
    "SELECT \"t\", 'a\\'",
    "DO 1",
];

/// Scripts of random statements, each on a direct connection and through a proxy that learns while
/// they run. Every byte of every reply is the same: results, errors, status flags, trackers.
fn wherever_a_set_stands(cluster: &Cluster) -> Result<()> {
    let (here, there) = (cluster.schema()?, "e2e_predict_ambient_direct");
    let mut admin = cluster.direct()?;
    admin.must(&format!("DROP DATABASE IF EXISTS {there}"))?;
    admin.must(&format!("CREATE DATABASE {there} CHARACTER SET utf8mb4"))?;
    for schema in [&here.name, there] {
        admin.must(&format!("CREATE TABLE {schema}.t (a INT)"))?;
    }
    let mut world = World::start(cluster)?;
    let tracking = world.login.clone().with(Capabilities::SESSION_TRACK);
    world.login = tracking.clone().schema(&here.name);
    let scripts = match Scale::of_this_run() {
        Scale::Fast => 40,
        Scale::Normal => 100,
        Scale::Full => 1000,
    };
    for seed in 0..scripts {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut direct = Client::connect(&world.primary, &tracking.clone().schema(there))?;
        let mut proxied = world.connect()?;
        for schema in [&here.name, there] {
            admin.must(&format!("DELETE FROM {schema}.t"))?;
        }
        for step in 0..random.usize(5..25) {
            let text = match random.bool() {
                true => SETS[random.usize(..SETS.len())],
                false => WORK[random.usize(..WORK.len())],
            };
            same(text, &direct.query(text)?, &proxied.query(text)?)
                .with_context(|| format!("seed {seed}, step {step}"))?;
        }
        direct.quit()?;
        proxied.quit()?;
    }
    admin.must(&format!("DROP DATABASE {there}"))?;
    let predicted = world.predicted()?;
    ensure!(predicted > scripts, "only {predicted} were from memory");
    ensure!(world.counted("towpath_prediction_mismatches_total", "")? == 0);
    Ok(())
}
