//! Connections that can be cut from outside: their server is out of use.

use crate::signal::Signal;
use futures_util::task::AtomicWaker;
use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

/// All connections to one server.
#[derive(Default)]
pub(crate) struct Leashes(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// Given to those that are there when it is time, and then replaced.
    cut: Arc<Signal>,
    /// The same, for those of them that are forwarded.
    forwarded: Arc<Signal>,
    next: u64,
    wakers: HashMap<u64, Arc<AtomicWaker>>,
}

/// What one connection is cut by. Held as long as the connection is open.
pub(crate) struct Leash {
    all: Arc<Leashes>,
    id: u64,
    cut: Arc<Signal>,
    waker: Arc<AtomicWaker>,
}

impl Leashes {
    /// For a connection that is about to be opened.
    pub(crate) fn tie(self: &Arc<Self>) -> Leash {
        let waker = Arc::<AtomicWaker>::default();
        let mut held = self.lock();
        let (id, cut) = (held.next, held.cut.clone());
        held.next += 1;
        held.wakers.insert(id, waker.clone());
        Leash { all: self.clone(), id, cut, waker }
    }

    /// Cuts all connections that are there; those that come later are others. Says how many.
    pub(crate) fn cut(&self) -> usize {
        let mut held = self.lock();
        std::mem::take(&mut held.cut).give();
        std::mem::take(&mut held.forwarded).give();
        held.wakers.values().for_each(|waker| waker.wake());
        held.wakers.len()
    }

    /// Cuts the connections of forwarded sessions. Says how many.
    pub(crate) fn cut_forwarded(&self) -> usize {
        let forwarded = std::mem::take(&mut self.lock().forwarded);
        forwarded.give();
        Arc::strong_count(&forwarded) - 1
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().wakers.is_empty()
    }

    /// Locked when a connection is opened and when it closes.
    fn lock(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leash {
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_given()
    }

    /// What is given when the connection is cut, now that a session is forwarded on it.
    pub(crate) fn forwarded(&self) -> Arc<Signal> {
        let held = self.all.lock();
        // Looked at under the lock: what is given takes both.
        if self.is_cut() { self.cut.clone() } else { held.forwarded.clone() }
    }

    /// Whether it is cut; if not, the task is woken when it is.
    pub(crate) fn poll_cut(&self, cx: &mut Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.is_cut()
    }

    /// Waits until it is cut.
    pub(crate) async fn cut(&self) {
        poll_fn(|cx| if self.poll_cut(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.all.lock().wakers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::Leashes;
    use std::sync::Arc;
    use tokio_test::{assert_pending, assert_ready, task};

    #[test]
    fn those_that_are_there_are_cut_and_later_ones_are_not() {
        let leashes = Arc::<Leashes>::default();
        let (idle, busy, closed) = (leashes.tie(), leashes.tie(), leashes.tie());
        drop(closed);
        let mut waiting = task::spawn(busy.cut());
        assert_pending!(waiting.poll());
        assert_eq!(leashes.cut(), 2);
        assert!(waiting.is_woken());
        assert_ready!(waiting.poll());
        assert!(idle.is_cut() && idle.forwarded().is_given());
        let later = leashes.tie();
        assert!(!later.is_cut());
        assert_pending!(task::spawn(later.cut()).poll());
    }

    #[test]
    fn forwarded_ones_are_cut_alone_or_with_all() {
        let leashes = Arc::<Leashes>::default();
        let (chained, first, second) = (leashes.tie(), leashes.tie(), leashes.tie());
        let signal = first.forwarded();
        assert_eq!(leashes.cut_forwarded(), 1);
        assert!(signal.is_given() && !chained.is_cut());
        let signal = second.forwarded();
        assert!(!signal.is_given());
        assert_eq!(leashes.cut(), 3);
        assert!(signal.is_given() && chained.is_cut());
        assert_eq!(leashes.cut_forwarded(), 0);
    }
}
