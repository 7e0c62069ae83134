//! Listening sockets for the process that comes next.
//!
//! ```text
//! new ──── connects ────▶ old      the same user, or root
//!     ◀──── sockets ─────          SCM_RIGHTS, one message
//!     ───── "ready" ────▶          once it serves: the old one drains
//! ```
//!
//! Both have the same sockets, not others of the same address: what waits in their queues is
//! accepted by whoever comes first, and nothing of it is lost when one of them closes.

use super::{Inherited, Reloads};
use rustix::{
    io::IoSlice,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt::socket_peercred,
    },
    process::geteuid,
};
use std::{
    fs,
    io::{self, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{fs::PermissionsExt, net::UnixStream as Blocking},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, Interest},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
};

/// As many as one message can pass on.
const MOST: usize = 253;

const SPACE: usize = rustix::cmsg_space!(ScmRights(MOST));

/// What the message with the sockets says.
const SOCKETS: &[u8] = b"towpath sockets 1\n";

/// What the new process says when it serves.
const READY: u8 = b'R';

/// How long the old process may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that is about to take over, until it serves.
#[derive(Debug)]
pub struct Claim(Blocking);

/// Asks the process that offers its sockets at `path` for them.
///
/// # Errors
///
/// Nobody offers any, or not to this user.
pub fn claim(path: &Path) -> io::Result<(Inherited, Claim)> {
    let stream = Blocking::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; SOCKETS.len()];
    let mut parts = [IoSliceMut::new(&mut text)];
    let received = recvmsg(&stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            sockets.extend(passed);
        }
    }
    if received.bytes == 0 || text != *SOCKETS {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it gives no sockets away"));
    }
    Ok((Inherited::new(sockets), Claim(stream)))
}

impl Claim {
    /// This process serves: the one before may go.
    ///
    /// # Errors
    ///
    /// The one before has gone already.
    pub fn ready(mut self) -> io::Result<()> {
        self.0.write_all(&[READY])
    }
}

/// Where the sockets are offered. The file goes with it, unless another process has it.
struct Offer {
    listener: UnixListener,
    path: PathBuf,
    taken: Arc<AtomicBool>,
}

impl Drop for Offer {
    fn drop(&mut self) {
        if !self.taken.load(Relaxed) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Offers the sockets at `path` until another process has taken over.
pub(super) fn offer(
    path: &Path,
    inherited: &mut Inherited,
    reloads: Weak<Reloads>,
) -> io::Result<JoinHandle<()>> {
    let listener = match inherited.take_unix(path) {
        Some(listener) => {
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener)?
        }
        None => {
            crate::listen::remove_stale(path)?;
            let listener = UnixListener::bind(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            listener
        }
    };
    let offer = Offer { listener, path: path.to_owned(), taken: Arc::default() };
    Ok(tokio::spawn(offer.run(reloads)))
}

impl Offer {
    async fn run(self, reloads: Weak<Reloads>) {
        loop {
            let Ok((mut stream, _)) = self.listener.accept().await else { return };
            let Some(reloads) = reloads.upgrade() else { return };
            match self.hand_over(&mut stream, &reloads).await {
                Ok(true) => {
                    tracing::info!("another process has taken over");
                    self.taken.store(true, Relaxed);
                    return reloads.leave_to_another();
                }
                Ok(false) => tracing::warn!("the process that was to take over has gone"),
                Err(error) => tracing::warn!(%error, "not taken over"),
            }
        }
    }

    /// True once the other process serves.
    async fn hand_over(&self, stream: &mut UnixStream, reloads: &Reloads) -> io::Result<bool> {
        let peer = socket_peercred(&*stream)?;
        if peer.uid != geteuid() && !peer.uid.is_root() {
            let text = format!("user {} may not take over", peer.uid.as_raw());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let mut sockets = reloads.sockets()?;
        sockets.push(self.listener.as_fd().try_clone_to_owned()?);
        if sockets.len() > MOST {
            return Err(io::Error::other(format!("more than {MOST} sockets")));
        }
        stream.async_io(Interest::WRITABLE, || send(stream, &sockets)).await?;
        drop(sockets);
        let mut said = [0];
        match stream.read(&mut said).await? {
            0 => Ok(false),
            _ => Ok(said[0] == READY),
        }
    }
}

fn send(stream: &UnixStream, sockets: &[OwnedFd]) -> io::Result<()> {
    let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::other("too many sockets"));
    }
    let sent = sendmsg(stream, &[IoSlice::new(SOCKETS)], &mut ancillary, SendFlags::empty())?;
    if sent == SOCKETS.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}
