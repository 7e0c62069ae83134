//! What the service manager is told: sd_notify(3), where it has said that it listens.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// The service manager, or nobody.
pub(crate) struct Manager(Option<(UnixDatagram, SocketAddr)>);

impl Manager {
    /// The one that `NOTIFY_SOCKET` names: a path, or an abstract name behind `@`.
    pub(crate) fn from_env() -> Self {
        Self(env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let found = match name.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
                _ => SocketAddr::from_pathname(&name),
            };
            let found = found.and_then(|at| Ok((UnixDatagram::unbound()?, at)));
            found.inspect_err(|error| tracing::warn!(%error, "NOTIFY_SOCKET")).ok()
        }))
    }

    /// Clients are served, or served again.
    pub(crate) fn ready(&self) {
        self.say("READY=1\nSTATUS=serving clients");
    }

    /// What was configured is being read again. [`Manager::ready`] follows.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// No new clients, and those that are there may finish.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=draining");
    }

    fn say(&self, state: &str) {
        let Some((socket, at)) = &self.0 else { return };
        let said: io::Result<usize> = socket.send_to_addr(state.as_bytes(), at);
        if let Err(error) = said {
            tracing::warn!(%error, "the service manager cannot be told");
        }
    }
}
