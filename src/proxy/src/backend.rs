//! Servers: how they are reached, which connections to them are free.

pub(crate) mod connect;
pub(crate) mod connection;
mod deadline;
pub(crate) mod dedicated;
pub(crate) mod dispatch;
mod fleet;
mod gate;
pub(crate) mod health;
pub(crate) mod identity;
mod ids;
pub(crate) mod kill;
mod lasting;
pub(crate) mod leash;
pub(crate) mod link;
pub(crate) mod mirror;
pub(crate) mod relay;
mod release;
mod schema;
pub(crate) mod sessions;
mod succession;
mod tally;

use crate::{
    config::{self, Account},
    metrics::ServerMetrics,
    tls::TlsError,
};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use chain::{HostgroupId, Server, Session, topology::ServerState};
use connect::{ConnectError, Endpoint};
pub(crate) use fleet::{Backends, Fleet};
use health::{Pulse, monitor::is_dead};
use identity::attributes;
use leash::Leashes;
use link::Link;
use schema::Schema;
use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
pub(crate) use succession::resize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use wire::{
    attributes::Attributes, auth::NONCE_LEN, capability::Capabilities, greeting::Greeting,
    proxy_protocol::Source,
};

/// One server of one hostgroup, and the connections to it that nobody uses.
pub(crate) struct Backend {
    pub(crate) server: Arc<Server>,
    pub(crate) hostgroup: HostgroupId,
    pub(crate) metrics: ServerMetrics,
    endpoint: Endpoint,
    /// How the server last greeted a connection, without what differs from one to the next.
    greeted: ArcSwapOption<Greeting>,
    /// It was there when it was last tried.
    answered: AtomicBool,
    settings: config::Backend,
    /// Locked when a session takes its connection and when it gives it back, never in between.
    idle: Mutex<Vec<Idle>>,
    /// One permit for each connection that is open, used or idle.
    room: Arc<Semaphore>,
    capacity: u32,
    /// Tells those who wait for room that there is one more idle connection.
    returned: Notify,
    /// Permits for connections that run one KILL, beyond those of `room`: what holds all of these
    /// may be what has to be killed.
    spare: Arc<Semaphore>,
    /// All connections that are open.
    leashes: Arc<Leashes>,
    pulse: Pulse,
    /// Another one has taken its place, or it has left the configuration: its connections are not
    /// kept when nobody uses them.
    retired: AtomicBool,
}

/// What must be equal for a session to take over another's connection: the account, and every
/// property of the handshake that cannot be changed later or that changes replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) user: Arc<str>,
    pub(crate) capabilities: Capabilities,
    pub(crate) collation: u16,
    /// The client's host, where the server was told it by a header: it goes by that.
    pub(crate) client: Option<IpAddr>,
}

struct Idle {
    link: Link,
    since: Instant,
}

impl Key {
    pub(crate) fn of(session: &Session, account: &Account, backend: &Backend) -> Self {
        let shared = Capabilities::WIRE_FORMAT | Capabilities::BEHAVIOUR;
        // Its absence tells MariaDB that extended capabilities follow.
        let shared = shared | Capabilities::LONG_PASSWORD;
        Self {
            user: account.user.clone(),
            capabilities: session.capabilities & shared,
            collation: session.collation,
            client: match identity::source(session.peer, session.destination) {
                Source::Tcp { from, .. } if backend.endpoint.sends_header => Some(from.ip()),
                _ => None,
            },
        }
    }
}

impl Backend {
    /// The server that `config` describes.
    pub(crate) fn new(
        server: Arc<Server>,
        config: &config::Server,
        settings: &config::Backend,
        tcp: &config::Tcp,
        metrics: ServerMetrics,
        (pulse, leashes): (Pulse, Arc<Leashes>),
    ) -> Result<Self, TlsError> {
        Ok(Self {
            endpoint: Endpoint::new(config, tcp)?,
            greeted: ArcSwapOption::empty(),
            answered: AtomicBool::new(false),
            hostgroup: HostgroupId(config.hostgroup),
            settings: settings.clone(),
            idle: Mutex::default(),
            room: Arc::new(Semaphore::new(config.max_connections as usize)),
            capacity: config.max_connections,
            returned: Notify::new(),
            spare: Arc::new(Semaphore::new(kill::SPARE)),
            leashes,
            pulse,
            retired: AtomicBool::new(false),
            server,
            metrics,
        })
    }

