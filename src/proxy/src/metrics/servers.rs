//! What servers do.

use super::{Kind, Operations, Place, ServerLabels, Shared, StateLabels, latency::Latency};
use arc_swap::ArcSwap;
use chain::{
    Command,
    facts::{Lag, SessionLog},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use std::{
    array, fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

const KINDS: usize = Kind::NAMES.len();

/// The metrics of one server of one hostgroup.
#[derive(Clone)]
pub(crate) struct ServerMetrics {
    pub(crate) commands: Counter,
    session_commands: Counter,
    lag: Histogram,
    /// Replies to clients' commands that were an ERR.
    errors: Counter,
    connects: Counter,
    connect_failures: Counter,
    pub(crate) attached: Gauge,
    pub(crate) idle: Gauge,
    pub(crate) outstanding: Gauge,
    pub(crate) shared: Shared,
    latencies: Arc<Latencies>,
}

/// How long one server takes. Kinds that it has not been asked take no memory.
struct Latencies {
    hostgroup: u32,
    server: String,
    /// Known since it was first reached.
    place: ArcSwap<Place>,
    kinds: [OnceLock<Latency>; KINDS],
}

impl ServerMetrics {
    /// Says which server it is.
    pub(crate) fn is_at(&self, place: Place) {
        self.latencies.place.store(Arc::new(place));
    }

    /// Counts a command that is about to be sent.
    pub(crate) fn sends(&self, command: &Command) {
        self.commands.inc();
        if command.fact::<SessionLog>().is_some_and(|log| log.this.is_some()) {
            self.session_commands.inc();
        }
        if let Some(Lag { entries, .. }) = command.fact()
            && *entries > 0
        {
            self.session_commands.inc_by(*entries as u64);
            self.lag.observe(*entries as f64);
        }
    }

    /// Counts an attempt to connect.
    pub(crate) fn connected(&self, well: bool) {
        if well {
            self.connects.inc()
        } else {
            self.connect_failures.inc()
        };
    }

    /// Counts a command of a client's whose reply has ended.
    pub(crate) fn answered(&self, kind: Kind, took: Duration, failed: bool) {
        self.latencies.kinds[kind as usize].get_or_init(Latency::default).record(took);
        if failed {
            self.errors.inc();
        }
    }
}

impl Latencies {
    fn known(&self) -> impl Iterator<Item = (&'static str, &Latency)> {
        let kinds = Kind::NAMES.iter().zip(&self.kinds);
        kinds.filter_map(|(name, latency)| Some((*name, latency.get()?)))
    }

    fn labels(&self, kind: &'static str) -> [(&'static str, String); 3] {
        [
            ("hostgroup", self.hostgroup.to_string()),
            ("server", self.server.clone()),
            ("kind", kind.to_owned()),
        ]
    }
}

pub(super) struct BackendFamilies {
    shared: Shared,
    commands: Family<ServerLabels, Counter>,
    session_commands: Family<ServerLabels, Counter>,
    lags: Family<ServerLabels, Histogram, fn() -> Histogram>,
    errors: Family<ServerLabels, Counter>,
    connects: Family<ConnectLabels, Counter>,
    connections: Family<StateLabels, Gauge>,
    outstanding: Family<ServerLabels, Gauge>,
    durations: Durations,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConnectLabels {
    hostgroup: u32,
    server: String,
    result: &'static str,
}

/// Locked when a server is added and when all are read.
#[derive(Clone, Default)]
struct Durations(Arc<Mutex<Vec<Arc<Latencies>>>>);

/// The buckets for Prometheus, in seconds.
const BOUNDS: [f64; 17] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

const QUANTILES: [(&str, f64); 4] =
    [("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99), ("0.999", 0.999)];

impl BackendFamilies {
    pub(super) fn with(shared: Shared) -> Self {
        Self {
            shared,
            commands: Family::default(),
            session_commands: Family::default(),
            lags: Family::new_with_constructor(lags),
            errors: Family::default(),
            connects: Family::default(),
            connections: Family::default(),
            outstanding: Family::default(),
            durations: Durations::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Commands sent to a server";
        registry.register("backend_commands", help, self.commands.clone());
        let help = "Session commands that a server has executed: asked by a client, or brought to \
                    a connection that lacked them";
        registry.register("backend_session_commands", help, self.session_commands.clone());
        let help = "How many of them a connection lacked, where it lacked any";
        registry.register("backend_catch_up_lag", help, self.lags.clone());
        let help = "Replies to clients that were an error of the server's";
        registry.register("backend_errors", help, self.errors.clone());
        let help = "Attempts to connect to a server";
        registry.register("backend_connects", help, self.connects.clone());
        let help = "Connections to a server: held by a session, or idle in the pool";
        registry.register("backend_connections", help, self.connections.clone());
        let help = "Commands whose reply has not ended";
        registry.register("backend_outstanding", help, self.outstanding.clone());
        registry.register_collector(Box::new(self.durations.clone()));
    }

    pub(super) fn forget(&self, hostgroup: u32, name: &str) {
        let server = name.to_owned();
        let labels = ServerLabels { hostgroup, server: server.clone() };
        self.commands.remove(&labels);
        self.session_commands.remove(&labels);
        self.lags.remove(&labels);
        self.errors.remove(&labels);
        self.outstanding.remove(&labels);
        for result in ["ok", "failed"] {
            self.connects.remove(&ConnectLabels { hostgroup, server: server.clone(), result });
        }
        for state in ["attached", "idle"] {
            self.connections.remove(&StateLabels { hostgroup, server: server.clone(), state });
        }
        self.durations.forget(hostgroup, name);
    }

    pub(super) fn server(&self, hostgroup: u32, name: &str) -> ServerMetrics {
        let server = name.to_owned();
        let labels = ServerLabels { hostgroup, server: server.clone() };
        let connects = |result| {
            let labels = ConnectLabels { hostgroup, server: server.clone(), result };
            self.connects.get_or_create(&labels).clone()
        };
        let connections = |state| {
            let labels = StateLabels { hostgroup, server: server.clone(), state };
            self.connections.get_or_create(&labels).clone()
        };
        ServerMetrics {
            commands: self.commands.get_or_create(&labels).clone(),
            session_commands: self.session_commands.get_or_create(&labels).clone(),
            lag: self.lags.get_or_create(&labels).clone(),
            errors: self.errors.get_or_create(&labels).clone(),
            connects: connects("ok"),
            connect_failures: connects("failed"),
            attached: connections("attached"),
            idle: connections("idle"),
            outstanding: self.outstanding.get_or_create(&labels).clone(),
            shared: self.shared.clone(),
            latencies: self.durations.of(hostgroup, name),
        }
    }

    pub(super) fn operations(&self) -> Vec<Operations> {
        let mut all = Vec::new();
        for server in self.durations.all() {
            for (kind, latency) in server.known() {
                all.push(Operations {
                    place: server.place.load_full(),
                    hostgroup: server.hostgroup,
                    server: server.server.clone(),
                    kind,
                    seconds: latency.seconds(),
                    counts: latency.folded(&Operations::BOUNDS),
                });
            }
        }
        all
    }

    pub(super) fn turn(&self, now: Instant) {
        for server in self.durations.all() {
            server.known().for_each(|(_, latency)| latency.turn(now));
        }
    }
}

/// From 1 to 512, the longest log that there may be by default.
fn lags() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 10))
}

impl Durations {
    fn of(&self, hostgroup: u32, name: &str) -> Arc<Latencies> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|it| it.hostgroup == hostgroup && it.server == name) {
            return known.clone();
        }
        let kinds = array::from_fn(|_| OnceLock::new());
        let made = Arc::new(Latencies {
            hostgroup,
            server: name.to_owned(),
            place: ArcSwap::default(),
            kinds,
        });
        all.push(made.clone());
        made
    }

    fn forget(&self, hostgroup: u32, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|it| it.hostgroup != hostgroup || it.server != name);
    }

    fn all(&self) -> Vec<Arc<Latencies>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Durations({} servers)", self.all().len())
    }
}

