//! A connection in the pool, with what a session has set there.

use super::{Held, Shared};
use crate::backend::{Key, pool::Fit, seat::Seat, sessions::Entry};
use bytes::Bytes;
use chain::{
    Command,
    facts::{Expected, SessionLog, StateId},
};
use std::{
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Instant,
};
use tower::Service;

/// A connection that its session has let go of between two commands.
pub(in crate::backend) struct Parked {
    pub(super) held: Held,
    pub(super) kept: Kept,
    owner: Weak<Entry>,
    /// The session's, as the connection was parked.
    generation: u32,
}

/// What a connection is from its login on.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) key: Key,
    pub(super) opened: Instant,
    pub(super) seat: Arc<Seat>,
}

/// What a session has set on a connection, prepared statements apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend) struct Condition {
    /// The schema of its login.
    schema: Option<Bytes>,
    /// `None`: nothing since then.
    log: Option<StateId>,
}

/// What a session takes of others.
#[derive(Clone)]
pub(in crate::backend) struct Need {
    pub(super) owner: Weak<Entry>,
    pub(super) generation: u32,
    pub(super) condition: Option<Condition>,
    /// A connection that has a schema will do: it is put into another.
    pub(super) any_schema: bool,
    /// Nothing that another session's statements have left may be there.
    pub(super) renewed: bool,
    /// Its own, or a clean one.
    pub(super) own: bool,
}

impl Condition {
    /// What a connection must be like for this command; `None` if nobody can say.
    pub(super) fn of(command: &Command) -> Option<Self> {
        let schema = command.session().schema.clone();
        let Some(log) = command.fact::<SessionLog>() else {
            return Some(Self { schema, log: None });
        };
        let schema = schema.filter(|_| !log.schemaless);
        let plain =
            log.entries.iter().any(|entry| !matches!(entry.expected, Expected::Statement { .. }));
        match log.state {
            _ if !plain && log.generation == 0 => Some(Self { schema, log: None }),
            Some(state) => Some(Self { schema, log: Some(state) }),
            None => None,
        }
    }

    /// Whether a command brings it to its connection.
    pub(super) fn comes_with(&self, command: &Command) -> bool {
        self.log.is_none() || command.fact::<SessionLog>().is_some()
    }
}

impl Parked {
    pub(super) fn new(held: Held, owner: Weak<Entry>, generation: u32) -> Self {
        let kept = held.shared.as_ref().map(|shared| shared.parked.clone());
        let kept = kept.expect("only what is shared is parked");
        Self { held, kept, owner, generation }
    }

    pub(super) fn into_held(self) -> Held {
        self.held
    }

    pub(in crate::backend) fn key(&self) -> &Key {
        &self.kept.key
    }

    pub(in crate::backend) fn opened(&self) -> Instant {
        self.kept.opened
    }

    /// Whether there is a session that may come back to it.
    pub(in crate::backend) fn is_owned(&self) -> bool {
        self.owner.strong_count() > 0
    }

    /// Whether nothing has come from the server, and nothing has cut it.
    pub(in crate::backend) fn is_alive(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(self.held.stack.poll_ready(&mut context), Poll::Ready(Ok(())))
    }

    pub(super) fn is_of(&self, entry: &Arc<Entry>, generation: u32) -> bool {
        std::ptr::eq(self.owner.as_ptr(), Arc::as_ptr(entry)) && self.generation == generation
    }

    pub(in crate::backend) fn is_at(&self, seat: &Arc<Seat>) -> bool {
        Arc::ptr_eq(&self.kept.seat, seat)
    }

    /// Whether it is the session's own that comes for it.
    pub(in crate::backend) fn is_for_owner(&self, need: &Need) -> bool {
        Weak::ptr_eq(&self.owner, &need.owner) && self.generation == need.generation
    }

    pub(super) fn is_equal(&self, need: &Need) -> bool {
        let Some(Shared { condition: Some(condition), unclean: false, .. }) = &self.held.shared
        else {
            return false;
        };
        need.condition.as_ref() == Some(condition)
    }

    /// How well it fits a session; `None` if not at all.
    pub(in crate::backend) fn rank(&self, need: &Need) -> Option<Fit> {
        let adopted = self.held.is_adopted();
        if self.is_for_owner(need) && !(need.own && adopted) {
            return Some(Fit::Own);
        }
        if need.own {
            return None;
        }
        if self.is_equal(need) {
            return Some(if need.renewed { Fit::Other } else { Fit::Equal });
        }
        let Kept { seat, .. } = &self.kept;
        let renewable = !seat.is_lasting() && (need.any_schema || !seat.is_in_schema());
        renewable.then_some(Fit::Other)
    }
}
