//! The bottom of the session's stack: the connections that the session holds.

mod again;

use super::{
    Backend, Backends,
    connect::ConnectError,
    connection::Connection,
    deadline,
    ids::{self, Ids},
    link::Link,
    mirror::Mirrors,
    sessions::{Killed, Lease, Registered, Sessions},
};
use crate::{
    config::{self, Account},
    session::login::LOGIN,
};
use chain::{
    Chain, Command, Error, Reply, Result, Session, Stack,
    error::{CatchUpFailed, code},
    facts::{Fact, FastForward, Lsn, RuleVerdict, ServedBy, SessionLog, Statement, Target, Tied},
    lend::Lend,
    topology::InUse,
};
use smallvec::SmallVec;
use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
    time::Instant,
};
use tower::{Service, ServiceExt};

/// Sends a command down the stack of the connection that it belongs to, and opens that first where
/// the session has none.
pub(crate) struct Dispatch(Lend<State>);

/// What all sessions of a listener share.
pub(crate) struct Shared {
    pub(crate) chain: Chain,
    pub(crate) backends: Arc<Backends>,
    pub(crate) settings: config::Backend,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) mirrors: Arc<Mirrors>,
    /// Replies say what statement they are to: [`Ran`].
    pub(crate) tells_statement: bool,
}

/// The statement that a reply is the reply to, as far as `parse` knows it; on the reply, where
/// slow ones are logged. Writer: the dispatcher.
#[derive(Clone, Debug)]
pub(crate) struct Ran(pub(crate) Option<Statement>);

impl Fact for Ran {
    const NAME: &'static str = "ran";
}

/// Whether one of the session's connections had prepared statements when it left the chain; on the
/// reply, beside the handover. Writer: the dispatcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared(pub(crate) bool);

impl Fact for Prepared {
    const NAME: &'static str = "prepared";
}

struct State {
    shared: Arc<Shared>,
    me: Registered,
    held: SmallVec<[Held; 1]>,
    /// The session has the connection that it was given, and gets no other.
    alone: bool,
    /// What the session sets is in a log: a connection can be replaced by another.
    keeps_state: bool,
    /// See [`SessionLog::generation`].
    generation: u32,
    /// The server of the connection used last.
    last: Option<u32>,
    /// Something of the session's is gone for good.
    lost: bool,
}

/// One connection of the session, with the backend filters on top.
pub(super) struct Held {
    target: Target,
    pub(super) stack: Stack,
    pub(super) ids: Ids,
    /// It has state that no other connection can be given.
    tied: bool,
    /// Where the log ended that it was sent last.
    head: Lsn,
    _attached: InUse,
}

impl Dispatch {
    /// The bottom for the session that its client knows as `id`, which logs in to servers as
    /// `account`.
    pub(crate) fn stack(shared: Arc<Shared>, account: Account, id: u32) -> Stack {
        let me = shared.sessions.register(id, account);
        let state = State::new(shared, me, false);
        Stack::new(Self(Lend::new(state)))
    }

    /// The bottom for one session that has this connection and no other.
    pub(crate) fn on(
        shared: Arc<Shared>,
        account: Account,
        id: u32,
        target: Target,
        link: Link,
    ) -> Stack {
        let me = shared.sessions.register(id, account);
        let mut state = State::new(shared, me, true);
        // Nobody else knows of the session yet.
        let _ = state.hold(target, link);
        Stack::new(Self(Lend::new(state)))
    }
}

impl Service<Command> for Dispatch {
    type Response = Reply;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

