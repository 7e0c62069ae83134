//! A bare byte copy between two TCP connections, on the runtime that Towpath has.
//!
//! What a proxy costs beyond this is what it does with the bytes.
//!
//! usage: tcp-copy LISTEN TARGET

use anyhow::{Context, Result, bail};
use std::io;
use tokio::net::{TcpListener, TcpStream};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, target] = arguments.as_slice() else { bail!("usage: tcp-copy LISTEN TARGET") };
    tokio::runtime::Runtime::new()?.block_on(serve(listen, target))
}

async fn serve(listen: &str, target: &str) -> Result<()> {
    let target = target.parse().context("the target is no address")?;
    let listener = TcpListener::bind(listen).await.with_context(|| listen.to_owned())?;
    loop {
        let (client, _) = listener.accept().await?;
        // a connection that breaks ends alone; the load that used it tells
        tokio::spawn(relay(client, target));
    }
}

async fn relay(mut client: TcpStream, target: std::net::SocketAddr) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
