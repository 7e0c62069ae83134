//! The vocabulary filters use to talk to each other.
//!
//! Filters never import one another. One attaches a fact to the message, others read it, and both
//! depend only on the type defined here. A fact has one writer.

mod forward;
mod pin;
mod rules;

pub use forward::{FastForward, StatementIds};
pub use pin::Pin;
pub use rules::{Multiplex, RuleVerdict};

use crate::topology::{HostgroupId, Server};
use bytes::Bytes;
use smallvec::SmallVec;
use std::{
    any::{Any, TypeId},
    fmt,
    sync::{Arc, OnceLock},
};

/// A typed note on a message.
pub trait Fact: Any + Send + Sync {
    /// Its name in configuration errors.
    const NAME: &'static str;
}

/// What a statement is. Lexed at the first look, once, and not at all where nobody looks.
/// Writer: `parse`.
pub struct Statement {
    sql: Bytes,
    dialect: sql::Dialect,
    lexed: OnceLock<sql::Statement>,
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

impl Statement {
    /// The statement with this text, not looked at yet.
    pub fn new(sql: Bytes, dialect: sql::Dialect) -> Self {
        Self { sql, dialect, lexed: OnceLock::new() }
    }

    /// Its text, as the client sent it.
    pub fn text(&self) -> &Bytes {
        &self.sql
    }

    /// What it is.
    pub fn get(&self) -> &sql::Statement {
        self.lexed.get_or_init(|| sql::statement(&self.sql, self.dialect))
    }

    /// Whether somebody has looked already.
    pub fn is_lexed(&self) -> bool {
        self.lexed.get().is_some()
    }
}

/// A statement may hold secrets, so its text is not shown.
impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statement({} bytes)", self.sql.len())
    }
}

impl Fact for Statement {
    const NAME: &'static str = "statement";
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
