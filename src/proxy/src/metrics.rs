//! Counters, made once and added to without a lookup.

mod counted;
mod forwarded;
mod health;
mod kind;
mod latency;
mod operations;
mod servers;
mod shared;
mod spans;
pub(crate) mod table;
pub(crate) mod text;
mod totals;

pub(crate) use counted::Counted as CountedByFilters;
pub(crate) use forwarded::{Forwarded, Observed};
pub(crate) use health::Health;
pub(crate) use kind::Kind;
pub(crate) use operations::{Operations, Place};
pub(crate) use servers::ServerMetrics;
pub(crate) use shared::Shared;
pub(crate) use spans::Spans;
pub(crate) use totals::Totals;

use crate::backend::Backends;
use chain::{HostgroupId, Origin};
use prometheus_client::{
    encoding::{EncodeLabelSet, text as openmetrics},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Registry, Unit},
};
use servers::BackendFamilies;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use wire::command::CommandCode;

/// All metrics of one proxy.
pub(crate) struct Metrics {
    registry: Registry,
    /// Client connections that were accepted.
    pub(crate) accepted: Counter,
    /// Client connections that are open.
    pub(crate) sessions: Gauge,
    /// Tasks of the runtime that have not ended.
    pub(crate) tasks: Gauge,
    /// Logins that were refused.
    pub(crate) login_failures: Counter,
    /// Clients that were refused for the logins of their host that broke off.
    pub(crate) hosts_refused: Counter,
    /// From the last byte of a command to the last byte of its reply.
    pub(crate) duration: Histogram,
    commands: Vec<Counter>,
    client_errors: Counter,
    backend_errors: Counter,
    filter_errors: Counter,
    backends: BackendFamilies,
    pub(crate) health: Health,
    pub(crate) mirrored: Mirrored,
    pub(crate) forwarded: Forwarded,
    pub(crate) shared: Shared,
    /// Bytes of commands, and of their replies.
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
}

/// Copies for other hostgroups.
#[derive(Clone)]
pub(crate) struct Mirrored {
    pub(crate) answered: Counter,
    pub(crate) failed: Counter,
    /// There were too many at once.
    pub(crate) left_out: Counter,
}

