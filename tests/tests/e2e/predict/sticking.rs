//! Session commands that are answered from memory, and say which server the session sticks to.

use super::World;
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster};

on_both_vendors!(
    h72_the_hint_of_an_answer_from_memory_holds,
    h73_what_is_set_needs_no_server_and_what_reads_it_does,
);

const CHAIN: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'hints' },
  { use = 'sticky', strict_wait = '0s' },
  { use = 'session-commands', mode = 'predict', predict.audit_rate = 0 },
  { use = 'route', policy = 'read-write-split', primary = 0, replicas = 1, balance = 'round-robin' },
]
backend = [{ use = 'catch-up' }]";

fn start(cluster: &Cluster) -> Result<World> {
    World::start_with(cluster, |setup| setup.append(CHAIN))
}

impl World {
    /// Which server has been given a read.
    fn place(&self, client: &mut Client, mark: &str) -> Result<usize> {
        let before = self.given_each(mark);
        client.must(&format!("SELECT '{mark}'"))?;
        let after = self.given_each(mark);
        before.iter().zip(&after).position(|(before, after)| before < after).context("nowhere")
    }
}

fn h72_the_hint_of_an_answer_from_memory_holds(cluster: &Cluster) -> Result<()> {
    let world = start(cluster)?;
    let set = "/* sticky_backend=1 */ SET NAMES latin1";
    world.learn(&[set])?;
    for _ in 0..4 {
        let (mut client, opened) = (world.connect()?, world.opened());
        world.remembered(&mut client, set)?;
        ensure!(world.opened() == opened, "a connection for nothing");
        let first = world.place(&mut client, "of a sticky session")?;
        ensure!(first != 0, "a read goes to a replica");
        for _ in 0..4 {
            ensure!(world.place(&mut client, "of a sticky session")? == first);
        }
        let rows = client.rows("SELECT @@character_set_client")?;
        ensure!(rows == [[Some("latin1".to_owned())]], "{rows:?}");
        client.quit()?;
    }
    Ok(())
}

fn h73_what_is_set_needs_no_server_and_what_reads_it_does(cluster: &Cluster) -> Result<()> {
    let world = start(cluster)?;
    let (stick, set) = ("/* sticky_backend=2 */ SET NAMES latin1", "SET @a = 1");
    world.learn(&[stick, set])?;
    let mut client = world.connect()?;
    world.remembered(&mut client, stick)?;
    let only = world.place(&mut client, "of a strict session")?;
    ensure!(only != 0, "a read goes to a replica");
    let path = format!("/servers/{}/state", world.relays[only].address);
    let (status, body) = world.proxy.post(&path, "{\"state\": \"offline-soft\"}")?;
    ensure!(status == 200, "{status} {body}");
    world.remembered(&mut client, set)?;
    let before = world.given_each("SELECT @a");
    let read = client.query("SELECT @a")?;
    ensure!(read.error_code() == Some(9004), "{:?}", read.error());
    ensure!(world.given_each("SELECT @a") == before, "another replica was asked");
    Ok(())
}
