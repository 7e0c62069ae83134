//! Session commands that say which server the session sticks to.

use super::{server, value};
use crate::modes;
use anyhow::{Result, ensure};
use e2e::{Vendor, twin::Bed};

on_both_vendors!(h72_h73_a_session_command_with_a_hint);

fn h72_h73_a_session_command_with_a_hint(vendor: Vendor) -> Result<()> {
    let bed = Bed::start(vendor)?;
    let proxy = bed.proxy(&modes::sticky())?;
    let mut client = proxy.connect(&bed.logins[0])?;
    client.must("/* sticky_backend=1 */ SET NAMES latin1")?;
    let first = server(&mut client, "")?;
    ensure!(first != "1", "a read goes to a replica");
    for _ in 0..6 {
        ensure!(server(&mut client, "")? == first);
        ensure!(value(&mut client, "SELECT @@character_set_client")? == "latin1");
    }
    client.quit()?;

    let mut client = proxy.connect(&bed.logins[0])?;
    client.must("/* sticky_backend=2 */ SET @a = 1")?;
    let only = server(&mut client, "")?;
    ensure!(only != "1", "a read goes to a replica");
    bed.servers.kill_node(only.parse()?)?;
    // Nothing of a session command needs that replica.
    let set = client.query("SET @a = 2");
    let read = client.query("SELECT @a");
    if let Ok(set) = set {
        ensure!(set.error().is_none() || set.error_code() == Some(9004), "{:?}", set.error());
    }
    if let Ok(read) = read {
        ensure!(read.error().is_some(), "no other replica may answer");
    }
    Ok(())
}
