//! Listening sockets that were passed on to this process.

use std::{
    fmt,
    net::{SocketAddr, TcpListener},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::Path,
};

/// Sockets that somebody else has bound: a service manager, or the process before this one.
#[derive(Default)]
pub struct Inherited {
    tcp: Vec<TcpListener>,
    unix: Vec<UnixListener>,
}

impl Inherited {
    /// These sockets; what is none that listens is closed.
    pub fn new(sockets: impl IntoIterator<Item = OwnedFd>) -> Self {
        let mut inherited = Self::default();
        for socket in sockets {
            let Ok(known) = socket2::SockRef::from(&socket).local_addr() else { continue };
            if known.as_socket().is_some() {
                inherited.tcp.push(socket.into());
            } else if known.is_unix() {
                inherited.unix.push(socket.into());
            }
        }
        inherited
    }

    /// All of these too.
    pub fn extend(&mut self, other: Self) {
        self.tcp.extend(other.tcp);
        self.unix.extend(other.unix);
    }

    /// The one that listens there. Port 0 is none.
    pub(crate) fn take_tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let is_it = |socket: &TcpListener| socket.local_addr().is_ok_and(|at| at == address);
        let at = self.tcp.iter().position(is_it)?;
        Some(self.tcp.swap_remove(at))
    }

    /// The one that listens there.
    pub(crate) fn take_unix(&mut self, path: &Path) -> Option<UnixListener> {
        let is_it = |socket: &UnixListener| {
            socket.local_addr().is_ok_and(|at| at.as_pathname() == Some(path))
        };
        let at = self.unix.iter().position(is_it)?;
        Some(self.unix.swap_remove(at))
    }
}

impl fmt::Debug for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inherited({} TCP, {} unix)", self.tcp.len(), self.unix.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Inherited;
    use std::{net::TcpListener, os::unix::net::UnixListener};

    #[test]
    fn sockets_are_found_by_their_addresses_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let unix = UnixListener::bind(&path).unwrap();
        let file = std::fs::File::open(folder.path()).unwrap();
        let mut inherited = Inherited::new([tcp.into(), unix.into(), file.into()]);
        assert_eq!(format!("{inherited:?}"), "Inherited(1 TCP, 1 unix)");
        assert!(inherited.take_tcp("127.0.0.1:1".parse().unwrap()).is_none());
        assert!(inherited.take_tcp(address).is_some() && inherited.take_tcp(address).is_none());
        assert!(inherited.take_unix(&path).is_some() && inherited.take_unix(&path).is_none());
    }
}
