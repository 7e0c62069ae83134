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
mod insert_id;
pub(crate) mod kill;
mod lasting;
pub(crate) mod leash;
pub(crate) mod link;
pub(crate) mod mirror;
mod noted;
mod pool;
pub(crate) mod relay;
mod release;
mod schema;
mod seat;
pub(crate) mod sessions;
mod succession;
mod tally;

use crate::{
    config::{self, Account},
    metrics::{Place, ServerMetrics},
    tls::TlsError,
};
use arc_swap::ArcSwapOption;
use chain::{HostgroupId, Server, Session, topology::ServerState};
use connect::{ConnectError, Endpoint};
pub(crate) use fleet::{Backends, Fleet};
use health::{Pulse, monitor::is_dead};
use leash::Leashes;
use pool::Pool;
pub(crate) use release::released;
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
pub(crate) use succession::resize;
use tokio::sync::Semaphore;
use wire::{auth::NONCE_LEN, capability::Capabilities, greeting::Greeting, proxy_protocol::Source};

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
    /// The connections that no session has just now.
    pool: Pool,
    /// One permit for each connection that is open, used or idle.
    room: Arc<Semaphore>,
    capacity: u32,
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

impl Key {
    /// `told`: the server is told connection attributes, which gives COM_CHANGE_USER another form.
    pub(crate) fn of(session: &Session, account: &Account, backend: &Backend, told: bool) -> Self {
        let shared = Capabilities::WIRE_FORMAT | Capabilities::BEHAVIOUR;
        // Its absence tells MariaDB that extended capabilities follow.
        let shared = shared | Capabilities::LONG_PASSWORD;
        Self {
            user: account.user.clone(),
            capabilities: (session.capabilities & shared) | tells_attributes(told),
            collation: session.collation,
            client: match identity::source(session.peer, session.destination) {
                Source::Tcp { from, .. } if backend.endpoint.sends_header => Some(from.ip()),
                _ => None,
            },
        }
    }
}

/// The capability of a login that tells attributes, if one is to.
pub(crate) fn tells_attributes(told: bool) -> Capabilities {
    if told { Capabilities::CONNECT_ATTRS } else { Capabilities::EMPTY }
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
            pool: Pool::default(),
            room: Arc::new(Semaphore::new(config.max_connections as usize)),
            capacity: config.max_connections,
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
            let (address, port) = self.address();
            self.metrics.is_at(Place { is_mariadb: greeting.is_mariadb(), address, port });
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

    /// A server that has stopped answering must not use up more than one attempt's time.
    async fn in_time<T>(
        &self,
        step: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let timeout = self.connect_timeout();
        tokio::time::timeout(timeout, step).await.unwrap_or(Err(ConnectError::Timeout(timeout)))
    }
}
