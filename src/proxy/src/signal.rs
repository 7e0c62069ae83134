//! Something that happens once and that every session waits for.
//!
//! A session's task looks at what it waits for each time it wakes, twice for every command. Looking
//! is one load of a flag that nobody writes until then, so sessions on different cores do not meet
//! here; a cancellation token takes a lock that all of them share.

use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker},
};
use tokio::sync::{Notify, futures::Notified};

/// Given once, and never taken back.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    given: AtomicBool,
    waiting: Notify,
}

pin_project! {
    /// Ready when the signal has been given.
    pub(crate) struct Given<'a> {
        signal: &'a Signal,
        #[pin]
        notified: Notified<'a>,
        // Who is woken when it is given.
        registered: Option<Waker>,
    }
}

impl Signal {
    /// Gives it.
    pub(crate) fn give(&self) {
        self.given.store(true, Ordering::Release);
        self.waiting.notify_waiters();
    }

    /// Whether it has been given.
    pub(crate) fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// Waits until it is given.
    pub(crate) fn given(&self) -> Given<'_> {
        // Made before the first look at the flag, it misses nothing that comes after.
        Given { signal: self, notified: self.waiting.notified(), registered: None }
    }
}

impl Future for Given<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.signal.is_given() {
            return Poll::Ready(());
        }
        if this.registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let notified = this.notified.poll(cx);
        *this.registered = notified.is_pending().then(|| cx.waker().clone());
        notified
    }
}

#[cfg(test)]
mod tests {
    use super::Signal;
    use std::{pin::pin, sync::Arc};
    use tokio_test::{assert_pending, assert_ready, task};

    #[test]
    fn given_before_and_after() {
        let signal = Signal::default();
        let mut waiting = task::spawn(signal.given());
        assert_pending!(waiting.poll());
        assert_pending!(waiting.poll());
        signal.give();
        assert!(waiting.is_woken());
        assert_ready!(waiting.poll());
        assert_ready!(task::spawn(signal.given()).poll());
    }

    #[test]
    fn another_waker_is_woken_too() {
        let signal = Signal::default();
        let mut waiting = Box::pin(signal.given());
        assert_pending!(task::spawn(waiting.as_mut()).poll());
        let mut moved = task::spawn(waiting.as_mut());
        assert_pending!(moved.poll());
        signal.give();
        assert!(moved.is_woken());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_misses_it() {
        for _ in 0..200 {
            let signal = Arc::new(Signal::default());
            let waiting = signal.clone();
            let task = tokio::spawn(async move {
                let mut given = pin!(waiting.given());
                given.as_mut().await;
            });
            signal.give();
            task.await.unwrap();
        }
    }
}
