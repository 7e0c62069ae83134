//! A relay that holds every byte back for a while, each way: a server that is farther away.
//!
//! Bytes wait side by side, not one after the other. The connection itself is there at once.
//!
//! usage: delay LISTEN TARGET MICROSECONDS

use anyhow::{Context, Result, bail};
use bytes::BytesMut;
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::Instant,
};

/// Chunks of one direction that wait at once: a reader that is faster than that waits too.
const WAITING: usize = 1024;
/// Bytes of one read.
const CHUNK: usize = 64 * 1024;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, target, delay] = arguments.as_slice() else {
        bail!("usage: delay LISTEN TARGET MICROSECONDS")
    };
    let delay = Duration::from_micros(delay.parse().context("the delay is no number")?);
    tokio::runtime::Runtime::new()?.block_on(serve(listen, target, delay))
}

async fn serve(listen: &str, target: &str, delay: Duration) -> Result<()> {
    let target = target.parse().context("the target is no address")?;
    let listener = TcpListener::bind(listen).await.with_context(|| listen.to_owned())?;
    loop {
        let (client, _) = listener.accept().await?;
        // a connection that breaks ends alone; the load that used it tells
        tokio::spawn(relay(client, target, delay));
    }
}

async fn relay(client: TcpStream, target: SocketAddr, delay: Duration) -> io::Result<()> {
    client.set_nodelay(true)?;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(pass(from_client, to_server, delay), pass(from_server, to_client, delay))?;
    Ok(())
}

/// One direction, until its end, which comes as late as everything else.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
) -> io::Result<()> {
    let (sender, mut waiting) = mpsc::channel::<(Instant, BytesMut)>(WAITING);
    let read = async move {
        loop {
            let mut chunk = BytesMut::with_capacity(CHUNK);
            let end = from.read_buf(&mut chunk).await? == 0;
            // Whoever waits for it is gone when the other side has closed.
            if end || sender.send((Instant::now() + delay, chunk)).await.is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, chunk)) = waiting.recv().await {
            tokio::time::sleep_until(due).await;
            to.write_all(&chunk).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write)?;
    Ok(())
}
