//! Sockets that clients connect to.

use crate::{config::Address, stream::Stream};
use chain::session::Peer;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::{io, net::SocketAddr, os::unix::fs::FileTypeExt, path::Path, time::Duration};
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// A bound listener.
pub(crate) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// A peer that has not answered for this long is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Binds `address`. A host that is a name is looked up; its first address counts.
pub(crate) async fn bind(address: &Address) -> io::Result<Acceptor> {
    match address {
        Address::Tcp(host_port) => {
            let mut found = tokio::net::lookup_host(host_port.as_str()).await?;
            let nothing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            Ok(Acceptor::Tcp(bind_tcp(found.next().ok_or_else(nothing)?)?))
        }
        Address::Unix(path) => {
            remove_stale(path)?;
            Ok(Acceptor::Unix(UnixListener::bind(path)?))
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Removes a socket that a process has left behind; not one that somebody listens on.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = path.metadata().is_ok_and(|found| found.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

impl Acceptor {
    /// The address as bound: port 0 has become a real one.
    pub(crate) fn local(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|e| e.to_string(), |address| address.to_string())
            }
            Self::Unix(listener) => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                format!("unix:{}", path.unwrap_or(Path::new("?")).display())
            }
        }
    }

    /// The port; 0 for a unix socket.
    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or(0, |address| address.port()),
            Self::Unix(_) => 0,
        }
    }

    /// Ends listening; a unix socket leaves no file behind.
    pub(crate) fn close(self) {
        if let Self::Unix(listener) = self
            && let Some(path) = listener.local_addr().ok().as_ref().and_then(|at| at.as_pathname())
        {
            // Another process may have replaced it by its own.
            let _ = std::fs::remove_file(path);
        }
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (io, peer) = listener.accept().await?;
                tune(&io)?;
                Ok((io.into(), Peer::Tcp(peer.ip().to_canonical(), peer.port())))
            }
            Self::Unix(listener) => Ok((UnixStream::into(listener.accept().await?.0), Peer::Unix)),
        }
    }
}

/// Small packets go out at once, and a peer that is gone is noticed.
pub(crate) fn tune(io: &tokio::net::TcpStream) -> io::Result<()> {
    io.set_nodelay(true)?;
    SockRef::from(io).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}
