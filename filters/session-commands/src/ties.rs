//! What ties a session to one of its connections.

use crate::plan::Plan;
use chain::facts::Target;
use sql::session::{Held, Hold, Table};

/// A kind of state that only one connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    TemporaryTable,
    TableLock,
    BackupLock,
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

/// What tells apart several of one cause: a table's name, a statement's id.
pub(crate) type Name = Box<[u8]>;

/// What a command does to what ties the session to its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tie(Cause, Name),
    Untie(Cause, Name),
    UntieAll(Cause),
    /// What has the first name has the second one afterwards.
    Rename(Cause, Name, Name),
}

impl Change {
    /// A tie of which there is one only.
    pub(crate) fn tie(cause: Cause) -> Self {
        Self::Tie(cause, Name::default())
    }

    /// What a statement takes or gives back; `schema` is the current one.
    pub(crate) fn of(hold: &Hold, schema: Option<&[u8]>) -> Self {
        let table = |table: &Table| {
            let schema = table.schema.as_deref().or(schema).unwrap_or_default();
            [schema, &table.name].join(&0).into()
        };
        match hold {
            Hold::Takes(held) => {
                let (cause, name) = held_as(held, table);
                Self::Tie(cause, name.unwrap_or_default())
            }
            Hold::Releases(held) => match held_as(held, table) {
                (cause, Some(name)) => Self::Untie(cause, name),
                (cause, None) => Self::UntieAll(cause),
            },
            Hold::Renames(from, to) => Self::Rename(Cause::TemporaryTable, table(from), table(to)),
        }
    }
}

fn held_as(held: &Held, table: impl Fn(&Table) -> Name) -> (Cause, Option<Name>) {
    match held {
        Held::TemporaryTable(it) => (Cause::TemporaryTable, Some(table(it))),
        Held::TableLocks => (Cause::TableLock, None),
        Held::BackupLock => (Cause::BackupLock, None),
        Held::UserLock(name) => (Cause::UserLock, Some(name.clone())),
        Held::UserLocks => (Cause::UserLock, None),
        Held::Handler(name) => (Cause::Handler, Some(name.clone())),
        Held::Xa => (Cause::Xa, None),
        // It stays until the session is reset.
        _ => (Cause::Unknown, Some(Name::default())),
    }
}

impl Cause {
    /// Whether it ends as often as it began.
    fn counts(self) -> bool {
        self == Self::UserLock
    }

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TemporaryTable => "a temporary table",
            Self::TableLock => "a table lock",
            Self::BackupLock => "a backup lock",
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
    causes: Vec<(Cause, Name)>,
    target: Option<Target>,
}

/// What a tie is called that the log can give to another connection.
pub(crate) const AGAIN: &[u8] = b"again";

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

    /// Whether the log can give all of it to another connection.
    pub(crate) fn is_again(&self) -> bool {
        let again = |(cause, name): &(Cause, Name)| *cause == Cause::OneShot && **name == *AGAIN;
        !self.causes.is_empty() && self.causes.iter().all(again)
    }

    /// From now on it cannot.
    pub(crate) fn doubt(&mut self) {
        for (_, name) in &mut self.causes {
            *name = Name::default();
        }
    }

    /// What ties the session has been given to another connection.
    pub(crate) fn follow(&mut self, target: &Target) {
        if let Some(known) = self.target.as_mut().filter(|it| it.server.id != target.server.id) {
            known.clone_from(target);
        }
    }

    /// Whether the next reply may end one of them.
    pub(crate) fn passes(&self) -> bool {
        self.has(Cause::OneShot) || self.has(Cause::Ending)
    }

    /// Whether nothing ties the session once a command has succeeded that does what `plan` says.
    pub(crate) fn end_with(&self, plan: &Plan) -> bool {
        let ends = |(cause, name): &(Cause, Name)| {
            *cause == Cause::Ending
                || *cause == Cause::OneShot && plan.consumes
                || plan.ties.iter().any(|change| match change {
                    Change::Tie(..) | Change::Rename(..) => false,
                    Change::Untie(known, of) => {
                        (known, of) == (cause, name) && (!cause.counts() || self.is_single(name))
                    }
                    Change::UntieAll(known) => known == cause,
                })
        };
        let goes_on = plan.opens_cursor.is_some() || plan.ties().is_some();
        !self.causes.is_empty() && !goes_on && (plan.resets || self.causes.iter().all(ends))
    }

    /// Whether a lock is held once.
    fn is_single(&self, lock: &Name) -> bool {
        let same = |(cause, name): &&(Cause, Name)| cause.counts() && name == lock;
        self.causes.iter().filter(same).count() == 1
    }

    /// Notes what has happened on the connection to `target`.
    pub(crate) fn change(&mut self, change: Change, target: &Target) {
        match change {
            Change::Tie(cause, name) => {
                let name = if self.causes.len() < LIMIT { name } else { Name::default() };
                let again = cause.counts() && !name.is_empty();
                if again || !self.causes.contains(&(cause, name.clone())) {
                    self.causes.push((cause, name));
                }
                self.target.get_or_insert_with(|| target.clone());
            }
            Change::Untie(cause, name) if cause.counts() => {
                let known = self.causes.iter().position(|known| *known == (cause, name.clone()));
                known.map(|at| self.causes.remove(at));
            }
            Change::Untie(cause, name) => {
                self.causes.retain(|known| *known != (cause, name.clone()));
            }
            Change::UntieAll(cause) => self.causes.retain(|(known, _)| *known != cause),
            Change::Rename(cause, from, to) => {
                let named = |(known, name): &&mut (Cause, Name)| *known == cause && *name == from;
                self.causes.iter_mut().filter(named).for_each(|(_, name)| name.clone_from(&to));
            }
        }
        if self.causes.is_empty() {
            self.target = None;
        }
    }
}
