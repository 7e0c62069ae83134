//! Finding a server that can be used, and getting a connection to it.

mod refusal;
#[cfg(test)]
mod tests;

use super::State;
use crate::{
    backend::{
        Backends,
        connect::ConnectError,
        dispatch::share::Need,
        identity::attributes,
        pool::{Got, Want},
    },
    config::Account,
    session::login::LOGIN,
};
use chain::{
    Command, Error, Hostgroup, Result, Server, Session,
    error::code,
    facts::{Affinity, Fact, FastForward, Hints, SessionLog, StickyMode, Target},
    topology::ServerState,
};
use refusal::why;
pub(in crate::backend) use refusal::{no_server, refused};
use smallvec::SmallVec;
use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use wire::{attributes::Attributes, capability::Capabilities};

/// Servers that are tried, in that order.
pub(in crate::backend) type Candidates<'a> = SmallVec<[&'a Arc<Server>; 8]>;

/// What a command wants of its server.
struct Wanted<'a> {
    target: &'a Target,
    /// This one, or none.
    only: Option<u32>,
    /// The named one is waited for while it is only full.
    rather: bool,
    /// How long a server may take to be there.
    patience: Duration,
    /// How long one that is there may be full.
    budget: Duration,
}

/// What came of trying each candidate once.
enum Round {
    Found(Got, Target),
    /// Trying again may help.
    Failed(Vec<(u32, String)>),
    Over(Error),
}

/// What came of trying one.
enum Attempt {
    Found(Got),
    /// All its connections are in use.
    Full,
    /// It may pass.
    Failed(String),
    /// Another server may do.
    Unusable(Error),
    Over(Error),
}

impl State {
    /// Tries the named server, then the others of its hostgroup that can be used, again and again
    /// until the budget is used up. Nothing has been sent, so each of them is as good. While there
    /// is none it waits for one.
    pub(super) async fn attach(
        &mut self,
        target: &Target,
        command: &Command,
    ) -> Result<(Got, Target)> {
        let mut session = command.session().clone();
        let enters = command.asker() == LOGIN;
        if command.fact::<SessionLog>().is_some_and(|log| log.schemaless) {
            session.update(|view| view.schema = None);
        }
        let settings = self.shared.settings.load_full();
        let wanted = Wanted::of(target, command, settings.connect_budget);
        let started = Instant::now();
        let (until, room_until) = (started + wanted.patience, started + wanted.budget);
        let need = self.need(command, enters);
        let unused = command.fact::<Hints>().is_some_and(|hints| hints.new_connection);
        // A session that may be forwarded says COM_CHANGE_USER in the form that its client knows.
        let tells = session.capabilities.contains(Capabilities::CONNECT_ATTRS)
            || !self.shared.chain.gives(FastForward::NAME);
        let told = tells.then(|| self.attributes(&session));
        let (backends, account) = (&*self.shared.backends, &self.me.entry.account());
        let mut failures = Vec::new();
        loop {
            let health = backends.health();
            let mut changed = pin!(health.changed());
            // From here on no change goes by unseen.
            changed.as_mut().enable();
            // What waits here may be waiting for the server that a reload has just added.
            let topology = backends.topology();
            if !Arc::ptr_eq(&topology, &session.topology) {
                session.update(|view| view.topology = topology);
            }
            let search = Search {
                backends,
                session: &session,
                account,
                enters,
                need: need.clone(),
                unused,
                told: told.as_ref(),
                until: room_until,
            };
            let candidates = wanted.candidates(&session, health.is_monitored());
            if candidates.is_empty() {
                failures.clear();
                if tokio::time::timeout_at(until.into(), changed).await.is_err() {
                    return Err(wanted.nobody(backends, &session, &failures));
                }
                continue;
            }
            match search.round(&wanted, &candidates).await {
                Round::Found(got, target) => return Ok((got, target)),
                Round::Over(error) => return Err(error),
                Round::Failed(tried) => failures = tried,
            }
            if Instant::now() + settings.connect_retry_delay >= until {
                return Err(wanted.nobody(backends, &session, &failures));
            }
            // A change may bring one that does better.
            let _ = tokio::time::timeout(settings.connect_retry_delay, changed).await;
        }
    }

    /// What servers are told of the session. One that shares its connections needs it again and
    /// again.
    fn attributes(&mut self, session: &Session) -> Attributes {
        let Some(sharing) = &mut self.sharing else { return attributes(session) };
        match &sharing.attributes {
            Some((own, all)) if *own == session.attributes => all.clone(),
            _ => {
                let all = attributes(session);
                sharing.attributes = Some((session.attributes.clone(), all.clone()));
                all
            }
        }
    }
}

/// How connections are got for one command.
struct Search<'a> {
    backends: &'a Backends,
    session: &'a Session,
    account: &'a Account,
    /// The command takes the connection into the session's schema.
    enters: bool,
    /// What it takes of other sessions.
    need: Option<Need>,
    /// It takes none that anybody has had before.
    unused: bool,
    /// The connection attributes that the server is told.
    told: Option<&'a Attributes>,
    /// Until when a full server is waited for.
    until: Instant,
}

