//! What runs for as long as the process does, whatever the configuration.

use super::{Common, Door, clients::accept, world::World};
use crate::{
    backend::{Backends, Fleet, health::Health, health::monitor::Watchers, mirror::Mirrors},
    config::{self, Config, Limits},
    digests::Digests,
    events::EventLog,
    forward::notes::Notes,
    metrics::{CountedByFilters, Metrics},
    session::login::ProcessKey,
    telemetry::{Telemetry, Tracing},
};
use arc_swap::{ArcSwap, ArcSwapOption};
use chain::Topology;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The parts of a running proxy that outlive a configuration, and the configuration in use.
pub(crate) struct Live {
    pub(crate) metrics: Arc<Metrics>,
    counted: CountedByFilters,
    pub(crate) common: Arc<Common>,
    pub(crate) backends: Arc<Backends>,
    pub(super) mirrors: Arc<Mirrors>,
    pub(super) key: Arc<ProcessKey>,
    pub(super) settings: Arc<ArcSwap<config::Backend>>,
    pub(super) tells_statement: Arc<AtomicBool>,
    pub(super) digests: Option<Arc<Digests>>,
    pub(super) events: Option<Arc<EventLog>>,
    pub(super) tracing: Option<Arc<Tracing>>,
    pub(super) notes: Notes,
    /// Each filter's time is told.
    pub(super) times_filters: bool,
    world: ArcSwapOption<World>,
    /// Listeners that are closed and whose sessions go on.
    parted: Mutex<Vec<Arc<Door>>>,
    next_server: AtomicU32,
    pub(super) accepting: TaskTracker,
    watchers: Mutex<Watchers>,
    /// Clients are served.
    serving: AtomicBool,
    /// Cancelled when the proxy is to end.
    pub(crate) stop: OnceLock<CancellationToken>,
    /// Cancelled when the admin port is to be closed.
    pub(crate) ended: CancellationToken,
}

impl Live {
    pub(super) fn new(
        config: &Config,
        telemetry: &Telemetry,
        digests: Option<Arc<Digests>>,
        events: Option<Arc<EventLog>>,
        notes: Notes,
    ) -> Arc<Self> {
        let counted = CountedByFilters::default();
        let metrics = Metrics::new(counted.clone(), &telemetry.spans());
        let health = Health::of_nothing(&metrics.health);
        let nothing = Fleet::new(Vec::new(), Vec::new(), health, Arc::new(Topology::default()));
        let backends = Arc::new(Backends::new(nothing));
        let settings = Arc::new(ArcSwap::from_pointee(config.backend.clone()));
        Arc::new(Self {
            counted,
            common: Arc::new(Common::new(config, &metrics)),
            mirrors: Mirrors::new(&backends, &settings, &metrics),
            backends,
            metrics,
            key: Arc::default(),
            settings,
            tells_statement: Arc::default(),
            digests,
            events,
            tracing: telemetry.tracing(),
            notes,
            times_filters: telemetry.times_filters(),
            world: ArcSwapOption::empty(),
            parted: Mutex::default(),
            next_server: AtomicU32::new(1),
            accepting: TaskTracker::new(),
            watchers: Mutex::default(),
            serving: AtomicBool::new(false),
            stop: OnceLock::new(),
            ended: CancellationToken::new(),
        })
    }

    /// The configuration in use. `None` before the first.
    pub(crate) fn world(&self) -> Option<Arc<World>> {
        self.world.load_full()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.common.draining.is_given()
    }

    /// A server's number, which no other one gets.
    pub(super) fn server_id(&self) -> u32 {
        self.next_server.fetch_add(1, Relaxed)
    }

    /// Puts a configuration into use; gives the one that was.
    pub(super) fn turn_to(&self, world: World) {
        let before = self.world.swap(Some(Arc::new(world)));
        let Some(world) = self.world() else { return };
        self.counted.replace(&world.config.chains);
        if let Some(before) = before {
            let is_left = |door: &&Arc<Door>| !world.doors.iter().any(|one| Arc::ptr_eq(one, door));
            let mut parted = self.parted();
            for door in before.doors.iter().filter(is_left) {
                tracing::info!(address = door.local, "listens no more");
                door.closing.give();
                parted.push(door.clone());
            }
        }
        if self.serving.load(Relaxed) {
            self.serve();
        }
    }

    /// Begins what serves clients: listeners, and the monitor of servers. What has begun already
    /// goes on.
    pub(super) fn serve(&self) {
        self.serving.store(true, Relaxed);
        let Some(world) = self.world() else { return };
        for door in world.doors.iter().filter(|door| door.begins()) {
            self.accepting.spawn(accept(door.clone(), self.common.clone()));
        }
        self.watchers().follow(&self.backends, &world.config.monitor);
    }

    /// Listeners that are closed and have sessions yet.
    pub(super) fn parted(&self) -> MutexGuard<'_, Vec<Arc<Door>>> {
        let mut parted = self.parted.lock().unwrap_or_else(PoisonError::into_inner);
        parted.retain(|door| door.is_used());
        parted
    }

    /// No server is asked any more how it is.
    pub(super) fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads certificates again if their files have changed.
    pub(super) fn renew_certificates(&self, asked: bool) {
        if let Some(world) = self.world() {
            for door in &world.doors {
                if let Some(tls) = &door.context.load().entrance.tls {
                    tls.renew(asked);
                }
            }
        }
        self.backends.iter().for_each(|backend| backend.renew(asked));
    }

    /// Closes idle connections that are not to be used any more, and forgets servers that have left.
    pub(super) async fn tidy(&self) {
        self.metrics.turn(std::time::Instant::now());
        for link in self.backends.all().flat_map(|backend| backend.tidy()) {
            link.quit().await;
        }
        for gone in self.backends.forget_left() {
            let (hostgroup, name) = (gone.hostgroup, &*gone.server.name);
            gone.close();
            let again = |other: &Arc<crate::backend::Backend>| {
                other.hostgroup == hostgroup && *other.server.name == *name
            };
            if !self.backends.all().any(|other| again(&other)) {
                self.metrics.forget(hostgroup, name);
            }
        }
    }

    /// Bounds on what clients can take, from now on.
    pub(super) fn obey(&self, before: &Limits, limits: &Limits) {
        let Common { room, pending, budget, hosts, .. } = &*self.common;
        crate::backend::resize(room, before.max_connections, limits.max_connections);
        crate::backend::resize(pending, pending_logins(before), pending_logins(limits));
        budget.resize(before.max_buffered, limits.max_buffered);
        hosts.obey(limits);
    }
}

/// How many clients may be in their login.
pub(super) fn pending_logins(limits: &Limits) -> u32 {
    match limits.max_pending_logins {
        0 => limits.max_connections,
        limit => limit,
    }
}
