//! What becomes of each command, for those who note it: the log of slow ones, the table of digests,
//! the log of events. Where none of them is asked for, no command is watched.

use super::slow::SlowLog;
use crate::{backend::dispatch::Ran, digests::Digests, events::EventLog};
use bytes::Bytes;
use chain::{
    Command, Reply, Session,
    facts::{Logged, ServedBy, Statement, Target},
};
use sql::Dialect;
use std::{
    cell::OnceCell,
    sync::Arc,
    time::{Duration, Instant},
};
use wire::command::CommandCode;

/// Who notes commands.
pub(crate) struct Watchers {
    pub(crate) slow: Option<Arc<SlowLog>>,
    pub(crate) digests: Option<Arc<Digests>>,
    pub(crate) events: Option<Arc<EventLog>>,
}

/// A command under way. Told of when it is dropped.
pub(super) struct Watch<'a> {
    watchers: &'a Watchers,
    session: Session,
    code: CommandCode,
    /// The text of a query; for others, what `parse` says it is.
    text: Option<Bytes>,
    statement: Option<Statement>,
    target: Option<Target>,
    logged: Option<Logged>,
    started: Instant,
    ended: Option<Ended>,
    /// Its digest is counted where its reply is seen.
    digested: bool,
}

/// How it has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) error: Option<u16>,
    /// Bytes of the reply, as they went to the client before TLS and compression.
    pub(crate) bytes: u64,
}

/// A command that is over.
pub(crate) struct Seen<'a> {
    pub(crate) session: &'a Session,
    pub(crate) code: CommandCode,
    pub(crate) target: Option<&'a Target>,
    pub(crate) logged: Option<&'a Logged>,
    /// From its last byte to the last byte of its reply.
    pub(crate) took: Duration,
    /// `None`: it was given up, by its client or with its connection.
    pub(crate) ended: Option<Ended>,
    text: Option<&'a Bytes>,
    known: Option<&'a Statement>,
    /// Made of the text when somebody asks first.
    lexed: OnceCell<Option<Statement>>,
}

impl Watchers {
    /// None if there is nobody.
    pub(crate) fn some(self) -> Option<Arc<Self>> {
        let Self { slow, digests, events } = &self;
        let anybody = slow.is_some() || digests.is_some() || events.is_some();
        anybody.then(|| Arc::new(self))
    }

    pub(super) fn watch(&self, command: &Command, started: Instant) -> Watch<'_> {
        Watch {
            watchers: self,
            session: command.session().clone(),
            code: command.code(),
            text: command.sql(),
            statement: None,
            target: None,
            logged: None,
            started,
            ended: None,
            digested: false,
        }
    }
}

impl Watch<'_> {
    /// Notes what a reply says of its way.
    pub(super) fn served(&mut self, reply: &Reply) {
        self.target = reply.fact().map(|ServedBy(target)| target.clone());
        self.statement = reply.fact().and_then(|Ran(statement)| statement.clone());
        self.logged = reply.fact().cloned();
    }

    /// Leaves its digest to who sees how its reply ends.
    pub(super) fn leave_digest(&mut self) {
        self.digested = true;
    }

    /// Notes how the reply has ended.
    pub(super) fn ended(&mut self, error: Option<u16>, bytes: u64) {
        self.ended = Some(Ended { error, bytes });
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let seen = Seen {
            session: &self.session,
            code: self.code,
            target: self.target.as_ref(),
            logged: self.logged.as_ref(),
            took: self.started.elapsed(),
            ended: self.ended,
            text: self.text.as_ref(),
            known: self.statement.as_ref(),
            lexed: OnceCell::new(),
        };
        let Watchers { slow, digests, events } = self.watchers;
        slow.iter().for_each(|slow| slow.saw(&seen));
        let digests = digests.iter().filter(|_| !self.digested);
        digests.for_each(|digests| digests.saw(&seen));
        events.iter().for_each(|events| events.saw(&seen));
    }
}

impl<'a> Seen<'a> {
    /// A statement that was seen outside of a chain.
    pub(crate) fn of(
        session: &'a Session,
        code: CommandCode,
        target: Option<&'a Target>,
        took: Duration,
        ended: Option<Ended>,
        statement: &'a Statement,
    ) -> Self {
        let (logged, text, known, lexed) = (None, None, Some(statement), OnceCell::new());
        Self { session, code, target, logged, took, ended, text, known, lexed }
    }

    /// The statement, if there is one that is known.
    pub(crate) fn statement(&self) -> Option<&Statement> {
        let lexed = || self.text.map(|text| Statement::new(text.clone(), Dialect::default()));
        self.known.or_else(|| self.lexed.get_or_init(lexed).as_ref())
    }

    /// The statement without its values.
    pub(crate) fn digest(&self) -> Option<&sql::Digest> {
        self.statement().map(Statement::digest)
    }

    /// How long it took.
    pub(crate) fn microseconds(&self) -> u64 {
        u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX)
    }

    /// In a word: `done` or `abandoned`.
    pub(crate) fn outcome(&self) -> &'static str {
        if self.ended.is_some() { "done" } else { "abandoned" }
    }
}
