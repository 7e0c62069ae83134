//! Servers of several versions, and one that is not what it was taken for.

use super::{CHAIN, SESSIONS, World};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Relay, Say, Scripted, Setup, Vendor, scripted::Heard, wait};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
    mpsc,
};
use wire::{CommandCode, Status};

on_both_vendors!(
    h6_a_server_that_is_another_than_it_says,
    h83_two_learn_at_once,
    h84_a_rolling_upgrade,
    h84_a_version_that_answers_otherwise,
    a_server_that_went_and_came_and_leaves,
);

/// MariaDB takes it, MySQL has it no longer.
const MODE: &str = "SET sql_mode='NO_AUTO_CREATE_USER'";
const SET: &str = "SET @a = 1";
const WRITE: &str = "INSERT INTO t VALUES (6)";

/// The chain without a rule for a hostgroup that is not there.
fn one_hostgroup() -> String {
    CHAIN.lines().filter(|line| !line.contains("hg=1")).collect::<Vec<_>>().join("\n")
}

/// The table of a server that joins hostgroup 0, with its weight.
fn server(address: &str, weight: u32) -> String {
    format!("[[server]]\nhostgroup = 0\naddress = {address:?}\nweight = {weight}\n")
}

impl World {
    /// A proxy before one server, whose table is this text's first.
    fn of_one(cluster: &Cluster) -> Result<Self> {
        Self::start_with(cluster, |setup: Setup| setup.append(&one_hostgroup()))
    }

    /// Another server joins, and gets all the new work from now on.
    fn joined_by(&mut self, address: &str) -> Result<()> {
        let relay = Relay::start(address)?;
        let first = &self.relays[0].address;
        let before = format!("[[server]]\nhostgroup = 0\naddress = {first:?}\n\n");
        let both = server(first, 0) + &server(&relay.address, 1);
        self.proxy.edit(|text| text.replace(&before, &both))?;
        self.proxy.reload()?;
        self.relays.push(relay);
        Ok(())
    }

    /// The first server gets all the new work, or the second.
    fn turned_to(&self, second: bool) -> Result<()> {
        let [first, other] = [&self.relays[0].address, &self.relays[1].address];
        let tables =
            |second: bool| server(first, u32::from(!second)) + &server(other, u32::from(second));
        self.proxy.edit(|text| text.replace(&tables(!second), &tables(second)))?;
        self.proxy.reload().map(drop)
    }

    /// A session that does some work, and is over.
    fn greeted(&self) -> Result<()> {
        let mut client = self.connect()?;
        client.must("SELECT 'greeted'")?;
        client.quit()
    }
}

/// Learnt on MariaDB; a MySQL server joins, which does not know the mode.
#[test]
fn h5_a_server_of_another_kind_joins() -> Result<()> {
    let (mariadb, mysql) = (Cluster::find(Vendor::MariaDb)?, Cluster::find(Vendor::MySql)?);
    let (Some(mut mariadb), Some(mysql)) = (mariadb, mysql) else { return Ok(()) };
    mariadb.addresses.truncate(1);
    let mut world = World::of_one(&mariadb)?;
    world.learn(&[MODE])?;
    world.remembered(&mut world.connect()?, MODE)?;
    world.joined_by(&mysql.addresses[0])?;
    // Its first connection says what it is.
    world.greeted()?;
    let mut client = world.connect()?;
    let given = world.given_each(MODE);
    let reply = world.by_server(&mut client, MODE)?;
    let mut direct = Client::connect(&mysql.addresses[0], &mysql.admin())?;
    super::same(MODE, &direct.query(MODE)?, &reply)?;
    ensure!(reply.error_code() == Some(1231), "{:?}", reply.error());
    ensure!(world.given_each(MODE) == [given[0], given[1] + 1], "the other one answered");
    // It has failed, so it is in no log: the session goes on.
    client.must("SELECT 'and goes on'")?;
    ensure!(world.given(MODE) == given[0] + given[1] + 1);
    Ok(())
}

