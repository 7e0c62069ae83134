//! The connections to one server that no session has just now, and those who wait for one.
//!
//! Some are clean: as after a login. Others are parked: with all that a session has set there, for
//! that session to come back to, or for another one in the same state.

mod idle;
mod waiting;

use super::{
    Backend, Key,
    connect::{self, ConnectError},
    dispatch::share::{Need, Parked},
    identity,
    link::Link,
    schema::Schema,
    seat::Seat,
};
use crate::config::Account;
use bytes::Bytes;
use chain::Session;
pub(super) use idle::Fit;
use idle::{Idle, Kind};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::OwnedSemaphorePermit;
use waiting::{Ticket, Waiter};
use wire::attributes::Attributes;

/// What no session has, and who waits.
#[derive(Default)]
pub(super) struct Pool(Mutex<State>);

/// Locked when a session takes its connection and when it gives it back, never in between.
#[derive(Default)]
struct State {
    /// In the order in which they came.
    idle: Vec<Idle>,
    /// In the order in which they came: whoever came first gets what comes first.
    waiting: VecDeque<Waiter>,
    next: u64,
    closed: bool,
}

/// A connection for a session.
pub(super) enum Got {
    /// Without anything of a session's.
    Clean(Box<Link>),
    /// With what a session has set, this one or another.
    Parked(Box<Parked>),
}

/// Whose connection is asked for, and what it must be like.
pub(super) struct Want<'a> {
    pub(super) session: &'a Session,
    pub(super) account: &'a Account,
    /// The command that it is for takes it into the session's schema.
    pub(super) enters: bool,
    /// What the session takes of others; `None` if it shares nothing.
    pub(super) need: Option<Need>,
    /// It is to be one that nobody has had before.
    pub(super) unused: bool,
    /// The connection attributes that the server is told; `None` for none.
    pub(super) told: Option<&'a Attributes>,
}

impl Backend {
    /// A connection for a session: an idle one that fits, or a new one. A clean one is in the state
    /// of a session that has just logged in. `deadline` bounds the wait for room among the server's
    /// connections.
    pub(super) async fn attach(
        self: &Arc<Self>,
        want: &Want<'_>,
        deadline: Instant,
    ) -> Result<Got, ConnectError> {
        let Want { session, account, enters, told, .. } = *want;
        let schema = session.schema.as_ref().filter(|_| !enters);
        let key = Key::of(session, account, self, told.is_some());
        let attributes = told.cloned().unwrap_or_default();
        if want.unused {
            let room = self.room(deadline).await?;
            return self.open(want, (key, attributes), room).await;
        }
        loop {
            let ticket = match self.take(&key, want, &attributes) {
                Ok(got) => match self.refresh(got, want, &attributes, schema).await? {
                    Some(got) => return Ok(got),
                    None => continue,
                },
                Err(ticket) => ticket,
            };
            let room = match self.wait(ticket, deadline).await? {
                Turn::Room(room) => room,
                Turn::Given(got) => match self.refresh(got, want, &attributes, schema).await? {
                    Some(got) => return Ok(got),
                    None => continue,
                },
            };
            return self.open(want, (key, attributes), room).await;
        }
    }

    /// A new connection.
    async fn open(
        self: &Arc<Self>,
        want: &Want<'_>,
        (key, attributes): (Key, Attributes),
        room: OwnedSemaphorePermit,
    ) -> Result<Got, ConnectError> {
        let Want { session, account, enters, .. } = *want;
        let schema = session.schema.as_ref().filter(|_| !enters);
        let source = identity::source(session.peer, session.destination);
        let opened = connect::open(self, key, account, source, attributes, room);
        let opened = self.in_time(opened).await;
        self.met(&opened);
        let mut link = opened?;
        self.in_time(link.begin(schema)).await?;
        Ok(Got::Clean(Box::new(link)))
    }

