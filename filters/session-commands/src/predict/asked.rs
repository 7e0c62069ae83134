//! One session's side: which commands may be answered from memory, and what the replies to them
//! depend on.

use super::{
    Evidence, Memory, Template,
    epochs::Changes,
    evidence::{Me, Subject},
};
use crate::{
    log::{Entry, Log},
    plan::Plan,
    state::Gather,
};
use chain::{
    Command, Error, Next, Reply, Server, Session,
    command::Asker,
    facts::{Expected, Orders, RuleVerdict, ServedBy, StateId, Statement},
};
use smallvec::SmallVec;
use sql::session::{Cell, Class};
use std::{
    num::NonZeroU64,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};
use wire::{capability::Capabilities, command::CommandCode, status::Status};

/// Takes a session into its schema at its login: see the proxy's `login`.
const LOGIN: Asker = Asker::Filter("login");

/// So many answers from memory that were wrong end them for the session.
const PATIENCE: u32 = 3;

/// What a session needs to be answered from memory.
#[derive(Debug)]
pub(crate) struct Predicting {
    me: Arc<Me>,
    /// Whose account was hashed for that.
    user: Option<Arc<str>>,
    /// Something else than session commands was executed since autocommit is off.
    pub(crate) worked: bool,
    /// The answer to the login, until a server was asked anything.
    login: Option<Arc<Evidence>>,
    began: Instant,
    /// A server has answered: it has accepted the account.
    accepted: bool,
}

/// A command whose reply may be known, or is to be noted.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) evidence: Arc<Evidence>,
    /// Profiles of the session's servers, as far as they have one.
    profiles: SmallVec<[NonZeroU64; 2]>,
}

/// What kind of command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Sets a constant.
    Constant,
    /// Depends on the session's environment.
    Environment,
    /// COM_STMT_PREPARE.
    Prepare,
    /// The login's COM_INIT_DB.
    Login,
}

