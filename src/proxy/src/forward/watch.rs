//! What is counted and told of a forwarded session, from copies of its bytes.
//!
//! Nothing depends on it: it has no way to hold a byte back, and where it cannot follow, or fails, it
//! is dropped and the bytes go on.

use super::notes::{Noting, TEXT};
use crate::metrics::Observed;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};
use wire::{
    capability::Capabilities,
    observe::{Answer, Asked, Event, Observer},
};

/// Takes what was seen.
type Tell<'a> = &'a mut dyn FnMut(Event<Instant>);

/// One session's observer, for as long as it has one.
pub(super) struct Watch<'a> {
    observer: Option<Box<Observer<Instant>>>,
    noting: Option<Box<Noting>>,
    counts: &'a Observed,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        observe: bool,
        noting: Option<Box<Noting>>,
        capabilities: Capabilities,
        counts: &'a Observed,
    ) -> Self {
        let limit = if noting.is_some() { TEXT } else { 0 };
        let observer = observe.then(|| Box::new(Observer::new(capabilities).keeping_texts(limit)));
        Self { observer, noting, counts }
    }

    /// Sees what the client has sent, before the server does.
    pub(super) fn client(&mut self, bytes: &[u8]) {
        self.look(|observer, now, tell| observer.client(bytes, now, tell));
    }

    /// Sees what the server has sent, before the client does.
    pub(super) fn server(&mut self, bytes: &[u8]) {
        self.look(|observer, now, tell| observer.server(bytes, now, tell));
    }

    fn look(&mut self, look: impl FnOnce(&mut Observer<Instant>, Instant, Tell<'_>)) {
        if self.see(look) == Some(false) {
            (self.observer, self.noting) = (None, None);
            self.counts.stopped.inc();
        }
    }

    /// Whether it can follow on; `None` if there is no observer.
    fn see(
        &mut self,
        look: impl FnOnce(&mut Observer<Instant>, Instant, Tell<'_>),
    ) -> Option<bool> {
        let Self { observer, noting, counts } = self;
        let observer = observer.as_mut()?;
        let now = Instant::now();
        let mut note = |asked: Asked<Instant>, answer: Option<Answer<Instant>>| {
            if let Some(noting) = noting
                && !noting.note(asked, answer, now)
            {
                counts.dropped.inc();
            }
        };
        let mut tell = |event: Event<Instant>| match event {
            Event::Asked(command) => counts.asked(command),
            Event::Answered(asked, answer) => {
                let took = now.saturating_duration_since(asked.mark);
                counts.answered(answer.error.is_some(), took);
                note(asked, Some(answer));
            }
            Event::Unanswered(asked) => note(asked, None),
            Event::FileAsked => {}
        };
        let looked = catch_unwind(AssertUnwindSafe(|| look(observer, now, &mut tell)));
        Some(looked.is_ok() && !observer.is_silent())
    }
}

/// The session is over: what was under way is told of as such.
impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.noting.is_some() {
            self.see(|observer, _, tell| observer.end(tell));
        }
    }
}
