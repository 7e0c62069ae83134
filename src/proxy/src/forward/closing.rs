//! How long a client may read on when its server has closed.

use super::{Grace, Lines};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// How often it is looked whether the server of a client that takes nothing has closed. Nothing is
/// read from it meanwhile, so that its end is not met.
const LOOK: Duration = Duration::from_millis(500);

/// The time that is left to the client, from when its server is seen to have closed.
pub(super) struct Closing {
    grace: Grace,
    due: Option<Pin<Box<Sleep>>>,
    look: Option<Pin<Box<Sleep>>>,
    /// Bytes that the client had taken when it was looked last.
    taken: u64,
}

impl Closing {
    pub(super) fn new(grace: Grace) -> Self {
        Self { grace, due: None, look: None, taken: 0 }
    }

    /// Ready when the client's time is over.
    pub(super) fn poll(&mut self, lines: &Lines<'_>, cx: &mut Context<'_>) -> Poll<()> {
        if self.due.is_none() && self.has_begun(lines, cx) {
            self.due = Some(Box::pin(sleep(self.grace.0)));
        }
        match &mut self.due {
            Some(due) => due.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }

    /// Whether the server has closed: all that it has sent was read, or the client takes nothing of
    /// it.
    fn has_begun(&mut self, lines: &Lines<'_>, cx: &mut Context<'_>) -> bool {
        if lines.down.source_is_over() {
            return true;
        }
        loop {
            let is_stuck = lines.down.waiting() > 0;
            if self.look.is_none() && !is_stuck {
                return false;
            }
            // One that takes a little again and again does not begin it anew each time.
            let look = self.look.get_or_insert_with(|| Box::pin(sleep(LOOK)));
            if look.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.look = None;
            let before = std::mem::replace(&mut self.taken, lines.down.moved);
            if is_stuck && before == self.taken && lines.server.has_closed() {
                return true;
            }
        }
    }
}
