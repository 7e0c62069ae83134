//! What a session goes by, and how it follows a reload.

use super::{Context, stack};
use crate::{backend::dispatch::Shared, config::Account};
use arc_swap::ArcSwap;
use chain::{HostgroupId, Session, Stack};
use std::sync::Arc;

/// What a session goes by now, and where it would hear of another configuration.
pub(crate) struct Place {
    pub(crate) context: Arc<Context>,
    newest: Arc<ArcSwap<Context>>,
    /// Where the session's stack is of a chain that a reload has put another in the place of.
    older: Option<Older>,
}

/// The chain that a session is in yet.
struct Older {
    shared: Arc<Shared>,
    /// The session can move to its new chain while it goes on, unless something is in its way.
    moves: bool,
}

impl Place {
    /// Of a client that has just come.
    pub(crate) fn new(newest: &Arc<ArcSwap<Context>>) -> Self {
        Self { context: newest.load_full(), newest: newest.clone(), older: None }
    }

    /// Takes in what a reload has changed, for a client that logs in anew.
    pub(crate) fn renew(&mut self) {
        let newest = self.newest.load_full();
        // Where servers check passwords from now on, that is for clients that come from now on.
        if newest.entrance.relay.is_none() {
            self.context = newest;
            self.older = None;
        }
    }

    /// Whether there is something to follow, for a session that may leave its stack if it is `bare`.
    pub(super) fn is_behind(&self, bare: bool) -> bool {
        !Arc::ptr_eq(&self.newest.load(), &self.context)
            || self.older.as_ref().is_some_and(|older| bare || older.moves)
    }

    /// Moves the session over, between two commands. Where its chain has become another one it gets
    /// a new stack if it is `bare`, as nothing that it has set could be lost. If not it takes along
    /// what its filters know of it; where that cannot be, it stays in the chain that it is in.
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
        if !Arc::ptr_eq(&before.shared, &newest.shared) {
            let shared = self.older.take().map_or_else(|| before.shared.clone(), |it| it.shared);
            let moves = newest.shared.chain.may_follow(&shared.chain);
            self.older = Some(Older { shared, moves });
        }
        let Some(older) = &self.older else { return };
        if bare {
            let account: Account = (*entry.account()).clone();
            // A user who is gone shares with nobody.
            let multiplex = user.is_some_and(|user| user.multiplex);
            *stack = self::stack(newest, &account, multiplex, session.id);
        } else if !(older.moves && newest.shared.move_here(&older.shared, stack)) {
            return;
        }
        self.older = None;
        tracing::debug!(session = session.id, bare, "a session has moved to its new chain");
    }
}