/// Does everything, until it `lies`: then it refuses the mode.
fn lying(lies: &Arc<AtomicBool>) -> impl Fn(&Heard) -> Say + Send + Sync + 'static {
    let lies = lies.clone();
    move |heard| match heard.text.as_str() {
        MODE if lies.load(Relaxed) => Say::Err(1231),
        text if text.starts_with("SELECT") => Say::Row("as ever".into()),
        _ => Say::Ok,
    }
}

fn h6_a_server_that_is_another_than_it_says(cluster: &Cluster) -> Result<()> {
    let lies = Arc::new(AtomicBool::new(false));
    let primary = Scripted::start(cluster.vendor, lying(&lies))?;
    let world = World::of_one(&Scripted::cluster(cluster.vendor, &[&primary]))?;
    world.learn(&[MODE])?;
    lies.store(true, Relaxed);
    let mut client = world.connect()?;
    world.remembered(&mut client, MODE)?;
    primary.take();
    let error = client.query(WRITE)?.error().map(|error| error.to_string()).unwrap_or_default();
    let wanted = "ERR 1231 (HY000): deferred session command failed: as it is written";
    ensure!(error == wanted, "{error}");
    ensure!(client.query("SELECT 1").is_err(), "the session goes on");
    ensure!(world.given(WRITE) == 0, "it was sent behind what had failed");
    let heard = primary.take();
    let on = heard.iter().filter(|heard| heard.text == MODE).map(|heard| heard.connection);
    let on: Vec<u32> = on.collect();
    ensure!(on.len() == 2 && on[0] != on[1], "twice, on two connections: {heard:?}");
    // From then on it is asked.
    let mut client = world.connect()?;
    let reply = world.by_server(&mut client, MODE)?;
    let error = reply.error().map(|error| error.to_string()).unwrap_or_default();
    ensure!(error == "ERR 1231 (HY000): as it is written", "{error}");
    client.must(WRITE)
}

/// Two sessions whose command is at the server at the same time; the server says OK to one of them.
/// Which of the two is told first makes no difference.
fn h83_two_learn_at_once(cluster: &Cluster) -> Result<()> {
    for [first, second] in [[Say::Ok, Say::Err(1231)], [Say::Err(1231), Say::Ok]] {
        let (arrived, arrivals) = mpsc::channel();
        let (arrived, together) = (Mutex::new(arrived), Arc::new(AtomicBool::new(true)));
        let apart = together.clone();
        let primary = Scripted::start(cluster.vendor, move |heard| match heard.text.as_str() {
            SET if together.load(Relaxed) => {
                let (say, said) = mpsc::channel();
                // A test that is over ends with an answer as good as any.
                let _ = arrived.lock().unwrap_or_else(PoisonError::into_inner).send(say);
                said.recv().unwrap_or(Say::Ok)
            }
            _ => Say::Ok,
        })?;
        let world = World::of_one(&Scripted::cluster(cluster.vendor, &[&primary]))?;
        let mut waiting = Vec::new();
        for _ in 0..2 {
            let mut client = world.connect()?;
            client.send_command(CommandCode::QUERY, SET.as_bytes())?;
            waiting.push((client, arrivals.recv_timeout(wait::LIMIT)?));
        }
        apart.store(false, Relaxed);
        let refused = [&first, &second].map(|say| matches!(say, Say::Err(_)));
        for ((client, say), (what, refused)) in
            waiting.iter_mut().zip([first, second].into_iter().zip(refused))
        {
            say.send(what)?;
            let told = client.receive(CommandCode::QUERY)?.error_code();
            ensure!(told == refused.then_some(1231), "{told:?}");
        }
        for _ in 0..2 * SESSIONS {
            world.by_server(&mut world.connect()?, SET)?;
        }
        ensure!(world.predicted()? == 0);
        ensure!(world.counted("towpath_prediction_keys", "volatile")? == 1);
    }
    Ok(())
}

