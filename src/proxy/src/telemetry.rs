//! What the proxy tells a collector of OpenTelemetry: commands as spans, counters as metrics.
//!
//! ```text
//! session ── begin ─▶ Traced (parent, sampling) ── trail on the command ─▶ dispatch, connection
//!         ── end ───▶ spans.rs: one SERVER span, a CLIENT span for each exchange ─▶ queue ─▶ sender
//! ```
//!
//! Whether a command is traced is decided before anything is made of it. While it runs, a small
//! record ([`Trail`]) is all there is; where that was decided at once there is also a span of the
//! crate `tracing`, so that filters' own spans and events have a parent.

mod observed;
mod parent;
mod points;
mod queue;
mod report;
mod sampling;
mod sender;
mod spans;
#[cfg(test)]
mod tests;
mod trail;

pub(crate) use observed::{Observed, Via};
pub(crate) use sampling::{Traced, Tracing};
pub(crate) use trail::{Leg, Trail};

use crate::{
    config::{Config, Otlp, Trace, TraceLevel},
    metrics::Spans,
};
use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use queue::{Queue, Waiting};
use sender::Sender;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer,
    filter::{FilterExt, dynamic_filter_fn},
    layer::{Context, Filter},
    registry::LookupSpan,
};

/// The target of spans of commands; a log leaves them out.
pub const TARGET: &str = "towpath::command";

/// What is needed to tell a collector, made before the log begins.
#[derive(Debug, Default)]
pub struct Telemetry(Option<Started>);

#[derive(Debug)]
struct Started {
    otlp: Otlp,
    provider: SdkTracerProvider,
    level: TraceLevel,
    tracing: Option<Arc<Tracing>>,
    resource: Resource,
    sender: Arc<Sender>,
    waiting: Waiting,
    spans: Spans,
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
#[error("otlp.endpoint: {0}")]
pub struct TelemetryError(String);

impl Telemetry {
    /// Makes what `config` asks for: nothing without an endpoint. In a runtime of tokio's; nothing
    /// is connected yet.
    ///
    /// # Errors
    ///
    /// An endpoint that nothing can be sent to.
    pub fn new(config: &Config) -> Result<Self, TelemetryError> {
        Self::of(&config.otlp, &config.trace)
    }

    fn of(otlp: &Otlp, trace: &Trace) -> Result<Self, TelemetryError> {
        let otlp = otlp.clone();
        let Some(endpoint) = &otlp.endpoint else { return Ok(Self::default()) };
        let sender = Sender::new(endpoint, &otlp).map_err(TelemetryError)?;
        let resource = resource(&otlp);
        let spans = Spans::default();
        let (queue, waiting) = Queue::new(otlp.queue as usize, spans.clone());
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            // What is not to be told is not made.
            .with_sampler(Sampler::AlwaysOn)
            .with_span_processor(queue)
            .build();
        let tracing =
            trace.is_on().then(|| Arc::new(Tracing::new(trace, provider.tracer("towpath"))));
        let (level, sender) = (trace.level, Arc::new(sender));
        Ok(Self(Some(Started { otlp, provider, level, tracing, resource, sender, waiting, spans })))
    }

    /// Takes spans of commands, and what filters put into them, out of the crate `tracing`. `None`
    /// where nothing is traced.
    pub fn layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let started = self.0.as_ref()?;
        started.tracing.as_ref()?;
        let level = match started.level {
            TraceLevel::Info => LevelFilter::INFO,
            TraceLevel::Debug => LevelFilter::DEBUG,
        };
        let layer = tracing_opentelemetry::layer()
            .with_tracer(started.provider.tracer("towpath"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        Some(layer.with_filter(inside(level).and(level)))
    }

    /// How commands are traced, if they are.
    pub(crate) fn tracing(&self) -> Option<Arc<Tracing>> {
        self.0.as_ref()?.tracing.clone()
    }

    /// Whether each filter's time is told.
    pub(crate) fn times_filters(&self) -> bool {
        let timed = |started: &Started| started.level == TraceLevel::Debug;
        self.tracing().is_some() && self.0.as_ref().is_some_and(timed)
    }

    /// What counts spans.
    pub(crate) fn spans(&self) -> Spans {
        self.0.as_ref().map(|started| started.spans.clone()).unwrap_or_default()
    }
}

/// Spans of commands, and whatever happens inside of one.
fn inside<S>(level: LevelFilter) -> impl Filter<S> + Send + Sync + 'static
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let inside = dynamic_filter_fn(|metadata: &tracing::Metadata<'_>, context: &Context<'_, S>| {
        metadata.target() == TARGET && metadata.is_span() || context.lookup_current().is_some()
    });
    inside.with_max_level_hint(level)
}

fn resource(otlp: &Otlp) -> Resource {
    let own = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", format!("{:032x}", fastrand::u128(..))),
    ];
    let more = otlp.resource.iter();
    let more = more.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder()
        .with_service_name(otlp.service_name.clone())
        .with_attributes(own)
        .with_attributes(more)
        .build()
}
