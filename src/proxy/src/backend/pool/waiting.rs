//! Sessions that wait for a connection, in the order in which they came.

use super::{Got, Pool, State};
use crate::backend::{Key, connect::ConnectError, dispatch::share::Need};
use std::sync::MutexGuard;
use tokio::sync::oneshot;

/// A session that waits, as those see it who let go of a connection.
pub(super) struct Waiter {
    id: u64,
    /// `None` for one who takes nothing that another had.
    key: Option<Key>,
    need: Option<Need>,
    sender: oneshot::Sender<Got>,
}

/// A place among those who wait; until it is dropped.
pub(super) struct Ticket<'a> {
    pool: &'a Pool,
    id: u64,
    receiver: oneshot::Receiver<Got>,
}

impl<'a> Ticket<'a> {
    pub(super) fn new(
        pool: &'a Pool,
        state: &mut MutexGuard<'_, State>,
        key: Option<Key>,
        need: Option<Need>,
    ) -> Self {
        let (sender, receiver) = oneshot::channel();
        let id = state.next;
        state.next += 1;
        state.waiting.push_back(Waiter { id, key, need, sender });
        Self { pool, id, receiver }
    }

    /// What somebody has let go of.
    pub(super) async fn given(&mut self) -> Result<Got, ConnectError> {
        let closed = |_| ConnectError::Protocol("the proxy is about to end".into());
        (&mut self.receiver).await.map_err(closed)
    }

    /// What has come in the last moment. Nothing comes any more.
    pub(super) fn last_look(&mut self) -> Option<Got> {
        self.receiver.close();
        self.receiver.try_recv().ok()
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if let Ok(at) = state.waiting.binary_search_by_key(&self.id, |waiter| waiter.id) {
            state.waiting.remove(at);
        }
    }
}

impl State {
    /// Gives a connection to the first who can use it; gives it back if there is none.
    pub(super) fn offer(&mut self, got: Got) -> Option<Got> {
        let mut got = got;
        let mut at = 0;
        while at < self.waiting.len() {
            let waiter = &self.waiting[at];
            let fits = waiter.key.as_ref() == Some(got.key())
                && match (&got, &waiter.need) {
                    (Got::Clean(_), _) => true,
                    (Got::Parked(parked), Some(need)) => parked.rank(need).is_some(),
                    (Got::Parked(_), None) => false,
                };
            if !fits {
                at += 1;
                continue;
            }
            let Some(waiter) = self.waiting.remove(at) else { break };
            match waiter.sender.send(got) {
                Ok(()) => return None,
                // It has given up just now.
                Err(back) => got = back,
            }
        }
        Some(got)
    }

    /// Whether anybody waits.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }
}
