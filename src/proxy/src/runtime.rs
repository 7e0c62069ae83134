//! The proxy as a whole: bound, running, ending.

mod clients;
mod door;
mod fleet;
mod live;
mod world;

pub(crate) use {door::Door, fleet::alone, live::Live, world::World};

use crate::{
    admin,
    backend::sessions::Sessions,
    config::Config,
    digests::Digests,
    events::EventLog,
    forward::notes::{Inbox, Notes},
    hosts::Hosts,
    listen::{self, Acceptor},
    live::Roll,
    metrics::Metrics,
    reload::{Control, Inherited, Reloads},
    session::budget::Budget,
    signal::Signal,
    telemetry::{Telemetry, TelemetryError},
    tls::{TlsError, renewal},
};
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::Semaphore, time::MissedTickBehavior};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use world::Plan;

/// A proxy whose sockets are bound and that has not begun to serve.
pub struct Proxy {
    live: Arc<Live>,
    admin: TcpListener,
    facts: admin::Facts,
    reloads: Arc<Reloads>,
    telemetry: Telemetry,
    noted: Inbox,
}

/// Why a proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket cannot be bound.
    #[error("cannot listen on {0}: {1}")]
    Bind(String, io::Error),
    /// The log of events cannot be written.
    #[error("events.file {0}: {1}")]
    Events(String, io::Error),
    /// TLS of a listener or towards a server cannot be set up.
    #[error("{0}: {1}")]
    Tls(String, TlsError),
    /// Nothing can be told to the collector.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

/// What all sessions share, whatever listener they came by.
pub(crate) struct Common {
    metrics: Arc<Metrics>,
    room: Arc<Semaphore>,
    /// One permit for each client whose login is not complete.
    pending: Arc<Semaphore>,
    hosts: Hosts,
    budget: Budget,
    ids: Arc<Sessions>,
    pub(crate) roll: Arc<Roll>,
    /// No new work begins.
    pub(crate) draining: Arc<Signal>,
    /// The grace is over.
    cut: Signal,
    sessions: TaskTracker,
}

/// How often idle connections are looked at.
const TIDY_INTERVAL: Duration = Duration::from_secs(1);

impl Common {
    fn new(config: &Config, metrics: &Arc<Metrics>) -> Self {
        let limits = &config.limits;
        Self {
            metrics: metrics.clone(),
            room: Arc::new(Semaphore::new(limits.max_connections as usize)),
            pending: Arc::new(Semaphore::new(live::pending_logins(limits) as usize)),
            hosts: Hosts::new(limits),
            budget: Budget::new(limits.max_buffered),
            ids: Arc::default(),
            roll: Arc::default(),
            draining: Arc::default(),
            cut: Signal::default(),
            sessions: TaskTracker::new(),
        }
    }
}

impl Live {
    /// Puts `config` into use; everything that it needs is made first.
    ///
    /// # Errors
    ///
    /// The first thing that cannot be had. Nothing has changed then.
    pub(crate) async fn turn_to_config(
        &self,
        config: Config,
        inherited: &mut Inherited,
    ) -> Result<(), StartError> {
        let before = self.world();
        let plan = Plan::make(self, config, before.as_deref(), inherited).await?;
        plan.put_into_use(self, before.as_deref());
        Ok(())
    }
}

