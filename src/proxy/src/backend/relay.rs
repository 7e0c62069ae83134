//! Connections on which clients log in by themselves: the server's greeting comes first, the login
//! is the client's, and the connection is one session's for as long as it is open.

mod home;

pub(crate) use home::{Home, WayHome};

use super::{
    Backend, Backends, Key,
    connect::{ConnectError, LIMIT, Vendor, secured, send},
    dispatch::{available, no_server},
    identity,
    lasting::Lasting,
    leash::Leash,
    link::{Link, read_message},
    schema::Schema,
    tells_attributes,
};
use crate::{
    config::{self, Account},
    stream::Stream,
};
use bytes::{Bytes, BytesMut};
use chain::{Error, Hostgroup, Session, topology::InUse};
use std::{pin::pin, sync::Arc, time::Instant};
use tokio::sync::OwnedSemaphorePermit;
use wire::{
    auth::{Channel, Secret},
    capability::Capabilities,
    command::ChangeUser,
    compress::{End, Method},
    err::ErrPacket,
    greeting::Greeting,
    login::LoginRequest,
    proxy_protocol::Source,
};

/// A connection whose server has greeted, and on which nobody is logged in.
pub(crate) struct Met {
    pub(crate) greeting: Greeting,
    pub(crate) backend: Arc<Backend>,
    io: Stream,
    read: BytesMut,
    /// The sequence id of the next packet to the server.
    seq: u8,
    source: Source,
    compression: Option<Method>,
    /// What the login says.
    capabilities: Capabilities,
    leash: Leash,
    room: OwnedSemaphorePermit,
}

/// A connection of which nothing has been read.
pub(crate) struct Reached {
    pub(crate) io: Stream,
    pub(crate) leash: Leash,
    _attached: InUse,
    _room: OwnedSemaphorePermit,
}

/// The server's half of an authentication that a client goes through.
pub(crate) struct Far<'a> {
    io: &'a mut Stream,
    read: &'a mut BytesMut,
    /// The sequence id of the next packet to the server.
    seq: &'a mut u8,
    /// What the first response goes in.
    opening: Option<Opening>,
}

/// What an authentication begins with.
enum Opening {
    Login(LoginRequest),
    Change(ChangeUser, Capabilities),
}

/// Why no server has greeted.
pub(crate) enum Unmet {
    /// One has refused, in its own words.
    Refused(ErrPacket),
    Failed(Error),
}

impl Backends {
    /// Connects for whoever `source` says to the server of the hostgroup that has the fewest
    /// sessions for its weight, else to the others, again and again until the budget is used up or
    /// one of them says no.
    pub(crate) async fn greet(
        &self,
        group: &Hostgroup,
        settings: &config::Backend,
        source: Source,
    ) -> Result<Met, Unmet> {
        self.first(group, settings, source, async |to, source, deadline| {
            to.greet(source, deadline).await
        })
        .await
    }

    /// Connects to a server of the hostgroup, chosen in the same way, and reads nothing.
    pub(crate) async fn reach(
        &self,
        group: &Hostgroup,
        settings: &config::Backend,
        source: Source,
    ) -> Result<Reached, Unmet> {
        self.first(group, settings, source, async |to, source, deadline| {
            to.reach(source, deadline).await
        })
        .await
    }

    async fn first<T>(
        &self,
        group: &Hostgroup,
        settings: &config::Backend,
        source: Source,
        attempt: impl AsyncFn(&Arc<Backend>, Source, Instant) -> Result<T, ConnectError>,
    ) -> Result<T, Unmet> {
        let deadline = Instant::now() + settings.connect_budget;
        loop {
            let health = self.health();
            let mut changed = pin!(health.changed());
            // From here on no change goes by unseen.
            changed.as_mut().enable();
            let mut servers = available(group, None, health.is_monitored());
            servers.sort_by_key(|server| {
                u64::from(server.load.attached()) * 1000 / u64::from(server.weight())
            });
            let (mut refusal, mut failures) = (None, Vec::new());
            for backend in servers.iter().filter_map(|server| self.get(server)) {
                match attempt(&backend, source, deadline).await {
                    Ok(greeted) => return Ok(greeted),
                    Err(ConnectError::Refused(error)) => refusal = Some(error),
                    Err(error) => failures.push((backend.server.id, error.to_string())),
                }
            }
            if let Some(refusal) = refusal {
                return Err(Unmet::Refused(refusal));
            }
            let nobody = || {
                let budget = settings.connect_budget;
                Unmet::Failed(no_server(self, Some(group), group.id, budget, &failures))
            };
            if servers.is_empty() {
                let waited = tokio::time::timeout_at(deadline.into(), changed).await;
                waited.map_err(|_| nobody())?;
                continue;
            }
            if Instant::now() + settings.connect_retry_delay >= deadline {
                return Err(nobody());
            }
            // A change may bring one that does better.
            let _ = tokio::time::timeout(settings.connect_retry_delay, changed).await;
        }
    }
}

impl Backend {
    async fn reach(
        self: &Arc<Self>,
        source: Source,
        deadline: Instant,
    ) -> Result<Reached, ConnectError> {
        let room = self.room(deadline).await?;
        let leash = self.leashes.tie();
        let io = self.in_time(async { Ok(self.endpoint.connect(source).await?) }).await;
        self.met(&io);
        let attached = InUse::connection(self.server.clone());
        Ok(Reached { io: io?, leash, _attached: attached, _room: room })
    }

