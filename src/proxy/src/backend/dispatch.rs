//! The bottom of the session's stack: the connections that the session holds.

mod again;
mod attach;
mod moved;
mod near;
mod open;
mod propagate;
pub(super) mod share;
mod told;

use super::{
    Backends, deadline,
    ids::{self, Ids},
    link::Link,
    mirror::Mirrors,
    sessions::{Killed, Registered, Sessions},
};
use crate::{
    config::{self, Account},
    session::rest,
    telemetry::Trail,
};
use arc_swap::ArcSwap;
use chain::{
    Chain, Command, Error, Reply, Result, Server, Stack,
    command::Asker,
    error::{CatchUpFailed, CatchUpKilled},
    facts::{
        Affinity, Fact, FastForward, Fresh, Lsn, Near, Orders, Pin as Pinned, ServedBy, SessionLog,
        Statement, StickyMode, Target, Tied, Unprepared,
    },
    lend::Lend,
    retry::Retry,
    topology::InUse,
};
use smallvec::SmallVec;
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};
use tower::Service;

pub(super) use attach::{available, no_server, refused};
pub(crate) use told::{Prepared, Ran};

/// Sends a command down the stack of the connection that it belongs to, and opens that first where
/// the session has none.
pub(crate) struct Dispatch(Lend<State>);

/// What all sessions of a listener share.
pub(crate) struct Shared {
    pub(crate) chain: Chain,
    pub(crate) backends: Arc<Backends>,
    /// A reload may change them.
    pub(crate) settings: Arc<ArcSwap<config::Backend>>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) mirrors: Arc<Mirrors>,
    /// Replies say what statement they are to: [`Ran`].
    pub(crate) tells_statement: Arc<AtomicBool>,
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
    /// Servers on which the session's state could not be had, and until when each is left alone.
    avoided: Vec<(u32, Retry)>,
    /// Something of the session's is gone for good.
    lost: bool,
    /// It has had a connection: a server has accepted its account.
    accepted: bool,
    /// Where the session shares its connections.
    sharing: Option<share::Sharing>,
    /// What is to be brought to others once the last command has succeeded.
    order: Option<propagate::Order>,
    /// Connections to which it is being brought.
    away: Vec<propagate::Away>,
}

/// One connection of the session, with the backend filters on top.
pub(super) struct Held {
    target: Target,
    pub(super) stack: Stack,
    pub(super) ids: Ids,
    /// What state it has that no other connection can be given.
    tied: Option<&'static str>,
    /// But the log can give it to another connection.
    again: bool,
    /// Where the log ended that it was sent last.
    head: Lsn,
    /// It has run nothing for the session yet.
    fresh: bool,
    /// Where the session shares its connections.
    shared: Option<share::Shared>,
    /// Until it is in the pool.
    attached: Option<InUse>,
}

