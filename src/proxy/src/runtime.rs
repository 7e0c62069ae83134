//! The proxy as a whole: bound, running, ending.

use crate::{
    admin,
    backend::{Backend, Backends, dispatch::Shared, mirror::Mirrors, sessions::Sessions},
    config::{self, ClientCertificate, Config, ListenerTlsMode, LoginBy},
    forward::{self, Grace, Parting, forward},
    greeter::{Greeter, Model},
    hosts::Hosts,
    listen::{self, Acceptor},
    metrics::{CountedByFilters, Metrics},
    session::{
        Client, Context, Ended,
        budget::Budget,
        login::{Entrance, LoggedIn, ProcessKey, broke_off},
        relay::Relay,
        serve,
    },
    signal::Signal,
    tls::{TlsError, renewal},
    users::Users,
};
use chain::{HostgroupId, Server, Topology, session::Peer, topology};
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    sync::{Notify, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use wire::err::{ErrPacket, codes};

/// A proxy whose sockets are bound and that has not begun to serve.
pub struct Proxy {
    doors: Vec<Door>,
    admin: TcpListener,
    facts: admin::Facts,
    common: Arc<Common>,
    shutdown: config::Shutdown,
    renewal: Arc<Notify>,
}

/// Why a proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket cannot be bound.
    #[error("cannot listen on {0}: {1}")]
    Bind(String, io::Error),
    /// TLS of a listener or towards a server cannot be set up.
    #[error("{0}: {1}")]
    Tls(String, TlsError),
}

/// One listener.
struct Door {
    acceptor: Acceptor,
    entrance: Arc<Entrance>,
    context: Arc<Context>,
}

/// What all sessions share, whatever listener they came by.
struct Common {
    metrics: Arc<Metrics>,
    room: Arc<Semaphore>,
    /// One permit for each client whose login is not complete.
    pending: Arc<Semaphore>,
    hosts: Hosts,
    budget: Budget,
    login_timeout: Duration,
    ids: Arc<Sessions>,
    grace_close: Grace,
    /// No new work begins.
    draining: Arc<Signal>,
    /// The grace is over.
    cut: Signal,
    sessions: TaskTracker,
}