impl Collector for Durations {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (all, unit) = (self.all(), Some(&Unit::Seconds));
        let help = "From the last byte of a command to the last byte of its reply";
        let name = "backend_command_duration";
        let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        for server in &all {
            for (kind, latency) in server.known() {
                let counts = latency.folded(&BOUNDS);
                let bounds = BOUNDS.into_iter().chain([f64::MAX]);
                let buckets: Vec<_> = bounds.zip(counts.iter().copied()).collect();
                let labels = server.labels(kind);
                let mut one = metric.encode_family(&labels)?;
                let (sum, count) = (latency.seconds(), counts.iter().sum());
                one.encode_histogram::<[(&str, &str); 0]>(sum, count, &buckets, None)?;
            }
        }
        let help = "Quantiles of that over the last minute, with an error below 1 %";
        let name = "backend_command_duration_quantile";
        let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for server in &all {
            for (kind, latency) in server.known() {
                let Some(found) = latency.quantiles(QUANTILES.map(|(_, share)| share)) else {
                    continue;
                };
                for ((name, _), seconds) in QUANTILES.iter().zip(found) {
                    let [a, b, c] = server.labels(kind);
                    let labels = [a, b, c, ("quantile", (*name).to_owned())];
                    metric.encode_family(&labels)?.encode_gauge(&seconds)?;
                }
            }
        }
        Ok(())
    }
}