    /// How the server greets, if that is known.
    pub(crate) fn known_greeting(&self) -> Option<Arc<Greeting>> {
        self.greeted.load_full()
    }

    /// Notes how the server has greeted a connection: after an upgrade it is another.
    fn note_greeting(&self, greeting: &Greeting) {
        let greeting = Greeting { nonce: [0; NONCE_LEN], thread_id: 0, ..greeting.clone() };
        if self.greeted.load().as_ref().is_none_or(|known| **known != greeting) {
            tracing::info!(server = %self.server.name, version = greeting.version(), "greeted");
            self.server.profile.set(&greeting.version());
            self.greeted.store(Some(Arc::new(greeting)));
        }
    }

    /// Whether it was there when it was last tried.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered.load(Relaxed)
    }

    /// Notes whether an attempt has found it there. What a server refuses, it has answered.
    fn tried<T>(&self, attempt: &Result<T, ConnectError>) {
        let failed = matches!(attempt, Err(ConnectError::Io(_) | ConnectError::Timeout(_)));
        self.answered.store(!failed, Relaxed);
    }

    /// Reads the certificates again, if they have changed or that is asked for.
    pub(crate) fn renew(&self, asked: bool) {
        self.endpoint.renew(asked);
    }

    /// Where it is, as configured: host and port, or a path.
    pub(crate) fn address(&self) -> (String, Option<u16>) {
        self.endpoint.place()
    }

    /// How long one attempt to connect may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.settings.connect_timeout
    }

    /// Whether a statement is killed whose client has gone.
    pub(crate) fn kills_abandoned(&self) -> bool {
        self.settings.kill_abandoned
    }

    /// A connection in the state of a session that has just logged in: an idle one that fits, or a
    /// new one. `deadline` bounds the wait for room among the server's connections. `enters`: the
    /// command that it is for takes it into the session's schema.
    pub(crate) async fn attach(
        self: &Arc<Self>,
        session: &Session,
        account: &Account,
        deadline: Instant,
        enters: bool,
    ) -> Result<Link, ConnectError> {
        let schema = session.schema.as_ref().filter(|_| !enters);
        let source = identity::source(session.peer, session.destination);
        let (key, attributes) = (Key::of(session, account, self), attributes(session));
        let room = loop {
            // Made before the look at the idle ones, so that none comes back unseen.
            let returned = self.returned.notified();
            let reused = self.reuse(&key, session, account, &attributes, schema).await?;
            if let Some(link) = reused {
                return Ok(link);
            }
            if let Some(room) = self.room(deadline, returned).await? {
                break room;
            }
        };
        let opened = connect::open(self, key, account, source, attributes, room);
        let opened = self.in_time(opened).await;
        self.met(&opened);
        let mut link = opened?;
        self.in_time(link.begin(schema)).await?;
        Ok(link)
    }

    /// Notes how an attempt to connect has ended.
    fn met<T>(&self, attempt: &Result<T, ConnectError>) {
        self.metrics.connected(attempt.is_ok());
        self.tried(attempt);
        match attempt {
            Ok(_) => self.pulse.reached(),
            Err(error) if is_dead(error) => self.pulse.unreachable(format!("connect: {error}")),
            Err(_) => {}
        }
    }

    /// A connection was lost in the middle of a command.
    fn suspect(&self) {
        self.pulse.suspect();
    }

    /// Whether the server may have connections that nobody uses: it is in use.
    fn keeps_idle(&self) -> bool {
        let standing = &self.server.standing;
        let retired = self.retired.load(Relaxed);
        !retired && standing.is_member() && standing.state() < ServerState::OfflineSoft
    }

    /// Why the server gets no new work, or that it does.
    pub(crate) fn describe(&self) -> String {
        self.pulse.describe(&self.server.standing)
    }

    /// An idle connection that fits, in the state of a session that has just logged in.
    async fn reuse(
        &self,
        key: &Key,
        session: &Session,
        account: &Account,
        attributes: &Attributes,
        schema: Option<&Bytes>,
    ) -> Result<Option<Link>, ConnectError> {
        while let Some(mut link) = self.take_idle(key, session, attributes) {
            if !link.fits(session, attributes) {
                match self.in_time(link.log_in_anew(account, attributes.clone())).await {
                    Ok(()) => {}
                    // A login of its own shows what is wrong with the account. Each that fails may
                    // count against it, so there is no second one like this.
                    Err(ConnectError::Refused(_)) => break,
                    Err(_) => continue,
                }
            }
            match self.in_time(link.begin(schema)).await {
                Ok(()) => return Ok(Some(link)),
                // It went away while it was idle: the next one, or a new one.
                Err(ConnectError::Io(_)) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(None)
    }

    /// A server that has stopped answering must not use up more than one attempt's time.
    async fn in_time<T>(
        &self,
        step: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let timeout = self.connect_timeout();
        tokio::time::timeout(timeout, step).await.unwrap_or(Err(ConnectError::Timeout(timeout)))
    }

    /// A place among the connections that the server may have. An idle connection of another kind
    /// makes way for one that is needed. `None` if one was `returned` in the meantime, which may
    /// fit.
    async fn room(
        &self,
        deadline: Instant,
        returned: impl Future<Output = ()>,
    ) -> Result<Option<OwnedSemaphorePermit>, ConnectError> {
        if let Ok(permit) = self.room.clone().try_acquire_owned() {
            return Ok(Some(permit));
        }
        drop(self.lock_idle().pop());
        let room = async {
            tokio::select! {
                permit = self.room.clone().acquire_owned() => Ok(Some(permit?)),
                () = returned => Ok(None),
            }
        };
        let waited = tokio::time::timeout_at(deadline.into(), room).await;
        waited.unwrap_or(Err(ConnectError::Full(self.capacity)))
    }

    /// Takes the idle connection that fits best: one that has said the same attributes before one
    /// that has to log in anew for them, then one that has the session's schema already; among
    /// equals the one used last.
    fn take_idle(&self, key: &Key, session: &Session, attributes: &Attributes) -> Option<Link> {
        let schema = session.schema.clone().map_or(Schema::None, Schema::Named);
        let mut idle = self.lock_idle();
        loop {
            let fitting = idle.iter().enumerate().filter(|(_, one)| one.link.key == *key);
            let best = fitting.max_by_key(|(at, Idle { link, .. })| {
                (link.attributes == *attributes, link.schema == schema, *at)
            });
            let (at, _) = best?;
            let Idle { link, since } = idle.remove(at);
            if !self.is_spent(&link, since) && !link.has_news() && !link.leash.is_cut() {
                return Some(link);
            }
        }
    }

    /// Keeps a clean connection for the next session; gives it back if there are enough.
    pub(crate) fn put_idle(&self, link: Link) -> Option<Link> {
        let mut idle = self.lock_idle();
        let full = idle.len() >= self.settings.pool_max_idle as usize;
        if full || self.room.is_closed() || link.leash.is_cut() || !self.keeps_idle() {
            return Some(link);
        }
        idle.push(Idle { link, since: Instant::now() });
        self.returned.notify_waiters();
        None
    }

    /// Removes idle connections that are too old, were idle too long, or were closed by the server.
    pub(crate) fn tidy(&self) -> Vec<Link> {
        let mut idle = self.lock_idle();
        let keeps = self.keeps_idle();
        let gone = idle.extract_if(.., |one| {
            let Idle { link, since } = one;
            !keeps || self.is_spent(link, *since) || link.leash.is_cut() || link.has_news()
        });
        gone.map(|one| one.link).collect()
    }

    /// Takes all idle connections, for good: the proxy is about to end.
    pub(crate) fn close(&self) -> Vec<Link> {
        self.room.close();
        self.spare.close();
        self.lock_idle().drain(..).map(|one| one.link).collect()
    }

    /// Connections that nobody uses.
    pub(crate) fn idle(&self) -> usize {
        self.lock_idle().len()
    }

    fn is_spent(&self, link: &Link, since: Instant) -> bool {
        since.elapsed() > self.settings.pool_max_idle_time
            || link.opened.elapsed() > self.settings.pool_max_age
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        // A panic while locked leaves a list of whole connections.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
