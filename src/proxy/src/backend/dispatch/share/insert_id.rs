//! What LAST_INSERT_ID() says in a session that shares its connections.
//!
//! An OK packet does not always say it: an id that the statement gave by itself is reported too, and
//! what a statement has generated before it failed is not. So the connection is asked, but not before
//! somebody needs to know: the session while it has another one, or whoever takes this one over.
//!
//! ```text
//! INSERT ─▶ the connection owes the answer ─▶ the session comes back: nothing to do
//!                                         └─▶ goes to another one, or is reset: asked first
//! ```
//!
//! Who asks leaves 0 behind, which no table generates: a statement that may set the id runs where
//! there is the session's own, or 0. If there is 0 behind it, the session's has not changed.

use super::{Held, Parked, State, last, unknown};
use crate::backend::{
    Backend, ids,
    insert_id::{LAST_QUESTION, QUESTION, number},
    seat::{Left, Seat},
};
use chain::{
    Command, Error, Result, Session,
    command::Asker,
    facts::{Executed, SessionLog, Statement},
};
use sql::{
    Class, Verb,
    session::{Cell, Effect, session_command},
};
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;
use tower::ServiceExt;

/// What LAST_INSERT_ID() says in a session.
#[derive(Debug)]
pub(super) enum InsertId {
    Known(u64),
    At(There),
    /// The connection that knew it is gone.
    Lost,
}

/// A connection that has to be asked.
#[derive(Debug)]
pub(super) struct There {
    seat: Weak<Seat>,
    backend: Weak<Backend>,
    answer: oneshot::Receiver<u64>,
    zero: Zero,
}

/// What it means that a connection says 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zero {
    Itself,
    /// What it was before: the connection was not told. `None` if that was lost.
    Before(Option<u64>),
}

/// What a command may do to the last insert id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Changes {
    #[default]
    Nothing,
    /// Something, if its reply is an error or a result, or names an id.
    IfReported,
    /// Something, whatever is replied.
    Anything,
}

impl Default for InsertId {
    fn default() -> Self {
        Self::Known(0)
    }
}

impl There {
    fn is_at(&self, seat: &Arc<Seat>) -> bool {
        std::ptr::eq(self.seat.as_ptr(), Arc::as_ptr(seat)) && seat.owes()
    }
}

impl Changes {
    /// What a command that runs a statement may do.
    pub(super) fn of(command: &Command, statement: &Statement) -> Self {
        let found = statement.get();
        let executed = command.fact::<Executed>().map(|Executed(executed)| executed);
        let run = executed.unwrap_or(found);
        let is_unknown = found.class == Class::Execute && executed.is_none();
        if found.multi || is_unknown || run.multi {
            return Self::Anything;
        }
        // GET DIAGNOSTICS asks what the statement before has left, and must find it.
        if run.verb == Verb::Get {
            return Self::Nothing;
        }
        match run.class {
            Class::Call | Class::Unknown => Self::Anything,
            // A text that is executed by its name is not at hand.
            _ if run.needs.last_write && (executed.is_some() || sets(statement)) => Self::Anything,
            Class::SetSession if found.verb != Verb::Set || sets(statement) => Self::Anything,
            Class::Write | Class::Ddl => Self::IfReported,
            _ => Self::Nothing,
        }
    }

    /// Whether the reply leaves that open.
    pub(super) fn leave_open(self, left: &Left) -> bool {
        match self {
            Self::Nothing => false,
            Self::IfReported => left.failed || left.insert_id != 0 || left.found_rows.is_some(),
            Self::Anything => true,
        }
    }
}

/// Whether a statement gives LAST_INSERT_ID() a value, or may do so.
fn sets(statement: &Statement) -> bool {
    match session_command(statement.text(), statement.dialect()) {
        Effect::Nothing => false,
        Effect::Unreadable(_) => true,
        Effect::Steps(steps) => {
            let mut written = steps.iter().flat_map(|step| &step.writes);
            written.any(|cell| matches!(cell, Cell::Anything) || *cell == Cell::LAST_INSERT_ID)
        }
    }
}

