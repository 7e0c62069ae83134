//! Sockets that clients connect to.

use crate::{
    config::{Address, Tcp},
    stream::Stream,
};
use chain::session::Peer;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::{io, net::SocketAddr, os::unix::fs::FileTypeExt, path::Path};
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// A bound listener.
pub(crate) enum Acceptor {
    Tcp(TcpListener, Tcp),
    Unix(UnixListener),
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Binds `address`. A host that is a name is looked up; its first address counts.
pub(crate) async fn bind(address: &Address, tcp: &Tcp) -> io::Result<Acceptor> {
    match address {
        Address::Tcp(host_port) => {
            let mut found = tokio::net::lookup_host(host_port.as_str()).await?;
            let nothing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            let listener = bind_tcp(found.next().ok_or_else(nothing)?)?;
            Ok(Acceptor::Tcp(listener, tcp.clone()))
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
            Self::Tcp(listener, _) => {
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
            Self::Tcp(listener, _) => listener.local_addr().map_or(0, |address| address.port()),
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
            Self::Tcp(listener, tcp) => {
                let (io, peer) = listener.accept().await?;
                tune(&io, tcp)?;
                Ok((io.into(), Peer::Tcp(peer.ip().to_canonical(), peer.port())))
            }
            Self::Unix(listener) => Ok((UnixStream::into(listener.accept().await?.0), Peer::Unix)),
        }
    }
}

/// Small packets go out at once, and a peer that is gone is noticed.
pub(crate) fn tune(io: &tokio::net::TcpStream, tcp: &Tcp) -> io::Result<()> {
    io.set_nodelay(true)?;
    let socket = SockRef::from(io);
    let questions = TcpKeepalive::new()
        .with_time(tcp.keepalive_time)
        .with_interval(tcp.keepalive_interval)
        .with_retries(tcp.keepalive_retries);
    socket.set_tcp_keepalive(&questions)?;
    if !tcp.user_timeout.is_zero() {
        socket.set_tcp_user_timeout(Some(tcp.user_timeout))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn accepted_sockets_notice_peers_that_are_gone() {
        let (time, interval) = (Duration::from_secs(7), Duration::from_secs(3));
        let user_timeout = Duration::from_secs(20);
        let tcp = Tcp {
            keepalive_time: time,
            keepalive_interval: interval,
            keepalive_retries: 4,
            user_timeout,
        };
        let acceptor = bind(&Address::Tcp("127.0.0.1:0".into()), &tcp).await.unwrap();
        let _client = std::net::TcpStream::connect(acceptor.local()).unwrap();
        let (Stream::Tcp { io }, _) = acceptor.accept().await.unwrap() else { unreachable!() };
        let socket = SockRef::from(&io);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), time);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), interval);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 4);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(user_timeout));
    }
}
