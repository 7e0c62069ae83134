//! What is counted of a forwarded session, from copies of its bytes.
//!
//! Nothing depends on it: it has no way to hold a byte back, and where it cannot follow, or fails, it
//! is dropped and the bytes go on.

use crate::metrics::Observed;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};
use wire::{
    capability::Capabilities,
    observe::{Event, Observer},
};

/// One session's observer, for as long as it has one.
pub(super) struct Watch<'a> {
    observer: Option<Box<Observer<Instant>>>,
    counts: &'a Observed,
}

impl<'a> Watch<'a> {
    pub(super) fn new(observe: bool, capabilities: Capabilities, counts: &'a Observed) -> Self {
        let observer = observe.then(|| Box::new(Observer::new(capabilities)));
        Self { observer, counts }
    }

    /// Sees what the client has sent, before the server does.
    pub(super) fn client(&mut self, bytes: &[u8]) {
        if self.observer.is_some() {
            let now = Instant::now();
            self.look(|observer, tell| observer.client(bytes, now, tell));
        }
    }

    /// Sees what the server has sent, before the client does.
    pub(super) fn server(&mut self, bytes: &[u8]) {
        self.look(|observer, tell| observer.server(bytes, tell));
    }

    fn look(&mut self, look: impl FnOnce(&mut Observer<Instant>, &mut dyn FnMut(Event<Instant>))) {
        let Some(observer) = &mut self.observer else { return };
        let counts = self.counts;
        let mut tell = |event: Event<Instant>| match event {
            Event::Asked(command) => counts.asked(command),
            Event::Answered { mark, error, .. } => {
                counts.answered(error.is_some(), mark.elapsed());
            }
            Event::FileAsked => {}
        };
        let looked = catch_unwind(AssertUnwindSafe(|| look(observer, &mut tell)));
        if looked.is_err() || observer.is_silent() {
            self.observer = None;
            counts.stopped.inc();
        }
    }
}