impl Predicting {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        let (id, account, servers, mismatches) = Default::default();
        let me = Arc::new(Me { memory, id, account, servers, mismatches });
        let (user, login, began) = (None, None, Instant::now());
        Self { me, user, worked: false, login, began, accepted: false }
    }

    /// Takes the place of `from` in a session that goes on: `None` if nothing was answered from
    /// memory, and nobody knows what was executed since autocommit is off.
    pub(crate) fn inherit(&mut self, from: Option<Self>) {
        match from {
            Some(from) => {
                // What was answered before stays with the memory that answered it.
                let wrong = from.me.mismatches.load(Relaxed);
                self.me.mismatches.store(wrong, Relaxed);
                *self = Self { me: self.me.clone(), user: None, ..from };
            }
            None => self.worked = true,
        }
    }

    /// Whether a server has to accept the account before anything more is answered from memory.
    fn is_overdue(&self, now: Instant) -> bool {
        let limit = self.me.memory.settings.require_backend_auth_within;
        !self.accepted && limit.is_some_and(|limit| now - self.began >= limit)
    }

    /// Whether the command's reply is of interest. `tied`: the session is, to its connection.
    pub(crate) fn asks(
        &mut self,
        command: &Command,
        plan: &Plan,
        log: &Log,
        tied: bool,
    ) -> Option<Asked> {
        let session = command.session();
        if session.status().contains(Status::AUTOCOMMIT) {
            self.worked = false;
        } else if plan.is_nothing() && command.asker() == Asker::Client {
            self.worked = true;
        }
        if tied || self.worked || session.in_transaction() || must_go_down(command) {
            return None;
        }
        let kind = Kind::of(command, plan)?;
        let settings = self.me.memory.store.settings();
        if kind == Kind::Prepare && !settings.prepare {
            return None;
        }
        let state = kind.state(command, plan, log)?;
        let (prepares, constant) = (kind == Kind::Prepare, kind == Kind::Constant);
        let departures = session.topology.departures();
        let stamp = self.me.memory.epochs.stamp(constant, departures, servers(session));
        let subject = Subject {
            base: base(command, kind, state),
            class: plan.class().unwrap_or_default(),
            constant,
            prepares,
            may_fail: plan.entries.first().is_some_and(|it| it.expected == Expected::Anything),
            stamp,
            capabilities: session.capabilities,
        };
        self.is(session);
        let evidence = Evidence::new(self.me.clone(), subject);
        let mut profiles = SmallVec::new();
        for profile in servers(session).filter_map(|server| server.profile.get()) {
            if !profiles.contains(&profile) {
                profiles.push(profile);
            }
        }
        Some(Asked { evidence: Arc::new(evidence), profiles })
    }

    /// Notes whose session it is.
    fn is(&mut self, session: &Session) {
        self.me.id.store(session.id, Relaxed);
        if self.user.as_ref().is_none_or(|user| !Arc::ptr_eq(user, &session.user)) {
            let mut account = Gather::new(4);
            account.add(session.user.as_bytes());
            self.me.account.store(account.finish().0 as u64, Relaxed);
            self.user = Some(session.user.clone());
        }
        self.me.servers.get_or_init(|| self.me.memory.avoiding(&session.topology));
    }

    /// Whether so many answers were wrong that there are no more for the session.
    pub(crate) fn was_wrong_too_often(&self) -> bool {
        self.me.mismatches.load(Relaxed) >= PATIENCE
    }

    /// The reply from memory, if there is one: all versions of servers that the session may meet
    /// are known to give the same.
    pub(crate) fn answer(&mut self, command: &Command, asked: &Asked) -> Option<Arc<Template>> {
        let (memory, now) = (&self.me.memory, Instant::now());
        if self.was_wrong_too_often() || self.is_overdue(now) {
            return None;
        }
        let off = |profile: &NonZeroU64| memory.breaker.is_off(Some(*profile), now);
        if asked.profiles.iter().any(off) {
            return None;
        }
        let Subject { stamp, .. } = asked.evidence.subject;
        let give = |profile: &NonZeroU64| {
            memory.store.give(asked.evidence.subject.key(Some(*profile)), stamp, now)
        };
        let (first, others) = asked.profiles.split_first()?;
        let template = give(first)?;
        if !others.iter().all(|profile| give(profile).is_some_and(|other| other == template)) {
            return None;
        }
        asked.evidence.expect(template.clone(), asked.profiles.first().copied(), true);
        memory.counters.predicted.add_one();
        if command.asker() == LOGIN {
            self.login = Some(asked.evidence.clone());
        }
        Some(template)
    }

    /// Sends the command down and notes what comes of it.
    pub(crate) async fn run(
        &mut self,
        command: Command,
        asked: Option<Asked>,
        next: Next<'_>,
    ) -> chain::Result<Reply> {
        let changed = self.follow(&command);
        let reply = next.run(command).await;
        self.met(reply.as_ref());
        let reply = reply?;
        let reply = match asked {
            Some(asked) => self.note(&asked, reply),
            None => reply,
        };
        Ok(match changed {
            Some(changed) => reply.map_body(|body| body.hold(changed)),
            None => reply,
        })
    }

    /// Notes the reply of a server.
    fn note(&self, asked: &Asked, reply: Reply) -> Reply {
        self.me.memory.counters.sent.add_one();
        let server = reply.fact().map(|ServedBy(target)| target.server.clone());
        let Some(server) = server.filter(|_| !reply.is_handover()) else { return reply };
        asked.evidence.watch(server, reply)
    }

    /// Notes what a command does to other sessions, now and when it is done.
    fn follow(&self, command: &Command) -> Option<Changed> {
        let changes = Changes::by(command)?;
        self.me.memory.epochs.change(changes);
        Some(Changed(self.me.memory.clone(), changes))
    }

    /// Finds out whether the login was rightly answered from memory: a server was asked, and
    /// answered, or could not be.
    fn met(&mut self, outcome: Result<&Reply, &Error>) {
        self.accepted |= outcome.is_ok_and(|reply| reply.fact::<ServedBy>().is_some());
        let Some(login) = &self.login else { return };
        match outcome {
            Ok(reply) if reply.fact::<ServedBy>().is_none() => {}
            Ok(_) => self.login = None,
            // It is denied, or not there.
            Err(error) if matches!(error.code(), 1044 | 1045 | 1049) => {
                login.was_wrong();
                self.login = None;
            }
            Err(_) => {}
        }
    }
}

/// Notes that a change is done as soon as it is dropped.
#[derive(Debug)]
pub(crate) struct Changed(Arc<Memory>, Changes);

impl Drop for Changed {
    fn drop(&mut self) {
        self.0.epochs.change(self.1);
    }
}

