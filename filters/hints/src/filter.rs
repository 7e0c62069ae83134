//! One session's filter.

use crate::{
    Shared,
    key::Keys,
    maxscale::Named,
    read::{Found, Reader},
    strip::strip,
    tell::Complaints,
};
use bytes::Bytes;
use chain::{
    Command, Error, Reply, Result, Stack,
    command::Asker,
    facts::{Explain, Hints, Statement},
    lend::Lend,
    moving::Moves,
    stack::Calling,
};
use serde_json::json;
use sql::comments;
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tower::{Service, ServiceExt};
use wire::command::CommandCode;

/// Reads the hints of each statement of a client's.
pub(crate) struct Hinting {
    shared: Arc<Shared>,
    /// What the session's user may ask for, once it is known.
    allowed: Option<Keys>,
    named: Named,
    complaints: Complaints,
    below: Lend<Stack>,
}

/// Which hints count for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It runs or prepares the statement whose text it has: all of them.
    Statement,
    /// It runs a statement that was prepared: all of them, but for orders that last.
    Run,
    /// It goes with a statement that runs by itself: those that say where.
    Companion,
    /// None.
    Passing,
}

impl Kind {
    fn of(command: &Command) -> Self {
        match command.code() {
            _ if command.asker() != Asker::Client => Self::Passing,
            CommandCode::QUERY | CommandCode::STMT_PREPARE => Self::Statement,
            CommandCode::STMT_EXECUTE | CommandCode::STMT_BULK_EXECUTE => Self::Run,
            _ => Self::Companion,
        }
    }
}

impl Hinting {
    pub(crate) fn new(shared: Arc<Shared>, below: Stack) -> Self {
        let (named, complaints) = (Named::default(), Complaints::default());
        Self { shared, allowed: None, named, complaints, below: Lend::new(below) }
    }

    fn read(&mut self, command: &Command, kind: Kind) -> Option<Found> {
        let statement = command.fact::<Statement>()?;
        let comments = comments(statement.text(), statement.dialect());
        // Most statements have none.
        if comments.is_empty() && self.named.begun().is_empty() {
            return None;
        }
        let session = command.session();
        let shared = &*self.shared;
        let allowed = *self.allowed.get_or_insert_with(|| shared.allowed(&session.user));
        let (named, orders) = (&mut self.named, kind == Kind::Statement);
        Some(Reader { shared, session, allowed, named, orders }.read(statement.text(), comments))
    }

    /// Puts what was found on the command; gives how long it waits.
    fn apply(&mut self, command: &mut Command, kind: Kind, found: Found) -> Option<Duration> {
        if kind == Kind::Companion {
            // It has been counted with its run.
            self.note(command, kind, found.asked.hints);
            return None;
        }
        self.shared.count(&found);
        if !found.ignored.is_empty() {
            self.complaints.about(command.session().id, found.ignored);
        }
        if let Some(explain) = command.fact::<Explain>() {
            let what = json!({
                "honoured": found.honoured.names(),
                "ignored": found.ignored.names(),
                "denied": found.denied.names(),
            });
            explain.note(crate::NAME, what);
        }
        if self.shared.strip && kind == Kind::Statement && !found.doubtful {
            strip_from(command, &found);
        }
        self.note(command, kind, found.asked.hints);
        // Whoever explains does not wait.
        found.asked.delay.filter(|delay| !delay.is_zero() && command.fact::<Explain>().is_none())
    }

    fn note(&self, command: &mut Command, kind: Kind, hints: Hints) {
        let hints = match kind {
            Kind::Companion => {
                let Hints { hostgroup, route, .. } = hints;
                Hints { hostgroup, route, ..Hints::default() }
            }
            _ => hints,
        };
        if !hints.is_empty() {
            command.note(Hints { beats_rules: self.shared.beats_rules, ..hints });
        }
    }
}

fn strip_from(command: &mut Command, found: &Found) {
    if found.comments.is_empty() {
        return;
    }
    let Some(statement) = command.fact::<Statement>() else { return };
    let text = Bytes::from(strip(statement.text(), &found.comments, statement.dialect()));
    if text == statement.text() {
        return;
    }
    // What it is stays the same; its text has to be what is sent.
    let statement = statement.rewritten(text.clone());
    command.rewrite_sql(&text);
    command.note(statement);
}

impl Moves for Hinting {
    fn inherit(&mut self, from: &mut Self, _: bool) {
        self.named = std::mem::take(&mut from.named);
        self.complaints = std::mem::take(&mut from.complaints);
    }

    fn below(&mut self) -> Option<&mut Stack> {
        self.below.at_home()
    }
}

impl Service<Command> for Hinting {
    type Response = Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.below.poll_home(cx))?.poll_ready(cx)
    }

    fn call(&mut self, mut command: Command) -> Calling {
        let kind = Kind::of(&command);
        if command.code() == CommandCode::RESET_CONNECTION && kind != Kind::Passing {
            self.named = Named::default();
        }
        let found = if kind == Kind::Passing { None } else { self.read(&command, kind) };
        let delay = found.and_then(|found| self.apply(&mut command, kind, found));
        let Some(delay) = delay else {
            return self.below.home().call(command);
        };
        let mut below = self.below.lend();
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            // What was ready before may be so no more.
            below.ready().await?;
            below.call(command).await
        })
    }
}
