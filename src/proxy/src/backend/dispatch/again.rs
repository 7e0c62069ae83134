//! One connection in the place of another, for a session whose state is in a log.

use super::{State, available};
use crate::backend::{
    connection::{Closed, Interrupted},
    ids,
};
use chain::{
    Body, Command, End, Error, Reply, Result,
    error::CatchUpFailed,
    facts::{
        Affinity, FastForward, Hints, Lsn, Orders, Pin, RuleVerdict, SessionLog, Statement,
        StickyMode, Target,
    },
};
use std::sync::atomic::Ordering::Relaxed;
use tower::ServiceExt;
use wire::command::{CommandCode, statement::statement_id};

/// What is needed to send a command once more.
pub(super) struct Spare {
    command: Command,
    /// How often a lost connection is no reason to give up.
    retries: u32,
}

/// Where a session's log ends once a command with this has been executed.
pub(super) fn head(log: &SessionLog) -> Lsn {
    log.this.map_or(log.head(), |this| this.lsn)
}

impl State {
    /// Whether another connection would do as well: nothing was under way on this one, no
    /// transaction was open, and all of its state is in the log.
    pub(super) fn can_replace(&self, at: usize, error: &Error) -> bool {
        let held = &self.held[at];
        self.keeps_state
            && held.tied.is_none()
            && error.cause::<Interrupted>().is_none()
            && !held.ids.lease.in_transaction.load(Relaxed)
            && !self.me.entry.killed.load(Relaxed)
    }

    /// Lets go of a connection.
    pub(super) fn let_go(&mut self, at: usize) {
        let held = self.held.remove(at);
        tracing::debug!(server = %held.target.server.name, "a session lets go of a connection");
        self.me.entry.detach(&held.ids.lease);
    }

    /// Lets go of the connections that must not be used any more. True if the command is for all
    /// that are left.
    pub(super) fn prepare(&mut self, command: &Command, target: &Target) -> bool {
        if command.code() == CommandCode::RESET_CONNECTION {
            self.keep_only(target.server.id);
        } else if let Some(log) = command.fact::<SessionLog>()
            && log.generation != self.generation
        {
            self.generation = log.generation;
            if let Some(last) = self.last {
                self.keep_only(last);
            }
        }
        command.code() == CommandCode::STMT_CLOSE && statement_id(command.whole()).is_some()
    }

    fn keep_only(&mut self, server: u32) {
        for at in (0..self.held.len()).rev() {
            if self.held[at].target.server.id != server {
                self.let_go(at);
            }
        }
    }

    /// Closes a statement on each connection. None is opened for it.
    pub(super) async fn close_everywhere(&mut self, command: &Command) -> Result<Reply> {
        for held in &mut self.held {
            let one = command.copy("dispatch", command.session().clone());
            // It has no reply.
            let _ = ids::exchange(held, &self.me, one.asked_by(command.asker())).await?;
        }
        Ok(Reply::new(Body::end(End::default())))
    }

    /// What a command needs that is gone with its connection is not made up on another.
    pub(super) fn may_open(&mut self, command: &Command) -> Result<()> {
        let shares = self.sharing.is_some();
        let pin = command.fact::<Pin>().filter(|pin| self.keeps_state && !(pin.soft && shares));
        let Some(pin) = pin else { return Ok(()) };
        self.lost = true;
        let text = format!("the connection with {} was lost", pin.cause);
        Err(Error::backend(text))
    }

    /// Keeps what is needed to send the command once more, if that may come to pass.
    pub(super) fn spare(&self, at: usize, command: &Command) -> Option<Spare> {
        let held = &self.held[at];
        let stays = held.tied.is_some()
            || command.session().in_transaction()
            || command.fact::<Pin>().is_some();
        if !self.keeps_state || stays {
            return None;
        }
        let lags = command.fact::<SessionLog>().is_some_and(|log| log.head() > held.head);
        let retries = Orders::of(command).retries.filter(|_| is_read(command)).unwrap_or(0);
        (lags || retries > 0).then(|| Spare { command: again(command), retries })
    }

    /// Another server of the hostgroup than those that were tried.
    fn other(&self, target: &Target, command: &Command, tried: &[u32]) -> Option<Target> {
        let strict = |affinity: &Affinity| affinity.mode == StickyMode::Strict;
        if command.fact::<Affinity>().is_some_and(strict) {
            return None;
        }
        let group = command.session().topology.hostgroup(target.hostgroup)?;
        let others = available(group, None, self.shared.backends.health().is_monitored());
        let server = others.into_iter().find(|server| !tried.contains(&server.id))?;
        Some(Target { server: server.clone(), ..target.clone() })
    }

    /// Sends a command once more that has failed with `error` at `at`: to the same server on another
    /// connection, and if the session's state cannot be had there, to the others of the hostgroup.
    pub(super) async fn recover(&mut self, at: usize, spare: Spare, error: Error) -> Result<Reply> {
        let Spare { command, mut retries } = spare;
        let mut error = error;
        let mut target = self.held[at].target.clone();
        let mut at = Some(at);
        let mut tried = Vec::new();
        loop {
            let differs = error.cause::<CatchUpFailed>().is_some();
            let broke = error.cause::<Closed>().is_some() && retries > 0;
            if !differs && !broke || self.me.entry.killed.load(Relaxed) {
                return Err(error);
            }
            if let Some(at) = at.take() {
                self.let_go(at);
            }
            if differs {
                // Twice on the same server, once on each of the others.
                let again = tried.is_empty();
                tried.push(target.server.id);
                if !again {
                    let Some(other) = self.other(&target, &command, &tried) else {
                        self.lost = true;
                        return Err(error);
                    };
                    target = other;
                }
            } else {
                retries -= 1;
            }
            let held = self.held.iter().position(|held| held.is_at(&target));
            let next = match held {
                Some(next) => self.again(next),
                None => self.open(target.clone(), &command).await?,
            };
            self.held[next].stack.ready().await?;
            target = self.held[next].target.clone();
            match self.run(next, again(&command)).await {
                Ok(reply) => return Ok(reply),
                Err(other) => error = other,
            }
            at = Some(next);
        }
    }
}

/// Whether a command changes nothing, anywhere.
fn is_read(command: &Command) -> bool {
    command.fact::<Statement>().is_some_and(|statement| statement.get().any_server())
        && matches!(command.code(), CommandCode::QUERY | CommandCode::STMT_EXECUTE)
}

/// The same command, with the facts that are read from here on.
fn again(command: &Command) -> Command {
    let mut copy = command.copy("dispatch", command.session().clone()).asked_by(command.asker());
    if let Some(log) = command.fact::<SessionLog>() {
        copy.note(log.clone());
    }
    if let Some(verdict) = command.fact::<RuleVerdict>() {
        // The mirror has its copy.
        copy.note(RuleVerdict { mirror: None, ..verdict.clone() });
    }
    if let Some(hints) = command.fact::<Hints>() {
        copy.note(Hints { mirror: None, ..hints.clone() });
    }
    if let Some(affinity) = command.fact::<Affinity>() {
        copy.note(affinity.clone());
    }
    if let Some(statement) = command.fact::<Statement>() {
        copy.note(statement.clone());
    }
    if let Some(order) = command.fact::<FastForward>() {
        copy.note(*order);
    }
    copy
}