    /// Makes a connection that was idle the session's. `None` if it has gone meanwhile: then there
    /// is another, or room for a new one.
    async fn refresh(
        &self,
        got: Got,
        want: &Want<'_>,
        attributes: &Attributes,
        schema: Option<&Bytes>,
    ) -> Result<Option<Got>, ConnectError> {
        let mut link = match got {
            Got::Parked(mut parked) => {
                if !parked.is_alive() {
                    return Ok(None);
                }
                if !want.need.as_ref().is_some_and(|need| parked.is_for_owner(need))
                    && parked.owes()
                {
                    // Whoever had it has nothing to wait for in the meantime.
                    return Ok(parked.told(want.session).await.map(Got::Parked));
                }
                return Ok(Some(Got::Parked(parked)));
            }
            Got::Clean(link) => link,
        };
        if link.has_news() || link.leash.is_cut() {
            return Ok(None);
        }
        if !link.fits(want.session, attributes) {
            match self.in_time(link.log_in_anew(want.account, attributes.clone())).await {
                Ok(()) => {}
                // A login of its own shows what is wrong with the account. Each that fails may count
                // against it, but no more of them than there are idle connections.
                Err(_) => return Ok(None),
            }
        }
        match self.in_time(link.begin(schema)).await {
            Ok(()) => Ok(Some(Got::Clean(link))),
            // It went away while it was idle: the next one, or a new one.
            Err(ConnectError::Io(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The idle connection that fits best, or a place among those who wait for one. If there is no
    /// room for one more, an idle connection of another kind makes way.
    fn take(&self, key: &Key, want: &Want<'_>, attributes: &Attributes) -> Result<Got, Ticket<'_>> {
        let schema = want.session.schema.clone().map_or(Schema::None, Schema::Named);
        let (mut spent, mut pool) = (Vec::new(), self.pool.lock());
        loop {
            let fitting = pool.idle.iter().enumerate();
            let fitting = fitting
                .filter_map(|(at, idle)| Some((idle.rank(key, want, attributes, &schema)?, at)));
            let Some((_, at)) = fitting.max() else { break };
            let idle = pool.idle.remove(at);
            if !self.is_spent(&idle) {
                drop(pool);
                return Ok(idle.kind.into());
            }
            spent.push(idle);
        }
        let full = self.room.available_permits() == 0;
        if full && !pool.idle.is_empty() {
            spent.push(pool.idle.remove(0));
        }
        let ticket = Ticket::new(&self.pool, &mut pool, Some(key.clone()), want.need.clone());
        drop(pool);
        // Not before the lock is free: one that was parked comes back, clean.
        drop(spent);
        Err(ticket)
    }

    /// A place among the connections that the server may have, for one that nobody had before. An
    /// idle connection makes way for it.
    pub(super) async fn room(
        &self,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, ConnectError> {
        if let Ok(room) = self.room.clone().try_acquire_owned() {
            return Ok(room);
        }
        let (_ticket, way) = {
            let mut pool = self.pool.lock();
            let way = (!pool.idle.is_empty()).then(|| pool.idle.remove(0));
            (Ticket::new(&self.pool, &mut pool, None, None), way)
        };
        drop(way);
        let room = tokio::time::timeout_at(deadline.into(), self.room.clone().acquire_owned());
        Ok(room.await.map_err(|_| ConnectError::Full(self.capacity))??)
    }

    /// Waits for room, or for an idle connection, until the deadline.
    async fn wait(&self, mut ticket: Ticket<'_>, deadline: Instant) -> Result<Turn, ConnectError> {
        let room = async {
            tokio::select! {
                biased;
                given = ticket.given() => Ok(Turn::Given(given?)),
                room = self.room.clone().acquire_owned() => Ok(Turn::Room(room?)),
            }
        };
        let waited = tokio::time::timeout_at(deadline.into(), room).await;
        match waited {
            // One that has come in the same moment is not left.
            Ok(Ok(Turn::Room(_))) | Err(_) if let Some(given) = ticket.last_look() => {
                Ok(Turn::Given(given))
            }
            Ok(turn) => turn,
            Err(_) => Err(ConnectError::Full(self.capacity)),
        }
    }

    /// Keeps a clean connection for the next session; gives it back if there are enough.
    pub(super) fn put_idle(&self, link: Link) -> Option<Link> {
        match self.put(Got::Clean(Box::new(link))) {
            Some(Got::Clean(link)) => Some(*link),
            _ => None,
        }
    }

    /// Keeps a connection with what a session has set there; gives it back if nobody may have it.
    pub(super) fn park(&self, parked: Box<Parked>) -> Option<Box<Parked>> {
        match self.put(Got::Parked(parked)) {
            Some(Got::Parked(parked)) => Some(parked),
            _ => None,
        }
    }

    /// Takes the connection with this place, if no session has it.
    pub(super) fn take_back(&self, seat: &Arc<Seat>) -> Option<Box<Parked>> {
        let mut pool = self.pool.lock();
        let at = pool.idle.iter().position(|idle| idle.kind.is_at(seat))?;
        match pool.idle.remove(at).kind {
            Kind::Parked(parked) => Some(parked),
            Kind::Clean(_) => None,
        }
    }

    fn put(&self, got: Got) -> Option<Got> {
        let mut pool = self.pool.lock();
        if pool.closed || got.is_cut() || !self.keeps_idle() {
            return Some(got);
        }
        let got = pool.offer(got)?;
        // Those who wait for one of another kind need its place.
        let kept = self.settings.pool_max_idle as usize;
        let full = !got.is_owned() && pool.forsaken() >= kept;
        if full || pool.waits() && self.room.available_permits() == 0 {
            return Some(got);
        }
        pool.idle.push(Idle { kind: got.into(), since: Instant::now() });
        None
    }

    /// Removes idle connections that are too old, were idle too long, were closed by the server, or
    /// have no session any more and are too many.
    pub(crate) fn tidy(&self) -> Vec<Link> {
        let mut pool = self.pool.lock();
        let keeps = self.keeps_idle();
        let mut surplus = pool.forsaken().saturating_sub(self.settings.pool_max_idle as usize);
        let gone: Vec<_> = pool
            .idle
            .extract_if(.., |idle| {
                let many = surplus > 0 && !idle.kind.is_owned();
                surplus -= usize::from(many);
                !keeps || many || self.is_spent(idle) || !idle.kind.is_alive()
            })
            .collect();
        drop(pool);
        gone.into_iter().filter_map(|idle| idle.kind.clean()).collect()
    }

    /// Takes all idle connections, for good: the proxy is about to end. Those that were parked come
    /// back, and are given back here.
    pub(crate) fn close(&self) -> Vec<Link> {
        self.room.close();
        self.spare.close();
        let mut pool = self.pool.lock();
        pool.closed = true;
        pool.waiting.clear();
        let idle = std::mem::take(&mut pool.idle);
        drop(pool);
        idle.into_iter().filter_map(|idle| idle.kind.clean()).collect()
    }

    /// Connections that there may be, used and idle.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Connections that no session has just now.
    pub(crate) fn idle(&self) -> usize {
        self.pool.lock().idle.len()
    }

    fn is_spent(&self, idle: &Idle) -> bool {
        idle.since.elapsed() > self.settings.pool_max_idle_time
            || idle.kind.opened().elapsed() > self.settings.pool_max_age
    }
}

/// What a wait has come to.
enum Turn {
    /// There may be one more.
    Room(OwnedSemaphorePermit),
    /// Somebody has let go of one that fits.
    Given(Got),
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while locked leaves lists of whole connections.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Clean connections, and those whose session has ended.
    fn forsaken(&self) -> usize {
        self.idle.iter().filter(|idle| !idle.kind.is_owned()).count()
    }
}