impl Proxy {
    /// Binds every socket of `config` and makes keys and certificates.
    ///
    /// # Errors
    ///
    /// The first thing that cannot be had; sockets bound by then are closed again.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let telemetry = Telemetry::new(&config)?;
        Self::bind_with(config, Inherited::default(), telemetry).await
    }

    /// As [`Self::bind`], with sockets that are bound already where their addresses are the
    /// configuration's, and with what was made of the configuration so that the log could be told
    /// of it.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn bind_with(
        config: Config,
        mut inherited: Inherited,
        telemetry: Telemetry,
    ) -> Result<Self, StartError> {
        let events = EventLog::open(&config.events);
        let events = events.map_err(|(file, error)| StartError::Events(file, error))?;
        let digests = Digests::of(config.admin.digests);
        let token = config.admin.token.clone();
        let (notes, noted) = Notes::new();
        let live = Live::new(&config, &telemetry, digests.clone(), events, notes);
        let address = config.admin.address.clone();
        live.turn_to_config(config, &mut inherited).await?;
        let at = |e| StartError::Bind(address.to_string(), e);
        let admin = match listen::bind(&address, &mut inherited).await.map_err(at)? {
            Acceptor::Tcp(listener) => listener,
            Acceptor::Unix(_) => return Err(at(io::ErrorKind::Unsupported.into())),
        };
        let reloads = Arc::new(Reloads::new(&live, &admin, inherited).map_err(at)?);
        let facts = admin::Facts {
            metrics: live.metrics.clone(),
            backends: live.backends.clone(),
            live: live.clone(),
            reloads: reloads.clone(),
            started: Instant::now(),
            asking: tokio::sync::Mutex::default(),
            ids: live.common.ids.clone(),
            roll: live.common.roll.clone(),
            digests,
            guard: admin::Guard::new(token),
        };
        Ok(Self { live, admin, facts, reloads, telemetry, noted })
    }

    /// The listeners' addresses as bound, in the configuration's order: port 0 has become a real
    /// one.
    pub fn addresses(&self) -> Vec<String> {
        let world = self.live.world();
        world.iter().flat_map(|world| &world.doors).map(|door| door.local.clone()).collect()
    }

    /// What changes the proxy while it runs, and ends it.
    pub fn control(&self) -> Control {
        Control(self.reloads.clone())
    }

    /// The admin port's address as bound.
    pub fn admin_address(&self) -> String {
        self.admin.local_addr().map_or_else(|e| e.to_string(), |address| address.to_string())
    }

    /// Serves clients until `stop` is cancelled, then lets commands and transactions end, for at
    /// most the configured grace.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { live, admin, facts, reloads, telemetry, noted } = self;
        let report = telemetry.begin(live.metrics.clone(), live.backends.clone());
        let over = CancellationToken::new();
        let noting = tokio::spawn(noted.run(over.clone()));
        // It is served once.
        let _ = live.stop.set(stop.clone());
        let ended = live.ended.clone();
        let admin = tokio::spawn(admin::serve(admin, facts, ended.clone()));
        let tidying = AbortOnDropHandle::new(tokio::spawn(tidy(live.clone())));
        if let Some(world) = live.world() {
            make_key(&world);
        }
        live.serve();

        stop.cancelled().await;
        let grace = live.world().map(|world| world.config.shutdown.grace).unwrap_or_default();
        tracing::info!(?grace, "stopping: no new sessions, commands and transactions may end");
        let common = &live.common;
        common.draining.give();
        live.accepting.close();
        live.accepting.wait().await;
        common.sessions.close();
        if tokio::time::timeout(grace, common.sessions.wait()).await.is_err() {
            tracing::warn!(sessions = common.sessions.len(), "the grace is over, sessions are cut");
            common.cut.give();
            common.sessions.wait().await;
        }
        drop(tidying);
        live.watchers().end();
        for link in live.backends.all().flat_map(|backend| backend.close()) {
            link.quit().await;
        }
        over.cancel();
        // It panics nowhere, and what waits is told of.
        let _ = noting.await;
        report.end().await;
        ended.cancel();
        reloads.end();
        let _ = admin.await;
        tracing::info!("stopped");
    }
}

/// Makes the key for passwords, if a client may have to encrypt one.
fn make_key(world: &World) {
    let needy = world.doors.iter().find(|door| door.port != 0).and_then(|door| {
        let entrance = door.context.load().entrance.clone();
        entrance.may_need_key().then_some(entrance)
    });
    if let Some(entrance) = needy {
        tokio::spawn(async move { entrance.key.get().await });
    }
}

/// Closes idle connections that are not to be used any more, and reads certificates again whose
/// files have changed, for ever.
async fn tidy(live: Arc<Live>) {
    let mut idle = tokio::time::interval(TIDY_INTERVAL);
    let mut certificates = tokio::time::interval(renewal::INTERVAL);
    for interval in [&mut idle, &mut certificates] {
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        tokio::select! {
            _ = idle.tick() => live.tidy().await,
            _ = certificates.tick() => live.renew_certificates(false),
        }
    }
}
