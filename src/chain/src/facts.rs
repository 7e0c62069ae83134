//! The vocabulary filters use to talk to each other.
//!
//! Filters never import one another. One attaches a fact to the message, others read it, and both
//! depend only on the type defined here. A fact has one writer.

mod adopted;
mod affinity;
mod answering;
mod catching_up;
mod executed;
mod explain;
mod forward;
mod hints;
mod log;
mod near;
mod pin;
mod predicted;
mod propagate;
mod rules;
mod statement;

pub use adopted::{Adopted, Renewal, Returned};
pub use affinity::{Affinity, StickyMode, key_hash};
pub use answering::FromMemory;
pub use catching_up::{Answers, Careful, Lag, Preamble, Primary, Unprepared};
pub use executed::Executed;
pub use explain::{Explain, Note};
pub use forward::{FastForward, Forwarding, StatementIds};
pub use hints::{Hints, Orders, RouteTo};
pub use log::{Expected, LogEntry, Lsn, SessionLog, StateId, This, Tied, Verdict, Witness};
pub use near::Near;
pub use pin::Pin;
pub use predicted::{Predicted, SessionCommand};
pub use propagate::{Others, Propagate};
pub use rules::{Caching, Logged, Multiplex, RuleVerdict};
pub use statement::{Kept, Shelf, Statement};

use crate::topology::{HostgroupId, Server};
use smallvec::SmallVec;
use std::{
    any::{Any, TypeId},
    fmt,
    sync::Arc,
};

/// A typed note on a message.
pub trait Fact: Any + Send + Sync {
    /// Its name in configuration errors.
    const NAME: &'static str;
}

/// Where the command runs: the server is named, nothing is opened. Writer: `route`.
#[derive(Clone, Debug)]
pub struct Target {
    /// The hostgroup that was asked for.
    pub hostgroup: HostgroupId,
    /// One of its servers.
    pub server: Arc<Server>,
}

/// The server that produced a reply; on the reply. Writer: the dispatcher.
#[derive(Clone, Debug)]
pub struct ServedBy(pub Target);

/// The reply is the first of a connection on which the session has run nothing before; on the reply.
/// Writer: the dispatcher, in chains that keep session state.
#[derive(Clone, Copy, Debug)]
pub struct Fresh;

impl Fact for Fresh {
    const NAME: &'static str = "fresh";
}
impl Fact for Target {
    const NAME: &'static str = "target";
}
impl Fact for ServedBy {
    const NAME: &'static str = "served-by";
}

/// A handful of facts; a linear scan beats hashing at this size.
#[derive(Default)]
pub(crate) struct Facts(SmallVec<[(TypeId, Box<dyn Any + Send + Sync>); 3]>);

impl Facts {
    pub(crate) fn insert<F: Fact>(&mut self, fact: F) {
        let (id, fact) = (TypeId::of::<F>(), Box::new(fact));
        match self.0.iter_mut().find(|(known, _)| *known == id) {
            Some((_, slot)) => *slot = fact,
            None => self.0.push((id, fact)),
        }
    }

    pub(crate) fn take<F: Fact>(&mut self) -> Option<F> {
        let at = self.0.iter().position(|(known, _)| *known == TypeId::of::<F>())?;
        let (_, fact) = self.0.swap_remove(at);
        fact.downcast().ok().map(|fact| *fact)
    }

    pub(crate) fn get<F: Fact>(&self) -> Option<&F> {
        let id = TypeId::of::<F>();
        let (_, fact) = self.0.iter().find(|(known, _)| *known == id)?;
        fact.downcast_ref()
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} facts", self.0.len())
    }
}
