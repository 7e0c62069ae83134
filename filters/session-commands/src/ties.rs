//! What ties a session to one of its connections.

use crate::{plan::Plan, reading::Change};
use chain::facts::Target;

/// A kind of state that only one connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    TemporaryTable,
    TableLock,
    UserLock,
    Handler,
    Xa,
    Cursor,
    LongData,
    /// For the next transaction or statement.
    OneShot,
    /// A setting that means something on this connection alone, or whose value no other has.
    Setting,
    /// A statement whose effects are not known.
    Unknown,
    /// It may be about to be closed because the session has asked for that.
    Ending,
    /// The log may not grow further.
    FullLog,
}

impl Cause {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TemporaryTable => "a temporary table",
            Self::TableLock => "a table lock",
            Self::UserLock => "a lock",
            Self::Handler => "a handler",
            Self::Xa => "an XA transaction",
            Self::Cursor => "a cursor",
            Self::LongData => "long data",
            Self::OneShot => "a setting for the next transaction",
            Self::Setting => "a setting of this connection",
            Self::Unknown => "a statement with unknown effects",
            Self::Ending => "a statement that ends a connection",
            Self::FullLog => "a full log",
        }
    }
}

/// What ties the session at the moment; all of it is on one connection, because whatever follows a
/// tie goes there.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    causes: Vec<(Cause, Box<str>)>,
    target: Option<Target>,
}

/// Beyond this many, names are no longer told apart.
const LIMIT: usize = 256;

impl Ties {
    /// Where the session is tied, and by what.
    pub(crate) fn get(&self) -> Option<(&Target, Cause)> {
        let (cause, _) = self.causes.first()?;
        Some((self.target.as_ref()?, *cause))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    pub(crate) fn has(&self, cause: Cause) -> bool {
        self.causes.iter().any(|(known, _)| *known == cause)
    }

    /// Whether the next reply may end one of them.
    pub(crate) fn passes(&self) -> bool {
        self.has(Cause::OneShot) || self.has(Cause::Ending)
    }

    /// Whether nothing ties the session once a command has succeeded that does what `plan` says.
    pub(crate) fn end_with(&self, plan: &Plan) -> bool {
        let ends = |(cause, name): &(Cause, Box<str>)| {
            *cause == Cause::Ending
                || *cause == Cause::OneShot && plan.consumes
                || plan.ties.iter().any(|change| match change {
                    Change::Tie(..) => false,
                    Change::Untie(known, of) => (known, of) == (cause, name),
                    Change::UntieAll(known) => known == cause,
                })
        };
        let goes_on = plan.opens_cursor.is_some() || plan.ties().is_some();
        !self.causes.is_empty() && !goes_on && (plan.resets || self.causes.iter().all(ends))
    }

    /// Notes what has happened on the connection to `target`.
    pub(crate) fn change(&mut self, change: Change, target: &Target) {
        match change {
            Change::Tie(cause, name) => {
                let name = if self.causes.len() < LIMIT { name } else { "".into() };
                if !self.causes.contains(&(cause, name.clone())) {
                    self.causes.push((cause, name));
                }
                self.target.get_or_insert_with(|| target.clone());
            }
            Change::Untie(cause, name) => {
                self.causes.retain(|known| *known != (cause, name.clone()));
            }
            Change::UntieAll(cause) => self.causes.retain(|(known, _)| *known != cause),
        }
        if self.causes.is_empty() {
            self.target = None;
        }
    }
}
