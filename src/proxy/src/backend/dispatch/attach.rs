//! Finding a server that can be used, and getting a connection to it.

use super::State;
use crate::{
    backend::{
        Backend, Backends,
        connect::ConnectError,
        dispatch::share::Need,
        pool::{Got, Want},
    },
    config::Account,
    session::login::LOGIN,
};
use chain::{
    Command, Error, Hostgroup, Result, Server, Session,
    error::code,
    facts::{Affinity, Hints, SessionLog, StickyMode, Target},
    topology::ServerState,
};
use smallvec::SmallVec;
use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

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
}

/// Errors of a server that does not let an account in: a wrong password, a locked one, one that has
/// expired.
const DENIED: [u16; 5] = [1045, 1698, 1862, 3118, 4151];

impl State {
    /// A session whose account no server has ever accepted ends with the server's own words: a
    /// client of the server's would not have got in either.
    pub(super) fn unattached(&mut self, error: Error) -> Error {
        self.lost |= !self.accepted && DENIED.contains(&error.code());
        error
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
        let (need, unused) = (self.need.clone(), self.unused);
        let want = Want { session, account, enters, need, unused };
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

/// The error where a hostgroup has had no server for so long, with each server's reason.
pub(in crate::backend) fn no_server(
    backends: &Backends,
    group: Option<&Hostgroup>,
    id: chain::HostgroupId,
    budget: Duration,
    failures: &[(u32, String)],
) -> Error {
    let servers = group.map(|group| &group.servers[..]).unwrap_or_default();
    let reasons = servers.iter().filter(|server| server.weight() > 0);
    let reasons =
        reasons.map(|server| format!("{}: {}", server.name, why(backends, server, failures)));
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    let text = format!("no server of hostgroup {id} within {budget:?} ({reasons})");
    Error::backend(text).with_code(code::CONNECT_BUDGET, *b"08S01")
}

/// What connecting to it has come to, and its state where that says more.
fn why(backends: &Backends, server: &Server, failures: &[(u32, String)]) -> String {
    let state = backends.get(server).map(|backend| backend.describe());
    let state = state.unwrap_or_else(|| "unknown".to_owned());
    match failures.iter().find(|(id, _)| *id == server.id) {
        Some((_, failure)) if server.standing.takes(None) => failure.clone(),
        Some((_, failure)) => format!("{state}; {failure}"),
        None => state,
    }
}

/// A server's own error goes to the client as it is; ours says where it happened.
pub(in crate::backend) fn refused(backend: &Backend, error: ConnectError) -> Error {
    match error {
        ConnectError::Refused(err) => {
            let text = err.message_lossy().into_owned();
            Error::backend(text).with_code(err.code, err.sqlstate)
        }
        error => {
            let text = format!("{}: {error}", backend.server.name);
            Error::backend(text).with_code(code::CONNECT_FAILED, *b"08S01")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Wanted, available};
    use chain::{
        Command, Hostgroup, HostgroupId, Server, Session, Topology,
        facts::{Affinity, StickyMode, Target},
        testing,
        topology::ServerState::{self, Lagging, OfflineSoft, Online, Shunned},
    };
    use std::{sync::Arc, time::Duration};

    const BUDGET: Duration = Duration::from_secs(10);
    const GROUP: HostgroupId = HostgroupId(7);

    /// Servers 1, 2, ... of one hostgroup, each with its weight and state.
    fn session(servers: &[(u32, ServerState)]) -> Session {
        let made = (1..).zip(servers).map(|(id, (weight, state))| {
            let server = Server::new(id, format!("db{id}"), *weight);
            server.standing.set_state(*state);
            Arc::new(server)
        });
        let group = Hostgroup { id: GROUP, name: None, servers: made.collect() };
        let mut session = testing::session();
        session.update(|view| view.topology = Arc::new(Topology::new(vec![group])));
        session
    }

    fn target(session: &Session, id: u32) -> Target {
        let group = session.topology.hostgroup(GROUP).expect("it is there");
        let server = group.servers.iter().find(|server| server.id == id).expect("it is there");
        Target { hostgroup: GROUP, server: server.clone() }
    }

    /// The servers that a command for `named` tries, in order.
    fn tried(session: &Session, named: u32, affinity: Option<Affinity>) -> Vec<u32> {
        let (target, mut command) =
            (target(session, named), Command::query(session.clone(), "SELECT 1"));
        if let Some(affinity) = affinity {
            command.note(affinity);
        }
        let wanted = Wanted::of(&target, &command, BUDGET);
        wanted.candidates(session, true).iter().map(|server| server.id).collect()
    }

    fn sticks(mode: StickyMode, server: u32) -> Option<Affinity> {
        let strict_wait = Duration::from_secs(3);
        let servers = [(GROUP, server)].into_iter().collect();
        Some(Affinity { mode, servers, strict_wait, ..Affinity::default() })
    }

    #[test]
    fn the_named_one_goes_first_and_only_those_that_take_work_are_tried() {
        let session = session(&[(1, Online), (1, Shunned), (1, Online), (0, Online), (1, Lagging)]);
        assert_eq!(tried(&session, 1, None), [1, 3]);
        assert_eq!(tried(&session, 3, None), [3, 1]);
        assert_eq!(tried(&session, 2, None), [1, 3]);
        assert_eq!(tried(&session, 4, None), [4, 1, 3], "by name also without a weight");
    }

    #[test]
    fn a_strict_session_has_its_server_or_none() {
        let session = session(&[(1, Online), (1, Online), (1, OfflineSoft)]);
        assert_eq!(tried(&session, 1, sticks(StickyMode::Strict, 2)), [2]);
        assert_eq!(tried(&session, 3, sticks(StickyMode::Strict, 3)), [0; 0]);
        assert_eq!(tried(&session, 3, sticks(StickyMode::WhileAlive, 3)), [1, 2]);
        assert_eq!(tried(&session, 2, sticks(StickyMode::WhileAlive, 2)), [2, 1]);
    }

    #[test]
    fn how_long_is_waited() {
        let session = session(&[(1, Online), (1, Online)]);
        let wanted = |affinity: Option<Affinity>| {
            let (target, mut command) =
                (target(&session, 1), Command::query(session.clone(), "SELECT 1"));
            if let Some(affinity) = affinity {
                command.note(affinity);
            }
            let Wanted { patience, rather, .. } = Wanted::of(&target, &command, BUDGET);
            (patience, rather)
        };
        assert_eq!(wanted(None), (BUDGET, false));
        assert_eq!(wanted(sticks(StickyMode::Strict, 1)), (Duration::from_secs(3), false));
        assert_eq!(wanted(sticks(StickyMode::WhileAlive, 1)), (BUDGET, true));
        assert_eq!(wanted(sticks(StickyMode::WhileAlive, 2)), (BUDGET, false));
    }

    #[test]
    fn where_nobody_watches_a_shunned_server_is_better_than_none() {
        let ids = |servers: &[(u32, ServerState)], monitored: bool| -> Vec<u32> {
            let session = session(servers);
            let group = session.topology.hostgroup(GROUP).expect("it is there");
            available(group, None, monitored).iter().map(|server| server.id).collect()
        };
        let down = [(1, Shunned), (1, OfflineSoft)];
        assert_eq!(ids(&down, false), [1]);
        assert_eq!(ids(&down, true), [0; 0]);
        assert_eq!(ids(&[(1, Shunned), (1, Online)], false), [2]);
    }
}
