//! What is sent while the proxy runs.

use super::{
    Started, Telemetry,
    points::{self, Times},
    queue::{self, Batching},
    sender::Sender,
};
use crate::{backend::Backends, metrics::Metrics};
use opentelemetry_proto::{
    tonic::{
        collector::metrics::v1::ExportMetricsServiceRequest,
        common::v1::InstrumentationScope,
        metrics::v1::{ResourceMetrics, ScopeMetrics},
        resource::v1::Resource,
    },
    transform::common::tonic::ResourceAttributesWithSchema,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The tasks that send.
pub(crate) struct Report {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    /// How long they may take in the end.
    patience: Duration,
}

impl Telemetry {
    /// Begins to send what there is to send.
    pub(crate) fn begin(self, metrics: Arc<Metrics>, backends: Arc<Backends>) -> Report {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        let Some(Started { otlp, resource, sender, waiting, spans, tracing, .. }) = self.0 else {
            return Report { tasks, stop, patience: Duration::ZERO };
        };
        let attributes = ResourceAttributesWithSchema::from(&resource);
        if !otlp.metrics_interval.is_zero() {
            let resource =
                Resource { attributes: attributes.attributes.0.clone(), ..Resource::default() };
            let (sender, stop) = (sender.clone(), stop.clone());
            let every = otlp.metrics_interval;
            tasks.spawn(async move {
                let counted = Counted { metrics, backends, resource, start: nanos_now() };
                counted.send(every, &sender, &stop).await;
            });
        }
        if tracing.is_some() {
            let batching = Batching { most: otlp.batch as usize, delay: otlp.batch_delay };
            let stop = stop.clone();
            tasks.spawn(async move {
                queue::run(waiting, batching, attributes, &sender, &spans, &stop).await;
            });
        }
        Report { tasks, stop, patience: otlp.timeout }
    }
}

impl Report {
    /// Sends what still waits, for a bounded time.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.patience, ended).await.is_err() {
            tracing::warn!("the collector has not taken all that there was to tell");
        }
    }
}

struct Counted {
    metrics: Arc<Metrics>,
    backends: Arc<Backends>,
    resource: Resource,
    start: u64,
}

impl Counted {
    async fn send(self, every: Duration, sender: &Sender, stop: &CancellationToken) {
        loop {
            let stopped = tokio::time::timeout(every, stop.cancelled()).await.is_ok();
            // A failure has been told of; the next numbers say all that these did.
            let _ = sender.metrics(self.request()).await;
            if stopped {
                return;
            }
        }
    }

    fn request(&self) -> ExportMetricsServiceRequest {
        let times = Times { start: self.start, now: nanos_now() };
        let text = self.metrics.scrape(&self.backends);
        let mut metrics = points::of_text(&text, times);
        metrics.push(points::of_operations(&self.metrics.operations(), times));
        let scope =
            InstrumentationScope { name: "towpath".to_owned(), ..InstrumentationScope::default() };
        let scope_metrics =
            vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.clone());
        let resource_metrics =
            vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
        ExportMetricsServiceRequest { resource_metrics }
    }
}

fn nanos_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