/// How often idle connections are looked at.
const TIDY_INTERVAL: Duration = Duration::from_secs(1);
/// How long accepting pauses when the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Proxy {
    /// Binds every socket of `config` and makes keys and certificates.
    ///
    /// # Errors
    ///
    /// The first thing that cannot be had; sockets bound by then are closed again.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let metrics = Metrics::new(CountedByFilters::of(&config.chains));
        let topology = Arc::new(topology(&config));
        let backends = Arc::new(backends(&config, &topology, &metrics)?);
        let common = Arc::new(Common {
            metrics: metrics.clone(),
            room: Arc::new(Semaphore::new(config.limits.max_connections as usize)),
            pending: Arc::new(Semaphore::new(match config.limits.max_pending_logins {
                0 => config.limits.max_connections as usize,
                limit => limit as usize,
            })),
            hosts: Hosts::new(&config.limits),
            budget: Budget::new(config.limits.max_buffered),
            login_timeout: config.limits.login_timeout,
            ids: Arc::default(),
            grace_close: Grace(config.backend.grace_close),
            draining: Arc::default(),
            cut: Signal::default(),
            sessions: TaskTracker::new(),
        });
        let model = Arc::new(Model::new(&backends, &config.users));
        let mirrors = Mirrors::new(&backends, &config.backend, &metrics);
        let users = Arc::new(Users::new(config.users));
        let key = Arc::<ProcessKey>::default();
        let mut doors = Vec::new();
        for listener in &config.listeners {
            let at = |e| StartError::Bind(listener.address.to_string(), e);
            let acceptor = listen::bind(&listener.address, &config.tcp).await.map_err(at)?;
            let at = |e| StartError::Tls(listener.address.to_string(), e);
            let entrance = Arc::new(Entrance {
                greeter: Greeter::new(listener, model.clone()),
                users: users.clone(),
                relay: relay(listener),
                key: key.clone(),
                tls: renewal::listener(listener).map_err(at)?,
                tls_required: listener.tls.mode == ListenerTlsMode::Require,
                certificate_required: listener.tls.client_certificate
                    == ClientCertificate::Required,
                max_packet: usize::try_from(config.limits.max_login_packet).unwrap_or(usize::MAX),
                address: acceptor.local().into(),
                port: acceptor.port(),
            });
            // The configuration has been checked: the chain is there.
            let Some(chain) = config.chains.get(&listener.chain).cloned() else { continue };
            let context = Arc::new(Context {
                shared: Arc::new(Shared {
                    chain,
                    backends: backends.clone(),
                    settings: config.backend.clone(),
                    sessions: common.ids.clone(),
                    mirrors: mirrors.clone(),
                }),
                topology: topology.clone(),
                metrics: metrics.clone(),
                max_command: usize::try_from(config.limits.max_allowed_packet)
                    .unwrap_or(usize::MAX),
                max_statements: config.limits.max_prepared_statements,
                wait_timeout: config.limits.wait_timeout,
                draining: common.draining.clone(),
            });
            doors.push(Door { acceptor, entrance, context });
        }
        let at = |e| StartError::Bind(config.admin.address.to_string(), e);
        let admin = match listen::bind(&config.admin.address, &config.tcp).await.map_err(at)? {
            Acceptor::Tcp(listener, _) => listener,
            Acceptor::Unix(_) => return Err(at(io::ErrorKind::Unsupported.into())),
        };
        let listeners = doors.iter().zip(&config.listeners).map(|(door, listener)| {
            admin::ListenerStatus { address: door.acceptor.local(), chain: listener.chain.clone() }
        });
        let facts = admin::Facts {
            metrics,
            backends,
            listeners: listeners.collect(),
            started: Instant::now(),
            draining: common.draining.clone(),
        };
        let renewal = Arc::default();
        Ok(Self { doors, admin, facts, common, shutdown: config.shutdown, renewal })
    }

    /// The listeners' addresses as bound, in the configuration's order: port 0 has become a real
    /// one.
    pub fn addresses(&self) -> Vec<String> {
        self.doors.iter().map(|door| door.acceptor.local()).collect()
    }

    /// Notified, it makes the proxy read all its certificates again. Those whose files change are
    /// read again by themselves.
    pub fn renewal(&self) -> Arc<Notify> {
        self.renewal.clone()
    }

    /// The admin port's address as bound.
    pub fn admin_address(&self) -> String {
        self.admin.local_addr().map_or_else(|e| e.to_string(), |address| address.to_string())
    }

    /// Serves clients until `stop` is cancelled, then lets commands and transactions end, for at
    /// most the configured grace.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { doors, admin, facts, common, shutdown, renewal } = self;
        let backends = facts.backends.clone();
        let ended = CancellationToken::new();
        let admin = tokio::spawn(admin::serve(admin, facts, ended.clone()));
        let tidying = tokio::spawn(tidy(backends.clone()));
        let watched = doors.iter().filter_map(|door| door.entrance.tls.clone()).collect();
        let needy = doors.iter().find(|door| {
            matches!(door.acceptor, Acceptor::Tcp(..)) && door.entrance.may_need_key()
        });
        if let Some(door) = needy {
            let entrance = door.entrance.clone();
            tokio::spawn(async move { entrance.key.get().await });
        }
        let renewing = tokio::spawn(renewal::run(watched, backends.clone(), renewal));
        let doors: Vec<_> =
            doors.into_iter().map(|door| tokio::spawn(accept(door, common.clone()))).collect();

        stop.cancelled().await;
        tracing::info!(grace = ?shutdown.grace, "stopping: no new sessions, commands and transactions may end");
        common.draining.give();
        for door in doors {
            // It ends by the same token.
            let _ = door.await;
        }
        common.sessions.close();
        if tokio::time::timeout(shutdown.grace, common.sessions.wait()).await.is_err() {
            tracing::warn!(sessions = common.sessions.len(), "the grace is over, sessions are cut");
            common.cut.give();
            common.sessions.wait().await;
        }
        tidying.abort();
        renewing.abort();
        for link in backends.iter().flat_map(|backend| backend.close()) {
            link.quit().await;
        }
        ended.cancel();
        let _ = admin.await;
        tracing::info!("stopped");
    }
}

fn topology(config: &Config) -> Topology {
    let mut groups: Vec<chain::Hostgroup> = Vec::new();
    for (server, id) in config.servers.iter().zip(1..) {
        let made = Arc::new(Server::new(id, server.name.as_str(), server.weight));
        let hostgroup = HostgroupId(server.hostgroup);
        match groups.iter_mut().find(|group| group.id == hostgroup) {
            Some(group) => group.servers.push(made),
            None => {
                let named = config.hostgroups.iter().find(|named| named.id == server.hostgroup);
                let name = named.map(|named| named.name.as_str().into());
                groups.push(topology::Hostgroup { id: hostgroup, name, servers: vec![made] });
            }
        }
    }
    Topology::new(groups)
}

fn backends(
    config: &Config,
    topology: &Topology,
    metrics: &Metrics,
) -> Result<Backends, StartError> {
    let mut backends = Backends::default();
    for (server, id) in config.servers.iter().zip(1..) {
        let hostgroup = HostgroupId(server.hostgroup);
        let group = topology.hostgroup(hostgroup);
        let member = group.and_then(|group| group.servers.iter().find(|made| made.id == id));
        let Some(member) = member.cloned() else { continue };
        let handles = metrics.server(hostgroup, &member.name);
        let at = |e| StartError::Tls(server.name.clone(), e);
        backends.insert(
            Backend::new(member, server, &config.backend, &config.tcp, handles).map_err(at)?,
        );
    }
    Ok(backends)
}

