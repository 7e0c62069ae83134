//! Settings that a reload changes under sessions that are there.
//!
//! A filter whose settings can change like this keeps them in a [`Live`] and gives that to
//! [`Layer::live`](crate::Layer::live); each session reads them through a [`Current`]. A filter
//! without them keeps its settings for as long as its session keeps its stack.

use crate::Session;
use arc_swap::ArcSwap;
use std::{any::Any, fmt, sync::Arc};

/// What all sessions of a filter go by. Clones are one.
pub struct Live<T>(Arc<ArcSwap<T>>);

/// One session's view of them: in a transaction, as they were when it began.
pub struct Current<T> {
    newest: Arc<ArcSwap<T>>,
    now: Arc<T>,
}

impl<T> Live<T> {
    /// These settings.
    pub fn new(settings: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(settings)))
    }

    /// The view of a session that begins.
    pub fn current(&self) -> Current<T> {
        Current { newest: self.0.clone(), now: self.0.load_full() }
    }
}

impl<T> Current<T> {
    /// Takes in what a reload has changed, unless a transaction is open. True if they are others
    /// now.
    pub fn renew(&mut self, session: &Session) -> bool {
        let newest = self.newest.load();
        if Arc::ptr_eq(&newest, &self.now) || session.in_transaction() {
            return false;
        }
        self.now = arc_swap::Guard::into_inner(newest);
        true
    }

    /// What the session goes by.
    pub fn get(&self) -> &Arc<T> {
        &self.now
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

/// Settings without their type.
pub(crate) trait Changes: Send + Sync {
    /// Whether they could become these: they are of the same kind.
    fn fits(&self, newer: &dyn Changes) -> bool;
    /// Makes them the same as `newer`, if they are of the same kind.
    fn follow(&self, newer: &dyn Changes);
    /// Hands on what is kept beyond a change of settings, as counts are.
    fn bequeath(&self, newer: &dyn Changes);
    /// For whoever knows the type.
    fn as_any(&self) -> &dyn Any;
}

/// Settings, and what is handed on from older to newer ones.
pub(crate) struct Known<T> {
    pub(crate) live: Live<T>,
    pub(crate) bequeath: fn(&T, &T),
}

impl<T: Send + Sync + 'static> Changes for Known<T> {
    fn fits(&self, newer: &dyn Changes) -> bool {
        newer.as_any().is::<Self>()
    }

    fn follow(&self, newer: &dyn Changes) {
        if let Some(newer) = newer.as_any().downcast_ref::<Self>() {
            self.live.0.store(newer.live.0.load_full());
        }
    }

    fn bequeath(&self, newer: &dyn Changes) {
        if let Some(newer) = newer.as_any().downcast_ref::<Self>() {
            (self.bequeath)(&self.live.0.load(), &newer.live.0.load());
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