    /// Fails once one of the session's connections is beyond use: what the session had set there
    /// is gone with it. Where that is in a log, an idle connection is let go instead.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let state = ready!(self.0.poll_home(cx))?;
        if state.lost {
            return Poll::Ready(Err(Error::backend("the session's state was lost")));
        }
        let mut at = 0;
        while at < state.held.len() {
            match ready!(state.held[at].stack.poll_ready(cx)) {
                Ok(()) => at += 1,
                Err(error) if state.can_replace(at, &error) => state.let_go(at),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if state.held.is_empty() && Pin::new(&mut state.me.ended).poll(cx).is_ready() {
            return Poll::Ready(Err(Error::backend(Killed)));
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, command: Command) -> Self::Future {
        let mut state = self.0.lend();
        Box::pin(async move {
            let Some(target) = command.fact::<Target>().cloned() else {
                return Err(Error::filter("no filter has said which server this command goes to"));
            };
            if state.keeps_state && state.prepare(&command, &target) {
                return state.close_everywhere(&command).await;
            }
            let held = state.held.iter().position(|held| held.is_at(&target));
            let at = match held {
                Some(at) => state.again(at),
                None => {
                    state.may_open(&command)?;
                    // In a box of its own: it is large, and needed once.
                    Box::pin(state.open(target, &command)).await?
                }
            };
            let spare = state.spare(at, &command);
            match (state.run(at, command).await, spare) {
                (Err(error), Some(spare)) => Box::pin(state.recover(at, spare, error)).await,
                (Err(error), None) => {
                    state.lost |= error.cause::<CatchUpFailed>().is_some();
                    Err(error)
                }
                (reply, _) => reply,
            }
        })
    }
}

impl Held {
    fn is_at(&self, target: &Target) -> bool {
        self.target.server.id == target.server.id
    }
}

impl State {
    fn new(shared: Arc<Shared>, me: Registered, alone: bool) -> Self {
        let keeps_state = !alone && shared.chain.gives(SessionLog::NAME);
        let held = SmallVec::new();
        Self { shared, me, held, alone, keeps_state, generation: 0, last: None, lost: false }
    }

    /// Sends a command on one of the connections, which is ready for it.
    async fn run(&mut self, at: usize, command: Command) -> Result<Reply> {
        let Self { held, me, shared, alone, last, keeps_state, .. } = self;
        let one = &mut held[at];
        if *keeps_state {
            one.head = command.fact::<SessionLog>().map_or(one.head, again::head);
            *last = Some(one.target.server.id);
            match command.fact::<Tied>() {
                Some(Tied(true)) => one.tied = true,
                Some(Tied(false)) => held.iter_mut().for_each(|held| held.tied = false),
                None => {}
            }
        }
        let one = &mut held[at];
        let served_by = ServedBy(one.target.clone());
        if command.fact::<FastForward>().is_some() {
            let reply = one.stack.call(command).await?;
            if !reply.is_handover() {
                return Ok(reply.with(served_by));
            }
            let prepared = held.iter().any(|held| !held.ids.lease.prepared.is_empty());
            // The others go back to their pools.
            held.clear();
            return Ok(reply.with(served_by).with(Prepared(prepared)));
        }
        let verdict = command.fact::<RuleVerdict>().filter(|_| !*alone);
        let timeout = verdict.and_then(|verdict| verdict.timeout);
        if let Some(hostgroup) = verdict.and_then(|verdict| verdict.mirror) {
            shared.mirrors.send(hostgroup, &command, &me.entry.account);
        }
        let ran = shared.tells_statement.then(|| Ran(command.fact::<Statement>().cloned()));
        let reply = match timeout {
            None => ids::exchange(one, me, command).await,
            Some(limit) => {
                let (lease, account) = (one.ids.lease.clone(), me.entry.account.clone());
                let reply = ids::exchange(one, me, command);
                // In a box of its own: few commands have one.
                Box::pin(deadline::within(limit, lease, account, reply)).await
            }
        };
        match reply {
            Ok(reply) => {
                let reply = reply.with(served_by);
                Ok(if let Some(ran) = ran { reply.with(ran) } else { reply })
            }
            Err(_) if me.entry.killed.load(Relaxed) => Err(Error::backend(Killed)),
            Err(error) => Err(error),
        }
    }

    /// Notes that the connection is the one used last, where there are several.
    fn again(&self, at: usize) -> usize {
        if self.held.len() > 1 {
            self.me.entry.uses(&self.held[at].ids.lease);
        }
        at
    }

    /// Opens a connection to the server that is named, or to one that stands in for it, and says
    /// where it is among those held. It is ready for a command, as the others are since the last
    /// [`Dispatch::poll_ready`].
    async fn open(&mut self, target: Target, command: &Command) -> Result<usize> {
        if self.alone {
            let name = &target.server.name;
            return Err(Error::filter(format!("this session has no connection to {name}")));
        }
        let (link, target) = self.attach(target, command).await?;
        let attached = self.hold(target, link);
        let at = self.held.len() - 1;
        let ready = self.held[at].stack.ready().await.map(drop);
        if !attached {
            return Err(Error::backend(Killed));
        }
        ready.map(|()| at)
    }

    /// Keeps a connection for the session. False if the session has been ended meanwhile.
    fn hold(&mut self, target: Target, mut link: Link) -> bool {
        let lease = Arc::new(Lease::new(link.backend.clone(), link.thread_id, link.source));
        let ids = Ids::of(&link, lease.clone());
        link.lease = Some(lease.clone());
        let _attached = InUse::connection(target.server.clone());
        let stack = self.shared.chain.backend(Connection::stack(link));
        self.held.push(Held { target, stack, ids, tied: false, head: 0, _attached });
        self.me.entry.attach(lease)
    }

    /// Tries the named server, then the others of its hostgroup, again and again until the budget
    /// is used up. Nothing has been sent, so each of them is as good.
    async fn attach(&mut self, target: Target, command: &Command) -> Result<(Link, Target)> {
        let mut session = command.session().clone();
        let enters = command.asker() == LOGIN;
        if command.fact::<SessionLog>().is_some_and(|log| log.schemaless) {
            session.update(|view| view.schema = None);
        }
        let session = &session;
        let settings = &self.shared.settings;
        let started = Instant::now();
        let deadline = started + settings.connect_budget;
        loop {
            let (mut failures, mut unusable) = (Vec::new(), None);
            for candidate in candidates(&target, session) {
                let Some(backend) = self.shared.backends.get(&candidate.server) else { continue };
                match backend.attach(session, &self.me.entry.account, deadline, enters).await {
                    Ok(link) => return Ok((link, candidate)),
                    Err(error) if error.may_pass() => {
                        tracing::debug!(server = %candidate.server.name, %error, "connect failed");
                        failures.push(format!("{}: {error}", candidate.server.name));
                    }
                    Err(error) if error.is_of_the_server() => {
                        tracing::warn!(server = %candidate.server.name, %error, "cannot be used");
                        unusable.get_or_insert(refused(backend, error));
                    }
                    Err(error) => return Err(refused(backend, error)),
                }
                if Instant::now() >= deadline {
                    break;
                }
            }
            // What this one lacks it will lack again.
            if let (Some(error), true) = (unusable, failures.is_empty()) {
                return Err(error);
            }
            if Instant::now() + settings.connect_retry_delay >= deadline {
                let (group, budget) = (target.hostgroup, settings.connect_budget);
                let tried = failures.join("; ");
                let text = format!("no server of hostgroup {group} within {budget:?} ({tried})");
                return Err(Error::backend(text).with_code(code::CONNECT_BUDGET, *b"08S01"));
            }
            tokio::time::sleep(settings.connect_retry_delay).await;
        }
    }
}

fn candidates<'a>(target: &'a Target, session: &'a Session) -> impl Iterator<Item = Target> {
    let others = session.topology.hostgroup(target.hostgroup).map(|group| group.servers.iter());
    let others = others
        .into_iter()
        .flatten()
        .filter(|other| other.weight > 0 && other.id != target.server.id);
    let others = others.map(|server| Target { server: server.clone(), ..target.clone() });
    std::iter::once(target.clone()).chain(others)
}

/// A server's own error goes to the client as it is; ours says where it happened.
pub(super) fn refused(backend: &Backend, error: ConnectError) -> Error {
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