fn relay(listener: &config::Listener) -> Option<Relay> {
    let hostgroup = listener.hostgroup.filter(|_| listener.login == LoginBy::Server)?;
    Some(Relay { hostgroup: HostgroupId(hostgroup) })
}

/// Accepts clients until the proxy drains.
async fn accept(door: Door, common: Arc<Common>) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = common.draining.given() => return door.acceptor.close(),
            accepted = door.acceptor.accept() => accepted,
        };
        match accepted {
            Ok((io, peer)) => {
                common.metrics.accepted.inc();
                let client = Client::new(io, &common.budget);
                let (entrance, context) = (door.entrance.clone(), door.context.clone());
                common.sessions.spawn(session(client, peer, entrance, context, common.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One client from its first byte to its last.
async fn session(
    mut client: Client,
    peer: Peer,
    entrance: Arc<Entrance>,
    context: Arc<Context>,
    common: Arc<Common>,
) {
    let Ok(room) = common.room.clone().try_acquire_owned() else {
        return client.turn_away(&too_many()).await;
    };
    if common.hosts.refuse(peer) {
        common.metrics.hosts_refused.inc();
        return client.turn_away(&entrance.greeter.host_is_blocked(peer)).await;
    }
    let Ok(pending) = common.pending.try_acquire() else {
        return client.turn_away(&too_many()).await;
    };
    let counted = common.metrics.session();
    let id = common.ids.new_id();
    let login = entrance.login(&mut client, &context, peer, id);
    let login = tokio::time::timeout(common.login_timeout, login).await;
    drop(pending);
    let mut logged_in = match login {
        Ok(Ok(logged_in)) => logged_in,
        failed => {
            common.metrics.login_failures.inc();
            let reason = match failed {
                Ok(Err(error)) => {
                    if broke_off(&error) {
                        common.hosts.broke_off(peer);
                    }
                    error.to_string()
                }
                _ => {
                    common.hosts.broke_off(peer);
                    entrance.timed_out(&mut client).await;
                    format!("no login within {:?}", common.login_timeout)
                }
            };
            tracing::debug!(session = id, %peer, reason, "login failed");
            return client.close().await;
        }
    };
    common.hosts.logged_in(peer);
    let ended = loop {
        let LoggedIn { session, stack, .. } = &mut logged_in;
        let ended = tokio::select! {
            biased;
            ended = serve(&mut client, &context, session, stack) => ended,
            () = common.cut.given() => Ended::Drained,
        };
        let Ended::ChangesUser(message) = ended else { break ended };
        match entrance.change_user(&mut client, &context, logged_in, &message).await {
            Ok(changed) => logged_in = changed,
            Err(error) => {
                tracing::debug!(session = id, %peer, %error, "change of user failed");
                return client.close().await;
            }
        }
    };
    let ended = match ended {
        Ended::Forwarded(parting) => {
            let LoggedIn { stack, session, admitted, .. } = logged_in;
            // The chain and all that it knew of the session.
            drop((stack, session));
            let ended = forwarded(&mut client, &common, *parting).await;
            drop((admitted, room, counted));
            ended
        }
        ended => {
            // Its place is free, whatever its client does.
            drop((logged_in, room, counted));
            ended
        }
    };
    if let Ended::Client(error) | Ended::Backend(error) = &ended {
        tracing::debug!(session = id, %peer, %error, "session ended");
        client.close().await;
    }
}

/// The rest of a session that has left the chain.
async fn forwarded(client: &mut Client, common: &Common, parting: Parting) -> Ended {
    let metrics = &common.metrics.forwarded;
    metrics.sessions.inc();
    let forwarding = forward(client, parting, common.grace_close, metrics);
    let ended = tokio::select! {
        biased;
        ended = forwarding => ended,
        () = common.cut.given() => Ok(forward::Ended::Offline),
    };
    metrics.sessions.dec();
    match ended {
        Ok(forward::Ended::Closed) => Ended::Left,
        Ok(forward::Ended::Offline) => Ended::Drained,
        Ok(forward::Ended::Late) => {
            Ended::Client(chain::Error::client("it has not read in time what its server had sent"))
        }
        Err(error) => Ended::Backend(chain::Error::backend(error)),
    }
}

/// The refusal of a client for whom there is no place.
fn too_many() -> ErrPacket {
    ErrPacket::new(codes::ER_CON_COUNT_ERROR, "Too many connections")
}

/// Closes idle connections that are not to be used any more, for ever.
async fn tidy(backends: Arc<Backends>) {
    let mut interval = tokio::time::interval(TIDY_INTERVAL);
    loop {
        interval.tick().await;
        for link in backends.iter().flat_map(|backend| backend.tidy()) {
            link.quit().await;
        }
    }
}
