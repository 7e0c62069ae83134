//! Listening sockets that were bound before this process began.

use anyhow::{Context, Result};
use listenfd::ListenFd;
use proxy::{Claim, Inherited};
use std::{
    io::ErrorKind,
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::Path,
};

/// Those of the service manager (systemd's socket activation: `LISTEN_FDS`). To be called while
/// there is one thread.
pub(crate) fn from_manager() -> Inherited {
    let mut passed = ListenFd::from_env();
    let sockets = (0..passed.len()).filter_map(|at| {
        let tcp = passed.take_tcp_listener(at).ok().flatten().map(|it: TcpListener| it.into());
        tcp.or_else(|| {
            let unix = passed.take_unix_listener(at).ok().flatten();
            unix.map(|it: UnixListener| OwnedFd::from(it))
        })
    });
    let inherited = Inherited::new(sockets.collect::<Vec<_>>());
    if passed.len() > 0 {
        tracing::info!(sockets = ?inherited, "passed on by the service manager");
    }
    inherited
}

/// Adds those of the process that is to be taken over. Without one this process begins by itself.
pub(crate) fn claim(path: &Path, inherited: &mut Inherited) -> Result<Option<Claim>> {
    match proxy::claim(path) {
        Ok((sockets, claim)) => {
            tracing::info!(?sockets, "taking over");
            inherited.extend(sockets);
            Ok(Some(claim))
        }
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            tracing::info!(path = %path.display(), "there is no process to take over");
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("--take-over: {}", path.display())),
    }
}
