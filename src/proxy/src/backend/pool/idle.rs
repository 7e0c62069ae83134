//! A connection that no session has just now, and how well it fits one.

use super::{Got, Want};
use crate::backend::{Key, dispatch::share::Parked, link::Link, schema::Schema, seat::Seat};
use std::{sync::Arc, time::Instant};
use wire::attributes::Attributes;

/// A connection that no session has just now.
pub(super) struct Idle {
    pub(super) kind: Kind,
    pub(super) since: Instant,
}

pub(super) enum Kind {
    Clean(Box<Link>),
    Parked(Box<Parked>),
}

/// How well an idle connection fits; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::backend) enum Fit {
    /// Parked in another state: it has to be renewed.
    Other,
    /// Clean; one that has said the same attributes before one that has to log in anew for them,
    /// then one that has the session's schema already.
    Clean { attributes: bool, schema: bool },
    /// Parked in the state that the session needs.
    Equal,
    /// The session's own.
    Own,
}

impl Idle {
    /// How well it fits; `None` if not at all.
    pub(super) fn rank(
        &self,
        key: &Key,
        want: &Want<'_>,
        attributes: &Attributes,
        schema: &Schema,
    ) -> Option<Fit> {
        match &self.kind {
            Kind::Clean(link) => (link.key == *key).then(|| Fit::Clean {
                attributes: link.attributes == *attributes,
                schema: link.schema == *schema,
            }),
            Kind::Parked(parked) => {
                let need = want.need.as_ref().filter(|_| parked.key() == key)?;
                parked.rank(need)
            }
        }
    }
}

impl Kind {
    pub(super) fn opened(&self) -> Instant {
        match self {
            Self::Clean(link) => link.opened,
            Self::Parked(parked) => parked.opened(),
        }
    }

    /// Whether its session may come back to it.
    pub(super) fn is_owned(&self) -> bool {
        matches!(self, Self::Parked(parked) if parked.is_owned())
    }

    /// Whether it is parked, and has this place.
    pub(super) fn is_at(&self, seat: &Arc<Seat>) -> bool {
        matches!(self, Self::Parked(parked) if parked.is_at(seat))
    }

    /// Whether nothing has come from the server, and nothing has cut it.
    pub(super) fn is_alive(&mut self) -> bool {
        match self {
            Self::Clean(link) => !link.leash.is_cut() && !link.has_news(),
            Self::Parked(parked) => parked.is_alive(),
        }
    }

    /// The connection, if it is clean. One that is parked goes the way of one whose session has
    /// ended.
    pub(super) fn clean(self) -> Option<Link> {
        match self {
            Self::Clean(link) => Some(*link),
            Self::Parked(_) => None,
        }
    }
}

impl Got {
    pub(super) fn key(&self) -> &Key {
        match self {
            Self::Clean(link) => &link.key,
            Self::Parked(parked) => parked.key(),
        }
    }

    /// It is not needed after all.
    pub(in crate::backend) fn release(self) {
        match self {
            Self::Clean(link) => link.release(),
            // The same happens to it by itself.
            Self::Parked(_) => {}
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Self::Clean(link) if link.leash.is_cut())
    }

    pub(super) fn is_owned(&self) -> bool {
        matches!(self, Self::Parked(parked) if parked.is_owned())
    }
}

impl From<Kind> for Got {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Clean(link) => Self::Clean(link),
            Kind::Parked(parked) => Self::Parked(parked),
        }
    }
}

impl From<Got> for Kind {
    fn from(got: Got) -> Self {
        match got {
            Got::Clean(link) => Self::Clean(link),
            Got::Parked(parked) => Self::Parked(parked),
        }
    }
}
