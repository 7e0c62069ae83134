//! A connection that the session has not had before this command.

use super::{Held, State, share};
use crate::{
    backend::{
        connection::Connection,
        ids::Ids,
        link::Link,
        pool::Got,
        sessions::{Killed, Lease},
    },
    telemetry::Trail,
};
use chain::{Command, Error, Result, facts::Target, topology::InUse};
use std::{sync::Arc, time::Instant};
use tower::ServiceExt;

impl State {
    /// Opens a connection to the server that is named, or to one that stands in for it, and says
    /// where it is among those held. It is ready for a command, as the others are since the last
    /// [`Dispatch::poll_ready`].
    pub(super) async fn open(&mut self, target: Target, command: &Command) -> Result<usize> {
        if self.alone {
            let name = &target.server.name;
            return Err(Error::filter(format!("this session has no connection to {name}")));
        }
        let trail = command.trail::<Trail>().map(|trail| (trail, Instant::now()));
        let attached = self.attach(&target, command).await;
        if let Some((trail, began)) = trail {
            let found = attached.as_ref().ok();
            trail.checked_out(began, found.map(|(_, target)| target.server.name.clone()));
        }
        let (got, target) = match attached {
            Ok(attached) => attached,
            Err(error) => return Err(self.unattached(command, error)),
        };
        self.accepted = true;
        let attached = match got {
            Got::Clean(link) => self.hold(target, *link),
            Got::Parked(parked) => self.take_up(*parked, target, command),
        };
        let at = self.held.len() - 1;
        let ready = self.held[at].stack.ready().await.map(drop);
        if !attached {
            return Err(Error::backend(Killed));
        }
        ready.map(|()| at)
    }

    /// Keeps a connection for the session. False if the session has been ended meanwhile.
    pub(super) fn hold(&mut self, target: Target, link: Link) -> bool {
        let lease = Arc::new(Lease::new(link.backend.clone(), link.thread_id, link.source));
        let ids = Ids::of(&link, lease.clone());
        link.seat.take(lease.clone(), self.sharing.is_some());
        let shared = self.sharing.as_ref().map(|_| share::Shared::of(&link));
        let attached = Some(InUse::connection(target.server.clone()));
        let stack = self.shared.chain.backend(Connection::stack(link));
        let (tied, again, head, fresh) = (None, false, 0, true);
        self.held.push(Held { target, stack, ids, tied, again, head, fresh, shared, attached });
        self.me.entry.attach(lease)
    }
}