impl Kind {
    fn of(command: &Command, plan: &Plan) -> Option<Self> {
        let Plan { local, unlogged, ties, names_local, sets_last_insert_id, several, .. } = plan;
        let plain = local.is_empty() && unlogged.is_empty() && ties.is_empty();
        if !plain || *names_local || *sets_last_insert_id || *several {
            return None;
        }
        match command.code() {
            CommandCode::INIT_DB if command.asker() == LOGIN => Some(Self::Login),
            _ if command.asker() != Asker::Client => None,
            CommandCode::STMT_PREPARE => plan.prepares.as_ref().map(|_| Self::Prepare),
            CommandCode::RESET_CONNECTION => Some(Self::Environment),
            CommandCode::QUERY | CommandCode::INIT_DB => {
                let [entry] = &plan.entries[..] else { return None };
                // Of some texts only a part is logged.
                let whole = match command.fact::<Statement>() {
                    Some(statement) => statement.text()[..] == entry.payload[..],
                    None => true,
                };
                let named = |cell: &Cell| matches!(cell, Cell::Prepared(_));
                let from_variable = entry.writes.iter().any(named)
                    && entry.reads.iter().any(|cell| matches!(cell, Cell::User(_)));
                match entry.class {
                    _ if !whole || from_variable => None,
                    Class::Const => Some(Self::Constant),
                    Class::Environment => Some(Self::Environment),
                    // A class is for texts.
                    Class::Lifecycle if command.code() == CommandCode::INIT_DB => {
                        Some(Self::Environment)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What the session has made of what the reply depends on.
    fn state(self, command: &Command, plan: &Plan, log: &Log) -> Option<StateId> {
        let entry = plan.entries.first();
        let reads = entry.map_or(&[][..], |Entry { reads, .. }| reads);
        if self == Self::Prepare {
            return log.prepared_in(command.payload());
        }
        log.fingerprint(|cell| shapes_reply(cell) || reads.contains(cell))
    }
}

/// Whether somebody below is to do more with the command than to have it executed.
fn must_go_down(command: &Command) -> bool {
    let ruled = |verdict: &RuleVerdict| {
        verdict.switch_to_fast_forward || verdict.mirror.is_some() || verdict.multiplex.is_some()
    };
    command.session().fast_forward
        || command.fact().is_some_and(ruled)
        || Orders::of(command).mirror.is_some()
}

/// Whether the reply to any session command may depend on what is in the cell.
fn shapes_reply(cell: &Cell) -> bool {
    match cell {
        Cell::CharsetClient | Cell::CharsetResults | Cell::CollationConnection | Cell::Role => true,
        Cell::System(name) => {
            name.starts_with("session_track_")
                || matches!(
                    &**name,
                    "sql_mode"
                        | "resultset_metadata"
                        | "sql_notes"
                        | "sql_warnings"
                        | "max_error_count"
                )
        }
        _ => false,
    }
}

/// What the reply depends on, but for the version of the server that gives it. Attributes of a query
/// are left out: functions alone read them.
fn base(command: &Command, kind: Kind, state: StateId) -> StateId {
    let session = command.session();
    let mut gather = Gather::new(3);
    let autocommit = session.status().contains(Status::AUTOCOMMIT);
    let (code, login) = (command.code().0, kind == Kind::Login);
    let Capabilities(mine) = session.capabilities;
    let wire = mine & (Capabilities::WIRE_FORMAT.0 | Capabilities::BEHAVIOUR.0);
    // In one piece: each costs as much as many of its bytes.
    let numbers = u128::from(wire) << 64
        | u128::from(session.hostgroup.0) << 32
        | u128::from(session.collation) << 16
        | u128::from(code) << 8
        | u128::from(login) << 1
        | u128::from(autocommit);
    gather.add(&numbers.to_le_bytes());
    match command.code() {
        CommandCode::QUERY => gather.add(&command.sql().unwrap_or_default()),
        _ => gather.add(command.payload()),
    }
    gather.add(session.user.as_bytes());
    gather.schema(session.current_schema.as_ref());
    gather.add_state(state);
    gather.finish()
}

/// Servers that the session may meet: those of its hostgroup, and of the other one of its cluster.
fn servers(session: &Session) -> impl Iterator<Item = &Arc<Server>> {
    let topology = &session.topology;
    let own = session.hostgroup;
    let cluster = topology.cluster_of(own);
    let other = cluster.map(|it| if it.writer == own { it.reader } else { it.writer });
    let groups = [Some(own), other].into_iter().flatten();
    groups.filter_map(|id| topology.hostgroup(id)).flat_map(|group| &group.servers)
}
