//! What a session closes is closed on its connection, wherever that is meanwhile.

use super::{CHAIN, login};
use anyhow::{Result, ensure};
use e2e::{Cluster, Relay, Setup};
use wire::CommandCode;

on_both_vendors!(statements_closed_while_their_connection_is_in_the_pool);

/// Statements that are prepared and closed.
const STATEMENTS: usize = 200;

fn statements_closed_while_their_connection_is_in_the_pool(cluster: &Cluster) -> Result<()> {
    let relay = Relay::start(&cluster.addresses[0])?;
    let mut behind = cluster.clone();
    behind.addresses[0].clone_from(&relay.address);
    let proxy = Setup::of(&behind).append(CHAIN).start()?;
    let mut client = proxy.connect(&login(cluster, "app"))?;
    let kept = client.prepare("SELECT ?")?;
    for number in 0..STATEMENTS {
        let statement = client.prepare(&format!("SELECT ? + {number}"))?;
        let reply = client.execute(&statement, 0, &[Some(b"1")])?;
        ensure!(reply.error().is_none(), "{number}: {:?}", reply.error());
        client.close_statement(&statement)?;
        if number % 50 == 0 {
            let closed = client.execute(&statement, 0, &[Some(b"1")])?;
            ensure!(closed.error_code() == Some(1243), "{number}: {:?}", closed.error());
        }
    }
    // What is still open is as it was.
    let reply = client.execute(&kept, 0, &[Some(b"1")])?;
    ensure!(reply.error().is_none(), "{:?}", reply.error());
    let passed: Vec<u8> = relay.passed().into_iter().flat_map(|passed| passed.client).collect();
    let count = |packet: &[u8]| passed.windows(packet.len()).filter(|it| *it == packet).count();
    ensure!(count(b"\x16SELECT ?") == STATEMENTS + 1);
    // A header, the command's code; an id follows.
    let closed = count(&[5, 0, 0, 0, CommandCode::STMT_CLOSE.0]);
    ensure!(closed == STATEMENTS, "{closed} of {STATEMENTS} are closed");
    Ok(())
}
