//! One connection in the place of another, for a session whose state is in a log.

use super::{State, available};
use crate::backend::{
    connection::{Closed, Interrupted},
    ids,
};
use chain::{
    Command, Error, Reply, Result,
    error::{CatchUpFailed, CatchUpKilled},
    facts::{
        Affinity, Careful, FastForward, Hints, Lsn, Orders, Pin, Primary, RuleVerdict, SessionLog,
        Statement, StickyMode, Target, Unprepared,
    },
    retry::Retry,
};
use smallvec::SmallVec;
use std::{sync::atomic::Ordering::Relaxed, time::Instant};
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
    /// transaction was open, and all of its state is in the log, be it for as long as nothing uses it
    /// up.
    pub(super) fn can_replace(&self, at: usize, error: &Error) -> bool {
        let held = &self.held[at];
        self.keeps_state
            && (held.tied.is_none() || held.again)
            && error.cause::<Interrupted>().is_none()
            && !held.ids.lease.in_transaction.load(Relaxed)
            && !self.me.entry.killed.load(Relaxed)
    }

    /// Lets go of a connection.
    pub(super) fn let_go(&mut self, at: usize) {
        self.settle(at);
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
        if let Some(sharing) = &mut self.sharing {
            sharing.closes += 1;
        }
        for held in self.held.iter_mut().filter(|held| !held.is_unknown()) {
            let one = command.copy("dispatch", command.session().clone());
            // It has no reply.
            let _ = ids::exchange(held, &self.me, one.asked_by(command.asker())).await?;
        }
        Ok(Reply::none())
    }

    /// What a command needs that is gone with its connection is not made up on another.
    pub(super) fn may_open(&mut self, command: &Command) -> Result<()> {
        let shares = self.sharing.is_some();
        let elsewhere = |pin: &&Pin| pin.again || pin.soft && shares;
        let pin = command.fact::<Pin>().filter(|pin| self.keeps_state && !elsewhere(pin));
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

    /// Another server than those that were tried: of the hostgroup, then the primary.
    fn other(&self, target: &Target, command: &Command, tried: &[u32]) -> Option<Target> {
        if is_strict(command) {
            return None;
        }
        let group = command.session().topology.hostgroup(target.hostgroup)?;
        let others = available(group, None, self.shared.backends.health().is_monitored());
        let server = others.into_iter().find(|server| !tried.contains(&server.id));
        match server {
            Some(server) => Some(Target { server: server.clone(), ..target.clone() }),
            None => self.primary(target, command).filter(|it| !tried.contains(&it.server.id)),
        }
    }

    /// The primary whose replicas the target's hostgroup has.
    fn primary(&self, target: &Target, command: &Command) -> Option<Target> {
        let topology = &command.session().topology;
        let cluster = topology.cluster_of(target.hostgroup).map(|cluster| cluster.writer);
        let hostgroup = cluster.or_else(|| command.fact().map(|Primary(writer)| *writer))?;
        if hostgroup == target.hostgroup {
            return None;
        }
        let group = topology.hostgroup(hostgroup)?;
        let monitored = self.shared.backends.health().is_monitored();
        let server = available(group, None, monitored).into_iter().next()?.clone();
        Some(Target { hostgroup, server })
    }

    /// Where a command for `target` goes: another server, while this one is left alone because the
    /// session's state could not be had there.
    pub(super) fn around(&self, target: Target, command: &Command) -> Target {
        if self.avoided.is_empty() || command.fact::<Pin>().is_some() {
            return target;
        }
        let now = Instant::now();
        let avoided = self.avoided.iter().filter(|(_, retry)| !retry.is_due(now));
        let avoided: SmallVec<[u32; 4]> = avoided.map(|(server, _)| *server).collect();
        let is_held = self.held.iter().any(|held| held.is_at(&target));
        if is_held || !avoided.contains(&target.server.id) || command.session().in_transaction() {
            return target;
        }
        self.other(&target, command, &avoided).unwrap_or(target)
    }

    /// Leaves a server alone for a while.
    fn avoid(&mut self, server: u32) {
        let now = Instant::now();
        match self.avoided.iter_mut().find(|(known, _)| *known == server) {
            Some((_, retry)) => retry.again(now),
            None => self.avoided.push((server, Retry::failed(now))),
        }
    }

    /// Lets go of a connection that is not in the session's state; nobody gets it.
    fn discard(&mut self, at: usize) {
        self.held[at].ids.lease.spoiled.store(true, Relaxed);
        self.let_go(at);
    }

    /// What is left of a connection on which a KILL QUERY has met the session's state on its way.
    pub(super) fn killed(&mut self, at: usize, error: Error) -> Error {
        let held = &self.held[at];
        self.lost |= held.tied.is_some() || held.ids.lease.in_transaction.load(Relaxed);
        self.discard(at);
        error
    }

    /// Sends a statement to the primary that a replica has refused to prepare: it may not have got
    /// yet what the statement is about. The replica's refusal stands where there is no primary, and
    /// for what must stay where it is.
    pub(super) async fn at_primary(&mut self, at: usize, refusal: Reply) -> Result<Reply> {
        let Some(Unprepared { command }) = refusal.fact() else { return Ok(refusal) };
        let held = &self.held[at];
        let stays = held.tied.is_some()
            || command.session().in_transaction()
            || command.fact::<Pin>().is_some()
            || is_strict(command);
        let Some(target) = self.primary(&held.target, command).filter(|_| !stays) else {
            return Ok(refusal);
        };
        let command = again(command);
        drop(refusal);
        let held = self.held.iter().position(|held| held.is_at(&target));
        let at = match held {
            Some(at) => self.again(at),
            None => self.open(target, &command).await?,
        };
        self.held[at].stack.ready().await?;
        let spare = self.spare(at, &command);
        match (self.run(at, command).await, spare) {
            (Err(error), Some(spare)) => self.recover(at, spare, error).await,
            (reply, _) => reply,
        }
    }

    /// Sends a command once more that has failed with `error` at `at`: to the same server on another
    /// connection, one thing at a time, and if the session's state cannot be had there, to the others
    /// of the hostgroup, the primary last.
    pub(super) async fn recover(&mut self, at: usize, spare: Spare, error: Error) -> Result<Reply> {
        let Spare { command, mut retries } = spare;
        let mut error = error;
        let mut target = self.held[at].target.clone();
        let mut at = Some(at);
        let mut tried = Vec::new();
        loop {
            if let Some(at) = at.filter(|_| error.cause::<CatchUpKilled>().is_some()) {
                return Err(self.killed(at, error));
            }
            let differs = error.cause::<CatchUpFailed>().is_some();
            let broke = error.cause::<Closed>().is_some() && retries > 0;
            if !differs && !broke || self.me.entry.killed.load(Relaxed) {
                return Err(error);
            }
            match at.take() {
                Some(at) if differs => self.discard(at),
                Some(at) => self.let_go(at),
                None => {}
            }
            if differs {
                // Twice on the same server, once on each of the others.
                let again = tried.is_empty();
                tried.push(target.server.id);
                if !again {
                    self.avoid(target.server.id);
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
            let mut once_more = again(&command);
            if differs {
                once_more.note(Careful);
            }
            match self.run(next, once_more).await {
                Ok(reply) => return Ok(reply),
                Err(other) => error = other,
            }
            at = Some(next);
        }
    }
}

/// Whether the session stays where it is, come what may.
pub(super) fn is_strict(command: &Command) -> bool {
    command.fact::<Affinity>().is_some_and(|affinity| affinity.mode == StickyMode::Strict)
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
    if let Some(primary) = command.fact::<Primary>() {
        copy.note(*primary);
    }
    if let Some(order) = command.fact::<FastForward>() {
        copy.note(*order);
    }
    copy
}
