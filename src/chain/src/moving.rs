//! Sessions that move into another chain's stack while they go on, as a reload makes them.
//!
//! Both stacks are there for a moment. Each filter of the newer one inherits from the one of its
//! name in the older one, and the bottom goes over with the session's connections.

use crate::Stack;
use std::any::Any;

/// A filter's service that can hand on what it knows of its session.
///
/// Put into a stack by [`Stack::moving`]. Filters by the easy door are such services already
/// ([`Filter::inherit`](crate::Filter::inherit)). A session with any other service in its stack
/// stays in its chain until it begins anew.
pub trait Moves: Any + Send {
    /// Takes what `from`, which is not used again, knows of the session. `unchanged`: it had the
    /// same settings.
    fn inherit(&mut self, from: &mut Self, unchanged: bool);

    /// The rest of the chain. `None` at the bottom, and while a command is at work.
    fn below(&mut self) -> Option<&mut Stack>;
}

/// Such a service, whatever its type.
pub(crate) trait Part: Send {
    fn inherit(&mut self, from: &mut dyn Any, unchanged: bool);
    fn below(&mut self) -> Option<&mut Stack>;
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<T: Moves> Part for T {
    fn inherit(&mut self, from: &mut dyn Any, unchanged: bool) {
        // A filter of that name that is something else has nothing for this one.
        if let Some(from) = from.downcast_mut::<T>() {
            Moves::inherit(self, from, unchanged);
        }
    }

    fn below(&mut self) -> Option<&mut Stack> {
        Moves::below(self)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// What a box of a stack is to a session that moves.
pub(crate) enum Place<'a> {
    /// A filter, or the bottom.
    Part(&'a mut dyn Part),
    /// No filter: something of the chain's own around the rest.
    Around(&'a mut Stack),
    /// Nobody knows what it keeps.
    Unknown,
}

/// Says which of these a service is.
pub(crate) trait Kind<S>: Send {
    fn place(service: &mut S) -> Place<'_>;
}

/// See [`Place::Part`].
pub(crate) struct Known;

/// See [`Place::Around`].
pub(crate) struct Thin;

/// See [`Place::Unknown`].
pub(crate) struct Opaque;

/// A service of the chain's own.
pub(crate) trait Around {
    fn inner(&mut self) -> &mut Stack;
}

impl<S: Moves> Kind<S> for Known {
    fn place(service: &mut S) -> Place<'_> {
        Place::Part(service)
    }
}

impl<S: Around> Kind<S> for Thin {
    fn place(service: &mut S) -> Place<'_> {
        Place::Around(service.inner())
    }
}

impl<S> Kind<S> for Opaque {
    fn place(_: &mut S) -> Place<'_> {
        Place::Unknown
    }
}