impl Search<'_> {
    /// Tries each candidate once. One that is full is waited for when no other can be had.
    async fn round(&self, wanted: &Wanted<'_>, candidates: &[&Arc<Server>]) -> Round {
        let (mut failures, mut unusable, mut full) = (Vec::new(), None, None);
        let at = |server: &Arc<Server>| Target { server: server.clone(), ..wanted.target.clone() };
        for &server in candidates {
            let waits =
                candidates.len() == 1 || wanted.rather && server.id == wanted.target.server.id;
            let until = if waits { self.until } else { Instant::now() };
            match self.attempt(server, until).await {
                Attempt::Found(link) => return Round::Found(link, at(server)),
                Attempt::Full if !waits => {
                    full.get_or_insert(server);
                }
                Attempt::Full => {
                    failures.push((server.id, "all its connections are in use".into()))
                }
                Attempt::Failed(failure) => failures.push((server.id, failure)),
                Attempt::Unusable(error) => {
                    unusable.get_or_insert(error);
                }
                Attempt::Over(error) => return Round::Over(error),
            }
            if Instant::now() >= self.until {
                break;
            }
        }
        if let Some(server) = full {
            match self.attempt(server, self.until).await {
                Attempt::Found(link) => return Round::Found(link, at(server)),
                Attempt::Full => {
                    failures.push((server.id, "all its connections are in use".into()))
                }
                Attempt::Failed(failure) => failures.push((server.id, failure)),
                Attempt::Unusable(error) | Attempt::Over(error) => return Round::Over(error),
            }
        }
        match unusable {
            // What this one lacks it will lack again.
            Some(error) if failures.is_empty() => Round::Over(error),
            _ => Round::Failed(failures),
        }
    }

    /// Whether the server is still among those that may be tried.
    fn may_use(&self, server: &Server) -> bool {
        let takes = server.standing.takes(None);
        takes || !self.backends.health().is_monitored() && is_last_resort(server)
    }

    async fn attempt(&self, server: &Arc<Server>, until: Instant) -> Attempt {
        let Some(backend) = self.backends.get(server) else {
            return Attempt::Failed("unknown".into());
        };
        let (session, account, enters) = (self.session, self.account, self.enters);
        let Self { told, unused, .. } = *self;
        let want = Want { session, account, enters, need: self.need.clone(), told, unused };
        let mut attach = pin!(backend.attach(&want, until));
        let attached = loop {
            let health = self.backends.health();
            let mut changed = pin!(health.changed());
            changed.as_mut().enable();
            if !self.may_use(server) {
                return Attempt::Failed("it has gone out of use meanwhile".into());
            }
            tokio::select! {
                biased;
                attached = &mut attach => break attached,
                () = changed => {}
            }
        };
        match attached {
            Ok(got) if !self.may_use(server) => {
                got.release();
                Attempt::Failed("it has gone out of use meanwhile".into())
            }
            Ok(got) => Attempt::Found(got),
            Err(ConnectError::Full(_)) => Attempt::Full,
            Err(error) if error.may_pass() => {
                tracing::debug!(server = %server.name, %error, "connect failed");
                Attempt::Failed(error.to_string())
            }
            Err(error) if error.is_of_the_server() => {
                tracing::warn!(server = %server.name, %error, "cannot be used");
                Attempt::Unusable(refused(&backend, error))
            }
            Err(error) => Attempt::Over(refused(&backend, error)),
        }
    }
}

impl<'a> Wanted<'a> {
    fn of(target: &'a Target, command: &Command, budget: Duration) -> Self {
        let affinity = command.fact::<Affinity>();
        let mode = affinity.map_or(StickyMode::Off, |affinity| affinity.mode);
        let stuck = affinity.and_then(|affinity| affinity.server(target.hostgroup));
        let only = stuck.filter(|_| mode == StickyMode::Strict);
        let rather = mode == StickyMode::WhileAlive && stuck == Some(target.server.id);
        let patience = match (only, affinity) {
            (Some(_), Some(affinity)) => affinity.strict_wait,
            _ => budget,
        };
        Self { target, only, rather, patience, budget }
    }

    /// The servers that may be used for it, the named one first.
    fn candidates<'s>(&self, session: &'s Session, monitored: bool) -> Candidates<'s> {
        let Some(group) = session.topology.hostgroup(self.target.hostgroup) else {
            return Candidates::new();
        };
        let named = self.target.server.id;
        let mut candidates = available(group, Some(named), monitored);
        match self.only {
            Some(only) => candidates.retain(|server| server.id == only),
            None => {
                if let Some(at) = candidates.iter().position(|server| server.id == named) {
                    candidates[..=at].rotate_right(1);
                }
            }
        }
        candidates
    }

    /// The error for a command that has waited long enough.
    fn nobody(&self, backends: &Backends, session: &Session, failures: &[(u32, String)]) -> Error {
        let group = session.topology.hostgroup(self.target.hostgroup);
        let (id, patience) = (self.target.hostgroup, self.patience);
        if let Some(only) = self.only {
            let servers = group.map(|group| &group.servers[..]).unwrap_or_default();
            let server = servers.iter().find(|server| server.id == only);
            let name = server.map_or("that was its server", |server| &server.name);
            let why = server.map(|server| why(backends, server, failures)).unwrap_or_default();
            let text = format!(
                "the session sticks to {name} in hostgroup {id} (mode strict), which was not to be \
                 had within {patience:?} ({why})"
            );
            return Error::backend(text).with_code(code::SERVER_OFFLINE, *b"08S01");
        }
        no_server(backends, group, id, patience, failures)
    }
}

/// The servers of a hostgroup that may get new work; the one that is `named` also without a weight.
/// Where nobody watches them, those that sessions could not connect to are better than none.
pub(in crate::backend) fn available<'a>(
    group: &'a Hostgroup,
    named: Option<u32>,
    monitored: bool,
) -> Candidates<'a> {
    let weighty = |server: &&Arc<Server>| server.weight() > 0 || named == Some(server.id);
    let all = || group.servers.iter().filter(weighty);
    let candidates: Candidates<'_> = all().filter(|server| server.standing.takes(None)).collect();
    if !candidates.is_empty() || monitored {
        return candidates;
    }
    all().filter(|server| is_last_resort(server)).collect()
}

fn is_last_resort(server: &Server) -> bool {
    server.standing.is_member() && server.standing.state() == ServerState::Shunned
}