/// Whether a command asks for the last insert id, or may do so.
fn is_asked(command: &Command) -> bool {
    let Some(statement) = command.fact::<Statement>() else { return false };
    let found = statement.get();
    match found.class {
        Class::Call => true,
        Class::Execute => command.fact::<Executed>().is_none(),
        // A function that is not known may.
        Class::Write => found.verb == Verb::Select,
        _ => false,
    }
}

impl InsertId {
    /// A reply has left open what it is on a connection, which has said `there` before.
    pub(super) fn stays(
        &mut self,
        (seat, backend): (&Arc<Seat>, &Arc<Backend>),
        there: Option<u64>,
        changes: Changes,
    ) {
        let zero = match self {
            Self::At(at) if at.is_at(seat) => {
                if changes == Changes::Anything {
                    at.zero = Zero::Itself;
                }
                return;
            }
            _ if changes == Changes::Anything => Zero::Itself,
            Self::Known(id) if there == Some(*id) => Zero::Itself,
            Self::Known(id) => Zero::Before(Some(*id)),
            Self::At(_) | Self::Lost => Zero::Before(None),
        };
        let (debt, answer) = oneshot::channel();
        seat.owe(debt);
        let (seat, backend) = (Arc::downgrade(seat), Arc::downgrade(backend));
        *self = Self::At(There { seat, backend, answer, zero });
    }

    /// What a connection has answered.
    fn learn(&mut self, answer: Option<u64>, zero: Zero) -> Result<u64> {
        let id = match (answer, zero) {
            (Some(0), Zero::Before(before)) => before,
            (answer, _) => answer,
        };
        *self = id.map_or(Self::Lost, Self::Known);
        id.ok_or_else(lost)
    }
}

impl Held {
    /// Asks the connection what it owes to the session that had it. False if it cannot be used any
    /// more.
    async fn tell_insert_id(&mut self, session: &Session, question: &str) -> bool {
        let Some(shared) = &mut self.shared else { return true };
        let Some(debt) = shared.parked.seat.debt() else { return true };
        let parts = question == LAST_QUESTION;
        // What is counted there is the question's from now on.
        shared.is_last &= !parts;
        shared.insert_id = None;
        let command = Command::query(session.clone(), question);
        let answer = ids::ask(self, command.asked_by(Asker::Filter("pool"))).await;
        let Some(shared) = &mut self.shared else { return true };
        // Nobody's statement has left it.
        let _ = shared.parked.seat.left();
        let Ok(answer) = answer else { return false };
        if let Some(value) = number(&answer.packets) {
            shared.insert_id = Some(if parts { 0 } else { value });
            // The session may have ended meanwhile.
            let _ = debt.send(value);
        }
        true
    }
}

impl Parked {
    /// Whether its session may yet ask what only this connection knows.
    pub(in crate::backend) fn owes(&self) -> bool {
        !self.held.is_unknown() && self.kept.seat.owes()
    }

    /// Asks the connection what it owes to the session that had it, also if nobody waits for this
    /// any more. `None` if it cannot be used any more.
    pub(in crate::backend) async fn told(self: Box<Self>, session: &Session) -> Option<Box<Self>> {
        let (mut parked, session) = (self, session.clone());
        let asking = tokio::spawn(async move {
            let usable = parked.held.tell_insert_id(&session, LAST_QUESTION).await;
            usable.then_some(parked)
        });
        asking.await.ok().flatten()
    }
}