impl Dispatch {
    /// The bottom for the session that its client knows as `id`, which logs in to servers as
    /// `account`. Whether it shares its connections with others is also for its chain to say.
    pub(crate) fn stack(shared: Arc<Shared>, account: Account, id: u32, shares: bool) -> Stack {
        let me = shared.sessions.register(id, account);
        let mut state = State::new(shared, me, false);
        if shares && state.keeps_state && state.shared.chain.shares() {
            state.sharing = Some(share::Sharing::default());
        }
        Stack::moving(Self(Lend::new(state)))
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
        ready!(state.poll_back(cx));
        let mut at = 0;
        while at < state.held.len() {
            match ready!(state.held[at].stack.poll_ready(cx)) {
                Ok(()) => at += 1,
                Err(error) if state.can_replace(at, &error) => state.let_go(at),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if rest::rests() {
            state.rest();
        }
        if state.held.is_empty() && Pin::new(&mut state.me.ended).poll(cx).is_ready() {
            return Poll::Ready(Err(Error::backend(Killed)));
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, command: Command) -> Self::Future {
        let mut state = self.0.lend();
        Box::pin(async move {
            state.me.entry.noted.note(&command);
            let Some(target) = command.fact::<Target>().cloned() else {
                return Err(Error::filter("no filter has said which server this command goes to"));
            };
            if let Some(trail) = command.trail::<Trail>()
                && command.asker() == Asker::Client
            {
                trail.dispatched(&command);
            }
            if state.keeps_state && state.prepare(&command, &target) {
                return state.close_everywhere(&command).await;
            }
            let order = state.order(&command);
            if let Some(order) = order.as_ref().filter(|_| command.asker() != Asker::Client) {
                return Ok(state.propagate_alone(order));
            }
            let target = match command.fact::<Near>() {
                // In a box of its own: few commands wait.
                Some(Near(limit)) if !target.server.standing.takes(Some(*limit)) => {
                    Box::pin(state.near(target, &command)).await?
                }
                _ => target,
            };
            let target = state.around(target, &command);
            let at = match state.held_for(&target, &command) {
                Some(at) => state.again(at),
                None => {
                    state.may_open(&command)?;
                    // In a box of its own: it is large, and needed once.
                    Box::pin(state.open(target, &command)).await?
                }
            };
            let spare = state.spare(at, &command);
            match (state.run(at, command).await, spare) {
                (Ok(reply), _) if reply.fact::<Unprepared>().is_some() => {
                    Box::pin(state.at_primary(at, reply)).await
                }
                (Err(error), _) if error.cause::<CatchUpKilled>().is_some() => {
                    Err(state.killed(at, error))
                }
                (Err(error), Some(spare)) => Box::pin(state.recover(at, spare, error)).await,
                (Err(error), None) => {
                    state.lost |= error.cause::<CatchUpFailed>().is_some();
                    Err(error)
                }
                (Ok(reply), _) => match order {
                    // In a box of its own: few chains have it.
                    Some(order) => Box::pin(state.follow(order, reply)).await,
                    None => Ok(reply),
                },
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
        Self {
            shared,
            me,
            held,
            alone,
            keeps_state,
            generation: 0,
            last: None,
            avoided: Vec::new(),
            lost: false,
            accepted: false,
            sharing: None,
            order: None,
            away: Vec::new(),
        }
    }

    /// Sends a command on one of the connections, which is ready for it.
    async fn run(&mut self, at: usize, mut command: Command) -> Result<Reply> {
        let Self { held, last, keeps_state, .. } = self;
        let one = &mut held[at];
        let before = one.head;
        if *keeps_state {
            // Another may stand in for the server that was named.
            if command.fact::<Target>().is_none_or(|target| !one.is_at(target)) {
                command.note(one.target.clone());
            }
            one.head = command.fact::<SessionLog>().map_or(one.head, again::head);
            one.ids.lease.head.store(one.head, Relaxed);
            *last = Some(one.target.server.id);
            match command.fact::<Tied>() {
                Some(Tied { by: by @ Some(_), again, .. }) => {
                    (one.tied, one.again) = (*by, *again);
                }
                Some(Tied { by: None, .. }) => held.iter_mut().for_each(|held| held.tied = None),
                None => {}
            }
        }
        // In a box of its own: few sessions share.
        let rewrite = match self.sharing {
            Some(_) => match Box::pin(self.begin(at, &mut command)).await {
                Ok(rewrite) => rewrite,
                Err(error) => {
                    // Nothing of it was sent.
                    self.held[at].head = before;
                    return Err(error);
                }
            },
            None => None,
        };
        let session = rewrite.as_ref().map(|_| command.session().clone());
        let Self { held, me, shared, alone, keeps_state, sharing, .. } = self;
        let one = &mut held[at];
        // What a connection has known of one that is shared is known all the same.
        let fresh = std::mem::take(&mut one.fresh) && *keeps_state && sharing.is_none();
        let served_by = ServedBy(one.target.clone());
        if command.fact::<FastForward>().is_some() {
            one.introduce(&mut command);
            let reply = one.stack.call(command).await?;
            if !reply.is_handover() {
                return Ok(reply.with(served_by));
            }
            let prepared = held.iter().any(|held| !held.ids.lease.prepared.is_empty());
            // The others go back to their pools.
            held.clear();
            return Ok(reply.with(served_by).with(Prepared(prepared)));
        }
        let orders = if *alone { Orders::default() } else { Orders::of(&command) };
        if let Some(hostgroup) = orders.mirror {
            shared.mirrors.send(hostgroup, &command, &me.entry.account());
        }
        let ran =
            shared.tells_statement.load(Relaxed).then(|| Ran(command.fact::<Statement>().cloned()));
        let reply = match orders.timeout {
            None => ids::exchange(one, me, command).await,
            Some(limit) => {
                let (lease, account) = (one.ids.lease.clone(), Account::clone(&me.entry.account()));
                let reply = ids::exchange(one, me, command);
                // In a box of its own: few commands have one.
                Box::pin(deadline::within(limit, lease, account, reply)).await
            }
        };
        match reply {
            Ok(reply) => {
                let reply = match (rewrite, session) {
                    (Some(rewrite), Some(session)) => ids::restored(reply, rewrite, &session),
                    _ => reply,
                };
                let reply = reply.with(served_by);
                let reply = if let Some(ran) = ran { reply.with(ran) } else { reply };
                Ok(if fresh { reply.with(Fresh) } else { reply })
            }
            Err(_) if me.entry.killed.load(Relaxed) => Err(Error::backend(Killed)),
            Err(error) => Err(error),
        }
    }

    /// The connection that a command for `target` runs on, if the session has one that may be used.
    /// A server that gets no new work keeps what has begun there, and what cannot be had elsewhere.
    fn held_for(&mut self, target: &Target, command: &Command) -> Option<usize> {
        let at = self.held.iter().position(|held| held.is_at(target));
        let takes = |server: &Server| server.standing.takes(None);
        if takes(&target.server) {
            return at;
        }
        let stays = |held: &Held| {
            held.tied.is_some()
                || held.ids.lease.in_transaction.load(Relaxed)
                || command.session().in_transaction()
                || command.fact::<Pinned>().is_some()
        };
        match at {
            Some(at) if !self.keeps_state || self.alone || stays(&self.held[at]) => {
                return Some(at);
            }
            Some(at) => self.let_go(at),
            None => {}
        }
        let strict = |affinity: &Affinity| affinity.mode == StickyMode::Strict;
        if command.fact::<Affinity>().is_some_and(strict) {
            return None;
        }
        // One that the session has already stands in for it.
        self.held.iter().position(|held| {
            held.target.hostgroup == target.hostgroup && takes(&held.target.server)
        })
    }

    /// Notes that the connection is the one used last, where there are several.
    fn again(&self, at: usize) -> usize {
        if self.held.len() > 1 {
            self.me.entry.uses(&self.held[at].ids.lease);
        }
        at
    }
}
