//! Whose answer it is, and what becomes of one that is not true any more.

use super::{CHAIN, World};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Login, Setup};

on_both_vendors!(
    h49_of_another_account,
    h50_rights_that_were_taken,
    a_login_that_is_not_true_any_more,
);

/// A world with two accounts of its own, of which the first may use `schema`.
fn world(cluster: &Cluster, schema: &str, names: [&str; 2]) -> Result<(World, [Login; 2])> {
    let mut admin = cluster.direct()?;
    for name in names {
        admin.must(&format!("DROP USER IF EXISTS {name}"))?;
        admin.must(&format!("CREATE USER {name} IDENTIFIED BY 'predicted'"))?;
    }
    admin.must(&format!("CREATE TABLE {schema}.t (a INT)"))?;
    admin.must(&format!("GRANT SELECT, INSERT ON {schema}.* TO {}", names[0]))?;
    let more = |setup: Setup| {
        // Connections of before have the rights of before.
        let setup = setup.append(&format!("{CHAIN}\n[backend]\npool_max_idle = 0"));
        names.iter().fold(setup, |setup, name| setup.user(name, "predicted"))
    };
    let world = World::start_with(cluster, more)?;
    Ok((world, names.map(|name| Login::new(name, "predicted"))))
}

fn h49_of_another_account(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let (world, [first, second]) = world(cluster, &schema.name, ["pr_h49_a", "pr_h49_b"])?;
    let text = format!("USE {}", schema.name);
    world.learn_as(&first, |client| client.must(&text))?;
    let mut client = world.proxy.connect(&first)?;
    world.remembered(&mut client, &text)?;
    let mut client = world.proxy.connect(&second)?;
    let denied = world.by_server(&mut client, &text)?;
    let error = denied.error().map(|error| error.to_string()).unwrap_or_default();
    ensure!(denied.error_code() == Some(1044) && error.contains("pr_h49_b"), "{error}");
    drop(world);
    forget(cluster, ["pr_h49_a", "pr_h49_b"])
}

fn h50_rights_that_were_taken(cluster: &Cluster) -> Result<()> {
    let (schema, other) = (cluster.schema()?, "e2e_predict_h50_other");
    let names = ["pr_h50_a", "pr_h50_b"];
    let (world, [login, _]) = world(cluster, &schema.name, names)?;
    let mut admin = cluster.direct()?;
    admin.must(&format!("DROP DATABASE IF EXISTS {other}"))?;
    admin.must(&format!("CREATE DATABASE {other}"))?;
    admin.must(&format!("CREATE TABLE {other}.t (a INT)"))?;
    admin.must(&format!("GRANT SELECT, INSERT ON {other}.* TO {}", names[0]))?;
    let (there, secret) = (format!("USE {other}"), format!("USE {}", schema.name));
    world.learn_as(&login, |client| {
        client.must(&there)?;
        client.must(&secret)
    })?;
    admin.must(&format!("REVOKE SELECT, INSERT ON {}.* FROM {}", schema.name, names[0]))?;
    let mut client = world.proxy.connect(&login)?;
    world.remembered(&mut client, &there)?;
    world.remembered(&mut client, &secret)?;
    let insert = client.query("INSERT INTO t VALUES (50)")?;
    ensure!(insert.error_code() == Some(1044), "{:?}", insert.error());
    for schema in [&schema.name, other] {
        let rows = admin.rows(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
        ensure!(rows == [[Some("0".to_owned())]], "it went to the wrong schema");
    }
    ensure!(client.query("SELECT 1").is_err(), "the session goes on");
    let mut client = world.proxy.connect(&login)?;
    ensure!(world.by_server(&mut client, &secret)?.error_code() == Some(1044));
    ensure!(world.counted("towpath_prediction_mismatches_total", "hard")? >= 1);
    drop(world);
    admin.must(&format!("DROP DATABASE {other}"))?;
    forget(cluster, names)
}

fn a_login_that_is_not_true_any_more(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let names = ["pr_login_a", "pr_login_b"];
    let (world, [login, _]) = world(cluster, &schema.name, names)?;
    let login = login.schema(&schema.name);
    world.learn_as(&login, |client| client.must("SELECT 1"))?;
    let opened = world.opened();
    drop(world.proxy.connect(&login)?);
    ensure!(world.opened() == opened && world.predicted()? == 1);
    let mut admin = cluster.direct()?;
    admin.must(&format!("REVOKE SELECT, INSERT ON {}.* FROM {}", schema.name, names[0]))?;
    let mut client = world.proxy.connect(&login)?;
    let insert = client.query("INSERT INTO t VALUES (1)");
    ensure!(insert.map_or(true, |reply| reply.error_code().is_some()));
    let refused = Client::connect(&world.proxy.address, &login);
    ensure!(refused.is_err(), "the server is asked again");
    drop(world);
    forget(cluster, names)
}

fn forget(cluster: &Cluster, names: [&str; 2]) -> Result<()> {
    let mut admin = cluster.direct()?;
    names.iter().try_for_each(|name| admin.must(&format!("DROP USER {name}")))
}