/// Counts a session for as long as it lives.
pub(crate) struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ServerLabels {
    hostgroup: u32,
    server: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    hostgroup: u32,
    server: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CommandLabels {
    command: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OriginLabels {
    origin: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DirectionLabels {
    direction: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

impl Metrics {
    pub(crate) fn new(filters: CountedByFilters, spans: &Spans) -> Arc<Self> {
        let mut registry = Registry::with_prefix("towpath");
        registry.register_collector(Box::new(filters));
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The running version", version);

        let accepted = Counter::default();
        registry.register("connections", "Client connections accepted", accepted.clone());
        let sessions = Gauge::default();
        registry.register("sessions", "Client connections open", sessions.clone());
        let tasks = Gauge::default();
        registry.register("tasks", "Tasks that have not ended", tasks.clone());
        let login_failures = Counter::default();
        registry.register("login_failures", "Logins refused", login_failures.clone());
        let hosts_refused = Counter::default();
        let help = "Clients refused as too many logins of their host broke off";
        registry.register("hosts_refused", help, hosts_refused.clone());
        let duration = durations();
        let help = "From the last byte of a command to the last byte of its reply";
        registry.register_with_unit("command_duration", help, Unit::Seconds, duration.clone());

        let commands = by_command(&mut registry, "commands", "Commands read from clients");

        let errors = Family::<OriginLabels, Counter>::default();
        registry.register("errors", "Errors of the proxy's own, by whose fault", errors.clone());
        let error = |origin| errors.get_or_create(&OriginLabels { origin }).clone();
        let (client_errors, backend_errors, filter_errors) =
            (error("client"), error("backend"), error("filter"));

        let copies = Family::<OutcomeLabels, Counter>::default();
        registry.register("mirrored", "Copies of statements for mirrors", copies.clone());
        let copy = |outcome| copies.get_or_create(&OutcomeLabels { outcome }).clone();
        let mirrored = Mirrored {
            answered: copy("answered"),
            failed: copy("failed"),
            left_out: copy("left-out"),
        };

        let forwarded = Forwarded::new(&mut registry);
        let shared = Shared::register(&mut registry);
        let backends = BackendFamilies::with(shared.clone());
        backends.register(&mut registry);
        let health = Health::default();
        health.register(&mut registry);
        registry.register_collector(Box::new(spans.clone()));
        let bytes = Family::<DirectionLabels, Counter>::default();
        let help = "Bytes of commands read from clients and of replies written to them, before TLS and \
                    compression";
        registry.register_with_unit("client", help, Unit::Bytes, bytes.clone());
        let direction = |direction| bytes.get_or_create(&DirectionLabels { direction }).clone();
        let (received, sent) = (direction("received"), direction("sent"));
        Arc::new(Self {
            registry,
            accepted,
            sessions,
            tasks,
            login_failures,
            hosts_refused,
            duration,
            commands,
            client_errors,
            backend_errors,
            filter_errors,
            backends,
            health,
            mirrored,
            forwarded,
            shared,
            received,
            sent,
        })
    }

    /// Counts a session until what it gives is dropped.
    pub(crate) fn session(&self) -> Counted {
        self.sessions.inc();
        Counted(self.sessions.clone())
    }

    /// Counts a command.
    pub(crate) fn command(&self, code: CommandCode) {
        self.commands[usize::from(code.0)].inc();
    }

    /// Counts an error of the proxy's own.
    pub(crate) fn error(&self, origin: Origin) {
        match origin {
            Origin::Client => self.client_errors.inc(),
            Origin::Backend => self.backend_errors.inc(),
            _ => self.filter_errors.inc(),
        };
    }

    /// Notes how long a command took.
    pub(crate) fn took(&self, duration: Duration) {
        self.duration.observe(duration.as_secs_f64());
    }

    /// The handles of one server.
    pub(crate) fn server(&self, hostgroup: HostgroupId, name: &str) -> ServerMetrics {
        self.backends.server(hostgroup.0, name)
    }

    /// What servers have done, as OpenTelemetry counts it.
    pub(crate) fn operations(&self) -> Vec<Operations> {
        self.backends.operations()
    }

    /// Moves quantiles on; at least every ten seconds.
    pub(crate) fn turn(&self, now: Instant) {
        self.backends.turn(now);
    }

    /// Looks at what is not counted but measured, then gives everything as [`Self::render`] does.
    pub(crate) fn scrape(&self, backends: &Backends) -> String {
        for backend in backends.all() {
            let (load, gauges) = (&backend.server.load, &backend.metrics);
            gauges.attached.set(load.attached().into());
            gauges.outstanding.set(load.outstanding().into());
            gauges.idle.set(i64::try_from(backend.idle()).unwrap_or(i64::MAX));
        }
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        self.tasks.set(i64::try_from(tasks).unwrap_or(i64::MAX));
        self.render()
    }

    /// Shows a server no more: the configuration names it no more, and nobody uses it.
    pub(crate) fn forget(&self, hostgroup: HostgroupId, name: &str) {
        self.backends.forget(hostgroup.0, name);
        self.health.forget(hostgroup, name);
    }

    /// Everything in Prometheus' text format (OpenMetrics 1.0).
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        openmetrics::encode(&mut out, &self.registry).expect("writing to a string cannot fail");
        out
    }
}

/// One counter for each code of a command; those without a name share one.
fn by_command(registry: &mut Registry, name: &str, help: &str) -> Vec<Counter> {
    let family = Family::<CommandLabels, Counter>::default();
    registry.register(name, help, family.clone());
    let counter = |code| {
        let command = CommandCode(code).name();
        family.get_or_create(&CommandLabels { command }).clone()
    };
    (0..=u8::MAX).map(counter).collect()
}

/// 16 us to about 34 s.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(16e-6, 2.0, 22))
}
