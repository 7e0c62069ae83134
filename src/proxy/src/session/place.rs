//! What a session goes by, and how it follows a reload.

use super::{Context, stack};
use crate::config::Account;
use arc_swap::ArcSwap;
use chain::{HostgroupId, Session, Stack};
use std::sync::Arc;

/// What a session goes by now, and where it would hear of another configuration.
pub(crate) struct Place {
    pub(crate) context: Arc<Context>,
    newest: Arc<ArcSwap<Context>>,
    /// The session's stack is of a chain that a reload has put another in the place of.
    in_older_chain: bool,
}

impl Place {
    /// Of a client that has just come.
    pub(crate) fn new(newest: &Arc<ArcSwap<Context>>) -> Self {
        Self { context: newest.load_full(), newest: newest.clone(), in_older_chain: false }
    }

    /// Takes in what a reload has changed, for a client that logs in anew.
    pub(crate) fn renew(&mut self) {
        let newest = self.newest.load_full();
        // Where servers check passwords from now on, that is for clients that come from now on.
        if newest.entrance.relay.is_none() {
            self.context = newest;
            self.in_older_chain = false;
        }
    }

    /// Whether there is something to follow, for a session that may leave its stack if it is `bare`.
    pub(super) fn is_behind(&self, bare: bool) -> bool {
        !Arc::ptr_eq(&self.newest.load(), &self.context) || bare && self.in_older_chain
    }

    /// Moves the session over, between two commands. Where its chain has become another one it gets
    /// a new stack if it is `bare`: nothing that it has set could be lost. If not it stays in the
    /// chain that it is in.
    pub(super) fn follow(&mut self, session: &mut Session, stack: &mut Stack, bare: bool) {
        let before = std::mem::replace(&mut self.context, self.newest.load_full());
        let newest = &self.context;
        if before.entrance.relay.is_some() {
            // It has one connection, and goes by what it was let in with.
            return;
        }
        let user = newest.entrance.users.find(session.user.as_bytes());
        let user = user.map(|known| known.user().clone());
        session.update(|view| {
            view.topology = newest.topology.clone();
            if let Some(user) = &user {
                view.hostgroup = HostgroupId(user.hostgroup);
                view.transaction_persistent = user.transaction_persistent;
            }
        });
        let Some(entry) = newest.shared.sessions.find(session.id) else { return };
        if let Some(user) = &user {
            entry.becomes(user.backend.clone());
        }
        self.in_older_chain |= !Arc::ptr_eq(&before.shared, &newest.shared);
        if bare && self.in_older_chain {
            self.in_older_chain = false;
            let account: Account = (*entry.account()).clone();
            // A user who is gone shares with nobody.
            let multiplex = user.is_some_and(|user| user.multiplex);
            *stack = self::stack(newest, &account, multiplex, session.id);
            tracing::debug!(session = session.id, "a session has moved to its new chain");
        }
    }
}