impl State {
    /// Makes a connection ready for what a command asks of the last insert id, and does to it.
    /// Whether something was sent there for that: it counts, too.
    pub(super) async fn prepare_insert_id(&mut self, at: usize, command: &Command) -> Result<bool> {
        let Some(shared) = &self.held[at].shared else { return Ok(false) };
        let changes = shared.pins.doing.insert_id;
        let named = last::needs(command).last_write;
        if named {
            self.refuse_gtid(at, command)?;
        }
        let needed = named || is_asked(command) || changes == Changes::Anything;
        if !needed && changes == Changes::Nothing {
            return Ok(false);
        }
        let (wanted, asked) = match self.insert_id(at, command, needed).await {
            Ok((None, asked)) => return Ok(asked),
            Ok((Some(wanted), asked)) => (wanted, asked),
            // What is lost is missed by who asks for it.
            Err(error) if named => return Err(error),
            Err(_) => (0, false),
        };
        let one = &mut self.held[at];
        let Some(shared) = &mut one.shared else { return Ok(asked) };
        if shared.insert_id == Some(wanted) || !needed && shared.insert_id == Some(0) {
            return Ok(asked);
        }
        shared.insert_id = Some(wanted);
        let mut set = command.aside_query("dispatch", format!("SET last_insert_id = {wanted}"));
        if let Some(log) = command.fact::<SessionLog>() {
            set.note(SessionLog { this: None, ..log.clone() });
        }
        let answer = ids::ask(one, set).await?;
        one.stack.ready().await?;
        match answer.end.error {
            None => Ok(true),
            Some(_) => Err(Error::backend("the last insert id could not be set")),
        }
    }

    /// What LAST_INSERT_ID() says in the session; `None` if the connection is the one that knows, or,
    /// if it is not needed there, will know. And whether this connection was asked.
    async fn insert_id(
        &mut self,
        at: usize,
        command: &Command,
        needed: bool,
    ) -> Result<(Option<u64>, bool)> {
        let Some(shared) = &self.held[at].shared else { return Ok((None, false)) };
        let Some(sharing) = &mut self.sharing else { return Ok((None, false)) };
        let here = |there: &There| there.is_at(&shared.parked.seat);
        match &sharing.values.insert_id {
            InsertId::Known(id) => return Ok((Some(*id), false)),
            InsertId::Lost => return Err(lost()),
            InsertId::At(there) if here(there) && (!needed || there.zero == Zero::Itself) => {
                return Ok((None, false));
            }
            InsertId::At(_) => {}
        }
        let there = std::mem::replace(&mut sharing.values.insert_id, InsertId::Lost);
        let InsertId::At(mut there) = there else { return Err(lost()) };
        let is_there = |held: &Held| {
            held.shared.as_ref().is_some_and(|shared| there.is_at(&shared.parked.seat))
        };
        let held = self.held.iter().position(is_there);
        if let Some(other) = held {
            let question = if other == at { QUESTION } else { LAST_QUESTION };
            // Where the command is about to run, that has been done.
            if other != at {
                self.settle(other);
            }
            self.held[other].tell_insert_id(command.session(), question).await;
            self.held[other].stack.ready().await?;
        } else if let Some((backend, seat)) = there.backend.upgrade().zip(there.seat.upgrade())
            && let Some(parked) = backend.take_back(&seat)
            && let Some(parked) = parked.told(command.session()).await
        {
            // If nobody may have it, it goes the way of one whose session has ended.
            drop(backend.park(parked));
        }
        // Somebody else may be asking just now.
        let limit = self.shared.settings.load().connect_timeout;
        let answer = tokio::time::timeout(limit, &mut there.answer).await;
        let Some(sharing) = &mut self.sharing else { return Ok((None, false)) };
        let answer = answer.ok().and_then(|answer| answer.ok());
        let id = sharing.values.insert_id.learn(answer, there.zero)?;
        Ok((Some(id), held == Some(at)))
    }

    /// Refuses what only the connection of the session's last write knows, once it has been
    /// another's: there is no way to bring it to one.
    fn refuse_gtid(&self, at: usize, command: &Command) -> Result<()> {
        let written = self.held[at].shared.as_ref().is_none_or(|shared| shared.written);
        let names = |text: &[u8]| {
            let mut parts = text.windows(LAST_GTID.len());
            parts.any(|part| part.eq_ignore_ascii_case(LAST_GTID))
        };
        match command.fact::<Statement>() {
            Some(statement) if !written && names(statement.text()) => Err(unknown()),
            _ => Ok(()),
        }
    }
}

const LAST_GTID: &[u8] = b"last_gtid";

fn lost() -> Error {
    Error::backend("the connection with the last insert id was lost")
}