    async fn greet(
        self: &Arc<Self>,
        source: Source,
        deadline: Instant,
    ) -> Result<Met, ConnectError> {
        let room = self.room(deadline).await?;
        let leash = self.leashes.tie();
        let timeout = self.connect_timeout();
        let greeted = async {
            let mut io = self.endpoint.connect(source).await?;
            let mut read = BytesMut::new();
            let message = read_message(&mut io, &mut read, LIMIT).await?;
            let greeting = Greeting::decode(&message.payload())?;
            let (backend, seq) = (self.clone(), message.next_seq);
            let capabilities = Capabilities::EMPTY;
            let compression = None;
            Ok(Met {
                greeting,
                backend,
                io,
                read,
                seq,
                source,
                compression,
                capabilities,
                leash,
                room,
            })
        };
        let greeted = tokio::time::timeout(timeout, greeted).await;
        let greeted = greeted.unwrap_or(Err(ConnectError::Timeout(timeout)));
        if greeted.is_err() {
            self.met(&greeted);
        }
        greeted
    }
}

impl Met {
    /// Makes of the client's login the one for the server: this hop has TLS and compression of its
    /// own. TLS begins here, if both sides want it.
    /// `told`: the server is told connection attributes, whether the client has any or not.
    pub(crate) async fn prepare(
        &mut self,
        login: &mut LoginRequest,
        told: bool,
    ) -> Result<(), ConnectError> {
        let theirs = self.greeting.capabilities;
        let hop = Capabilities::COMPRESS
            .union(Capabilities::ZSTD_COMPRESSION_ALGORITHM)
            .union(Capabilities::SSL);
        login.capabilities = login.capabilities.intersection(theirs).difference(hop);
        let told = theirs.intersection(tells_attributes(told));
        login.capabilities = login.capabilities.union(told);
        let offered = |method: &Method| theirs.contains(method.capability());
        self.compression = self.backend.endpoint.compression.filter(offered);
        if let Some(method) = self.compression {
            login.capabilities = login.capabilities.union(method.capability());
            login.zstd_level = method.level();
        }
        self.capabilities = login.capabilities;
        let io = std::mem::replace(&mut self.io, Stream::Closed);
        (self.io, self.seq) = secured(&self.backend, io, &self.greeting, login, self.seq).await?;
        Ok(())
    }

    /// What the way to the server lets others see.
    pub(crate) fn channel(&self) -> Channel {
        self.io.channel()
    }

    /// Begins the client's authentication with this login.
    pub(crate) fn log_in(&mut self, login: LoginRequest) -> Far<'_> {
        let opening = Some(Opening::Login(login));
        Far { io: &mut self.io, read: &mut self.read, seq: &mut self.seq, opening }
    }

    /// The session's connection, now that its client is logged in.
    pub(crate) fn enter(mut self, session: &Session, account: &Account, home: &Home) -> Link {
        self.backend.met(&Ok(()));
        if let Some(method) = self.compression {
            self.io.compress(method, End::Client(session.capabilities), self.read);
        }
        let mariadb = self.greeting.is_mariadb();
        let told = self.capabilities.contains(Capabilities::CONNECT_ATTRS);
        Link {
            io: self.io,
            key: Key::of(session, account, &self.backend, told),
            account: account.clone(),
            source: self.source,
            vendor: if mariadb { Vendor::MariaDb } else { Vendor::MySql },
            version: sql::Server::from_version(&self.greeting.version()),
            nonce: self.greeting.nonce,
            plugin: self.greeting.plugin,
            capabilities: self.capabilities,
            attributes: identity::attributes(session),
            seat: Arc::default(),
            lasting: Lasting::of(session.capabilities),
            thread_id: self.greeting.thread_id,
            schema: Schema::Unknown,
            opened: Instant::now(),
            was_reset: false,
            is_named: false,
            home: Some(home.way()),
            backend: self.backend,
            leash: self.leash,
            _room: self.room,
        }
    }
}

impl<'a> Far<'a> {
    /// Begins an authentication on the session's connection. `read` and `seq` are for its time
    /// alone.
    pub(crate) fn change(
        link: &'a mut Link,
        change: ChangeUser,
        read: &'a mut BytesMut,
        seq: &'a mut u8,
    ) -> Self {
        let opening = Some(Opening::Change(change, link.capabilities));
        Self { io: &mut link.io, read, seq, opening }
    }

    /// Sends the client's response; the first one within what the authentication begins with.
    pub(crate) async fn send(&mut self, response: &Secret) -> Result<(), ConnectError> {
        *self.seq = match self.opening.take() {
            Some(opening) => send(self.io, *self.seq, &opening.with(response)).await?,
            None => send(self.io, *self.seq, response.expose()).await?,
        };
        Ok(())
    }

    /// The server's next payload. Cancelling it loses nothing.
    pub(crate) async fn receive(&mut self) -> Result<Bytes, ConnectError> {
        let message = read_message(self.io, self.read, LIMIT).await?;
        *self.seq = message.next_seq;
        Ok(message.payload())
    }
}

impl Opening {
    fn with(self, response: &Secret) -> Bytes {
        let mut payload = BytesMut::new();
        match self {
            Self::Login(login) => {
                LoginRequest { auth_response: response.clone(), ..login }.encode(&mut payload);
            }
            Self::Change(change, capabilities) => {
                let change = ChangeUser { auth_response: response.clone(), ..change };
                change.encode(&mut payload, capabilities);
            }
        }
        payload.freeze()
    }
}
