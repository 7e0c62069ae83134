//! One listener: its socket, and what its clients go by.

use crate::{
    config::{self, Address},
    listen::Acceptor,
    session::Context,
    signal::Signal,
};
use arc_swap::ArcSwap;
use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// One listener. A reload changes what its clients go by; its address stays.
pub(crate) struct Door {
    /// As configured when the socket was bound.
    pub(crate) address: Address,
    /// As bound.
    pub(crate) local: String,
    pub(crate) port: u16,
    pub(crate) tcp: ArcSwap<config::Tcp>,
    pub(crate) context: Arc<ArcSwap<Context>>,
    /// Given when no client is to come by it any more.
    pub(crate) closing: Signal,
    socket: Mutex<Socket>,
}

struct Socket {
    /// Gone once it is closed.
    acceptor: Option<Arc<Acceptor>>,
    /// Another process listens on it too: a unix socket's file is that one's.
    shared: bool,
    /// Clients are accepted.
    begun: bool,
}

impl Door {
    pub(crate) fn new(
        address: Address,
        acceptor: Acceptor,
        tcp: config::Tcp,
        context: Context,
    ) -> Self {
        Self {
            address,
            local: acceptor.local(),
            port: acceptor.port(),
            tcp: ArcSwap::from_pointee(tcp),
            context: Arc::new(ArcSwap::from_pointee(context)),
            closing: Signal::default(),
            socket: Mutex::new(Socket {
                acceptor: Some(Arc::new(acceptor)),
                shared: false,
                begun: false,
            }),
        }
    }

    /// True the first time that it is asked.
    pub(crate) fn begins(&self) -> bool {
        !std::mem::replace(&mut self.lock().begun, true)
    }

    pub(crate) fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.lock().acceptor.clone()
    }

    /// The socket for another process, which is to listen on it from now on.
    pub(crate) fn share(&self) -> std::io::Result<Option<OwnedFd>> {
        self.lock().acceptor.as_ref().map(|acceptor| acceptor.share()).transpose()
    }

    /// Another process listens on the socket: it is not removed when this one has ended.
    pub(crate) fn leave_to_another(&self) {
        self.lock().shared = true;
    }

    /// Ends listening, once nobody holds the acceptor any more.
    pub(crate) fn close(&self) {
        let mut socket = self.lock();
        let acceptor = socket.acceptor.take();
        if let Some(acceptor) = acceptor.filter(|_| !socket.shared) {
            acceptor.leave_nothing();
        }
    }

    /// Whether there are sessions that came by it.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.context) > 1
    }

    fn lock(&self) -> MutexGuard<'_, Socket> {
        // Nothing panics while it is locked.
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
