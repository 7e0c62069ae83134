//! The bottom of a session that moves into another chain.

use super::{Dispatch, Shared, State};
use chain::{Stack, lend::Lend, moving::Moves};
use std::{
    any::Any,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, Waker},
};
use tower::Service;

impl Shared {
    /// Moves a session here, between two commands and outside a transaction. `stack` is its stack in
    /// the chain of `older`, from which [`chain::Chain::may_follow`] says that sessions may come.
    /// False, and nothing has changed, if the session cannot be moved now.
    pub(crate) fn move_here(self: &Arc<Self>, older: &Self, stack: &mut Stack) -> bool {
        // Whatever is away comes home when it is polled; nobody waits for the rest here.
        let mut context = Context::from_waker(Waker::noop());
        if !matches!(stack.poll_ready(&mut context), Poll::Ready(Ok(()))) {
            return false;
        }
        let bottom = |bottom: &mut dyn Any, same: bool| {
            bottom.downcast_mut::<Dispatch>().and_then(|bottom| bottom.move_to(self, same))
        };
        let moved = self.chain.moved(&older.chain, stack, bottom);
        moved.map(|moved| *stack = moved).is_some()
    }
}

impl Moves for Dispatch {
    fn inherit(&mut self, _: &mut Self, _: bool) {}

    fn below(&mut self) -> Option<&mut Stack> {
        None
    }
}

impl Dispatch {
    /// The bottom of the session's stack in another chain; this one is not used again. Where the
    /// filters around its connections are the `same`, they go with it. Where not it lets go of them,
    /// and what the session has set is brought to those that it opens; while one of them has
    /// something that could not be, the session stays: `None`.
    fn move_to(&mut self, shared: &Arc<Shared>, same: bool) -> Option<Stack> {
        let state = self.0.at_home()?;
        if state.lost || state.alone || !(same || state.lets_go()) {
            return None;
        }
        let mut state = self.0.lend().keep();
        state.shared = shared.clone();
        Some(Stack::moving(Self(Lend::new(state))))
    }
}

impl State {
    /// Lets go of all connections, if others would do as well.
    fn lets_go(&mut self) -> bool {
        let replaceable = |held: &super::Held| {
            self.keeps_state
                && (held.tied.is_none() || held.again)
                && !held.ids.lease.in_transaction.load(Relaxed)
        };
        // One that is parked has the filters of the older chain, and would come back to the session.
        let goes = self.sharing.is_none() && self.held.iter().all(replaceable);
        while goes && !self.held.is_empty() {
            self.let_go(0);
        }
        goes
    }
}