/// Two versions of a vendor's.
fn versions(vendor: Vendor) -> [&'static str; 2] {
    match vendor {
        Vendor::MariaDb => ["5.5.5-10.11.19-MariaDB", "5.5.5-11.4.3-MariaDB"],
        Vendor::MySql => ["8.4.9", "9.7.4"],
    }
}

/// Learnt from the old version; the new one joins.
fn upgraded(vendor: Vendor, new: Say) -> Result<(World, [Scripted; 2])> {
    let [first, second] = versions(vendor);
    let old = Scripted::start_as(first, |_| Say::Ok)?;
    let new = Scripted::start_as(second, move |heard| match heard.text.as_str() {
        SET => new.clone(),
        _ => Say::Ok,
    })?;
    let mut world = World::of_one(&Scripted::cluster(vendor, &[&old]))?;
    world.learn(&[SET])?;
    world.remembered(&mut world.connect()?, SET)?;
    world.joined_by(&new.address)?;
    world.greeted()?;
    Ok((world, [old, new]))
}

fn h84_a_rolling_upgrade(cluster: &Cluster) -> Result<()> {
    let (world, _servers) = upgraded(cluster.vendor, Say::Ok)?;
    for _ in 0..SESSIONS {
        let given = world.given_each(SET);
        world.by_server(&mut world.connect()?, SET)?;
        ensure!(world.given_each(SET)[0] == given[0], "the old one was asked");
    }
    for second in [true, false] {
        if !second {
            world.turned_to(second)?;
        }
        let mut client = world.connect()?;
        world.remembered(&mut client, SET)?;
        client.must("DO 1")?;
    }
    ensure!(world.counted("towpath_prediction_mismatches_total", "")? == 0);
    Ok(())
}

fn h84_a_version_that_answers_otherwise(cluster: &Cluster) -> Result<()> {
    let other = Say::Status(Status::AUTOCOMMIT | Status::NO_BACKSLASH_ESCAPES);
    let (world, _servers) = upgraded(cluster.vendor, other)?;
    for second in [true, false] {
        if !second {
            world.turned_to(second)?;
        }
        for _ in 0..2 * SESSIONS {
            world.by_server(&mut world.connect()?, SET)?;
        }
    }
    // The new one leaves again.
    let table = server(&world.relays[1].address, 0);
    world.proxy.edit(|text| text.replace(&table, ""))?;
    world.proxy.reload()?;
    for _ in 0..SESSIONS {
        world.by_server(&mut world.connect()?, SET)?;
    }
    world.remembered(&mut world.connect()?, SET)?;
    Ok(())
}

/// What is known of a hostgroup is learnt anew when one of its servers comes back, and not lost to
/// those who stay when it leaves for good.
fn a_server_that_went_and_came_and_leaves(cluster: &Cluster) -> Result<()> {
    let (world, _servers) = upgraded(cluster.vendor, Say::Ok)?;
    let name = &world.relays[1].address;
    for state in ["offline-soft", "online"] {
        let path = format!("/servers/{name}/state");
        let (status, body) = world.proxy.post(&path, &format!("{{\"state\": {state:?}}}"))?;
        ensure!(status == 200, "{status} {body}");
    }
    for second in [true, false] {
        if !second {
            world.turned_to(second)?;
        }
        for _ in 0..SESSIONS {
            world.by_server(&mut world.connect()?, SET)?;
        }
    }
    world.remembered(&mut world.connect()?, SET)?;
    world.proxy.edit(|text| text.replace(&server(name, 0), ""))?;
    world.proxy.reload()?;
    for _ in 0..SESSIONS {
        world.by_server(&mut world.connect()?, SET)?;
    }
    world.remembered(&mut world.connect()?, SET)?;
    Ok(())
}
