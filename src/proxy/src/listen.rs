//! Sockets that clients connect to.

use crate::{
    config::{Address, Tcp},
    reload::Inherited,
    stream::Stream,
};
use chain::session::Peer;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::{
    io,
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
};
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// A bound listener.
pub(crate) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Binds `address`, unless its socket is among those that were `inherited`. A host that is a name is
/// looked up; its first address counts.
pub(crate) async fn bind(address: &Address, inherited: &mut Inherited) -> io::Result<Acceptor> {
    match address {
        Address::Tcp(host_port) => {
            let mut found = tokio::net::lookup_host(host_port.as_str()).await?;
            let nothing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            let found = found.next().ok_or_else(nothing)?;
            match inherited.take_tcp(found) {
                Some(listener) => {
                    listener.set_nonblocking(true)?;
                    Ok(Acceptor::Tcp(TcpListener::from_std(listener)?))
                }
                None => Ok(Acceptor::Tcp(bind_tcp(found)?)),
            }
        }
        Address::Unix(path) => match inherited.take_unix(path) {
            Some(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Acceptor::Unix(UnixListener::from_std(listener)?))
            }
            None => {
                remove_stale(path)?;
                Ok(Acceptor::Unix(UnixListener::bind(path)?))
            }
        },
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
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
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

    /// The same socket once more.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(listener) => listener.as_fd().try_clone_to_owned(),
            Self::Unix(listener) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// A unix socket leaves no file behind.
    pub(crate) fn leave_nothing(&self) {
        if let Self::Unix(listener) = self
            && let Some(path) = listener.local_addr().ok().as_ref().and_then(|at| at.as_pathname())
        {
            let _ = std::fs::remove_file(path);
        }
    }

    /// The next client.
    pub(crate) async fn accept(&self, tcp: &Tcp) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
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
        let acceptor =
            bind(&Address::Tcp("127.0.0.1:0".into()), &mut Inherited::default()).await.unwrap();
        let _client = std::net::TcpStream::connect(acceptor.local()).unwrap();
        let (Stream::Tcp { io }, _) = acceptor.accept(&tcp).await.unwrap() else { unreachable!() };
        let socket = SockRef::from(&io);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), time);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), interval);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 4);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(user_timeout));
    }
}
