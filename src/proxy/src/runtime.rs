//! The proxy as a whole: bound, running, ending.

mod clients;

use crate::{
    admin,
    backend::{
        Backend, Backends,
        dispatch::Shared,
        health::{Health, monitor},
        mirror::Mirrors,
        sessions::Sessions,
    },
    config::{self, ClientCertificate, Config, ListenerTlsMode, LoginBy},
    forward::Grace,
    greeter::{Greeter, Model},
    hosts::Hosts,
    listen::{self, Acceptor},
    metrics::{CountedByFilters, Metrics},
    session::{
        Context,
        budget::Budget,
        login::{Entrance, ProcessKey},
        relay::Relay,
        slow::SlowLog,
    },
    signal::Signal,
    tls::{Renewal, TlsError, renewal},
    users::Users,
};
use chain::{HostgroupId, Server, Topology, topology};
use clients::accept;
use std::{
    collections::BTreeSet,
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A proxy whose sockets are bound and that has not begun to serve.
pub struct Proxy {
    doors: Vec<Door>,
    admin: TcpListener,
    facts: admin::Facts,
    common: Arc<Common>,
    shutdown: config::Shutdown,
    monitor: config::Monitor,
    renewal: Arc<Renewal>,
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

impl Proxy {
    /// Binds every socket of `config` and makes keys and certificates.
    ///
    /// # Errors
    ///
    /// The first thing that cannot be had; sockets bound by then are closed again.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let metrics = Metrics::new(CountedByFilters::of(&config.chains));
        let topology = Arc::new(topology(&config));
        let health = Health::new(&config, &topology, &metrics.health);
        let backends = Arc::new(backends(&config, &topology, &metrics, health)?);
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
        let hostgroups = needed(&config.users, &config.listeners);
        let users = Arc::new(Users::new(config.users));
        let key = Arc::<ProcessKey>::default();
        let slow = SlowLog::of(config.log.slow_queries).map(Arc::new);
        let mut doors = Vec::new();
        for listener in &config.listeners {
            let at = |e| StartError::Bind(listener.address.to_string(), e);
            let acceptor = listen::bind(&listener.address, &config.tcp).await.map_err(at)?;
            let at = |e| StartError::Tls(listener.address.to_string(), e);
            let entrance = entrance(listener, &acceptor, &config.limits, &model, &users, &key);
            let entrance = Arc::new(entrance.map_err(at)?);
            // The configuration has been checked: the chain is there.
            let Some(chain) = config.chains.get(&listener.chain).cloned() else { continue };
            let context = Arc::new(Context {
                shared: Arc::new(Shared {
                    chain,
                    backends: backends.clone(),
                    settings: config.backend.clone(),
                    sessions: common.ids.clone(),
                    mirrors: mirrors.clone(),
                    tells_statement: slow.is_some(),
                }),
                topology: topology.clone(),
                metrics: metrics.clone(),
                max_command: usize::try_from(config.limits.max_allowed_packet)
                    .unwrap_or(usize::MAX),
                max_statements: config.limits.max_prepared_statements,
                wait_timeout: config.limits.wait_timeout,
                slow: slow.clone(),
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
            hostgroups,
            clients: common.ids.clone(),
            asking: tokio::sync::Mutex::default(),
        };
        let renewal = Arc::default();
        let Config { shutdown, monitor, .. } = config;
        Ok(Self { doors, admin, facts, common, shutdown, monitor, renewal })
    }

    /// The listeners' addresses as bound, in the configuration's order: port 0 has become a real
    /// one.
    pub fn addresses(&self) -> Vec<String> {
        self.doors.iter().map(|door| door.acceptor.local()).collect()
    }

    /// Makes the proxy read all its certificates again. Those whose files change are read again by
    /// themselves.
    pub fn renewal(&self) -> Arc<Renewal> {
        self.renewal.clone()
    }

    /// The admin port's address as bound.
    pub fn admin_address(&self) -> String {
        self.admin.local_addr().map_or_else(|e| e.to_string(), |address| address.to_string())
    }

    /// Serves clients until `stop` is cancelled, then lets commands and transactions end, for at
    /// most the configured grace.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { doors, admin, facts, common, shutdown, monitor, renewal } = self;
        let backends = facts.backends.clone();
        let ended = CancellationToken::new();
        let admin = tokio::spawn(admin::serve(admin, facts, ended.clone()));
        let tidying = tokio::spawn(tidy(backends.clone()));
        let mut watching = monitor::watch(&backends, &monitor);
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
        watching.abort_all();
        renewing.abort();
        for link in backends.iter().flat_map(|backend| backend.close()) {
            link.quit().await;
        }
        ended.cancel();
        let _ = admin.await;
        tracing::info!("stopped");
    }
}

/// The hostgroups that a session may begin in.
fn needed(users: &[config::User], listeners: &[config::Listener]) -> BTreeSet<HostgroupId> {
    let listeners = listeners.iter().filter_map(|listener| listener.hostgroup);
    users.iter().map(|user| user.hostgroup).chain(listeners).map(HostgroupId).collect()
}

pub(crate) fn topology(config: &Config) -> Topology {
    let mut groups: Vec<chain::Hostgroup> = Vec::new();
    for (server, id) in config.servers.iter().zip(1..) {
        let made = Arc::new(Server::new(id, server.name.as_str(), server.weight));
        // Until somebody has asked it, it is where the file says.
        made.standing.set_member(!server.twin);
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
    let clusters = config.clusters.iter().map(|cluster| topology::Cluster {
        name: cluster.name.as_str().into(),
        writer: HostgroupId(cluster.writer),
        reader: HostgroupId(cluster.reader),
    });
    Topology::new(groups).with_clusters(clusters.collect())
}

fn backends(
    config: &Config,
    topology: &Topology,
    metrics: &Metrics,
    health: Arc<Health>,
) -> Result<Backends, StartError> {
    let mut backends = Backends::new(health.clone());
    for (server, id) in config.servers.iter().zip(1..) {
        let hostgroup = HostgroupId(server.hostgroup);
        let group = topology.hostgroup(hostgroup);
        let member = group.and_then(|group| group.servers.iter().find(|made| made.id == id));
        let Some(member) = member.cloned() else { continue };
        let Some(pulse) = health.of(&member) else { continue };
        let handles = metrics.server(hostgroup, &member.name);
        let at = |e| StartError::Tls(server.name.clone(), e);
        backends.insert(
            Backend::new(member, server, &config.backend, &config.tcp, handles, pulse)
                .map_err(at)?,
        );
    }
    Ok(backends)
}

/// How clients of a listener come in.
fn entrance(
    listener: &config::Listener,
    acceptor: &Acceptor,
    limits: &config::Limits,
    model: &Arc<Model>,
    users: &Arc<Users>,
    key: &Arc<ProcessKey>,
) -> Result<Entrance, TlsError> {
    let hostgroup = |login| listener.hostgroup.filter(|_| listener.login == login).map(HostgroupId);
    Ok(Entrance {
        greeter: Greeter::new(listener, model.clone()),
        users: users.clone(),
        relay: hostgroup(LoginBy::Server).map(|hostgroup| Relay { hostgroup }),
        untouched: hostgroup(LoginBy::Untouched),
        proxied: listener.proxy_protocol.clone(),
        key: key.clone(),
        tls: renewal::listener(listener)?,
        tls_required: listener.tls.mode == ListenerTlsMode::Require,
        certificate_required: listener.tls.client_certificate == ClientCertificate::Required,
        max_packet: usize::try_from(limits.max_login_packet).unwrap_or(usize::MAX),
        address: acceptor.local().into(),
        port: acceptor.port(),
    })
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
