//! Where a session's own connection waits between two stacks.

use crate::backend::link::Link;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::runtime::Handle;

/// Where a session's own connection goes when the session's stack is gone: it is nobody else's, so
/// not to a pool. Says goodbye to the server when it is dropped.
#[derive(Default)]
pub(crate) struct Home(Arc<Mutex<Option<Link>>>);

/// The way back to a [`Home`] that may be gone.
pub(crate) struct WayHome(Weak<Mutex<Option<Link>>>);

impl Home {
    pub(super) fn way(&self) -> WayHome {
        WayHome(Arc::downgrade(&self.0))
    }

    /// The connection, if it is here and of use.
    pub(crate) fn take(&self) -> Option<Link> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(link) = self.take() {
            leave(link);
        }
    }
}

impl WayHome {
    /// Brings the connection back for the session's next stack.
    pub(crate) fn go(self, link: Link) {
        match self.0.upgrade() {
            Some(home) => {
                let link = Link { home: Some(Self(self.0)), ..link };
                *home.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
            }
            None => leave(link),
        }
    }
}

/// Says goodbye in the background.
fn leave(link: Link) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(link.quit());
    }
}
