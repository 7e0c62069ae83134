//! Spans that wait to be sent. It never makes a command wait: what finds no room is dropped, and
//! counted.

use super::sender::Sender;
use crate::metrics::Spans;
use opentelemetry::Context;
use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{
        common::tonic::ResourceAttributesWithSchema,
        trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};
use std::time::Duration;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

/// The end at which spans come in.
#[derive(Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<SpanData>,
    counts: Spans,
}

/// The end at which they are taken out.
pub(super) type Waiting = mpsc::Receiver<SpanData>;

impl Queue {
    pub(super) fn new(room: usize, counts: Spans) -> (Self, Waiting) {
        let (sender, waiting) = mpsc::channel(room);
        (Self { sender, counts }, waiting)
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            self.counts.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// How spans are gathered.
pub(super) struct Batching {
    /// At most so many together.
    pub(super) most: usize,
    /// A span waits for others for so long.
    pub(super) delay: Duration,
}

/// Sends spans until `stop` is cancelled and all that waited have been sent.
pub(super) async fn run(
    mut waiting: Waiting,
    batching: Batching,
    resource: ResourceAttributesWithSchema,
    sender: &Sender,
    counts: &Spans,
    stop: &CancellationToken,
) {
    let mut batch = Vec::new();
    while gather(&mut waiting, &batching, &mut batch, stop).await {
        let count = batch.len() as u64;
        let spans = std::mem::take(&mut batch);
        let resource_spans = group_spans_by_resource_and_scope(spans, &resource);
        match sender.traces(ExportTraceServiceRequest { resource_spans }).await {
            Ok(rejected) => {
                counts.exported.inc_by(count.saturating_sub(rejected));
                counts.failed.inc_by(rejected.min(count));
            }
            Err(()) => drop(counts.failed.inc_by(count)),
        }
    }
}

/// Waits for spans. False once there are none any more.
async fn gather(
    waiting: &mut Waiting,
    batching: &Batching,
    batch: &mut Vec<SpanData>,
    stop: &CancellationToken,
) -> bool {
    let first = tokio::select! {
        biased;
        first = waiting.recv() => first,
        () = stop.cancelled() => {
            // What comes from now on is dropped.
            waiting.close();
            waiting.recv().await
        }
    };
    let Some(first) = first else { return false };
    batch.push(first);
    let until = Instant::now() + batching.delay;
    while batch.len() < batching.most {
        let next = tokio::select! {
            biased;
            next = waiting.recv() => next,
            () = tokio::time::sleep_until(until) => None,
            () = stop.cancelled() => None,
        };
        match next {
            Some(span) => batch.push(span),
            None => break,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Batching, Queue, gather};
    use crate::metrics::Spans;
    use opentelemetry::trace::{Span as _, Tracer, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn what_finds_no_room_is_counted_and_the_rest_comes_out_at_the_end() {
        let counts = Spans::default();
        let (queue, mut waiting) = Queue::new(3, counts.clone());
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        for _ in 0..5 {
            provider.tracer("test").start("span").end();
        }
        assert_eq!(counts.dropped.get(), 2);
        let (stop, mut batch) = (CancellationToken::new(), Vec::new());
        stop.cancel();
        let batching = Batching { most: 2, delay: Duration::from_secs(3600) };
        assert!(gather(&mut waiting, &batching, &mut batch, &stop).await);
        assert_eq!(batch.len(), 2);
        assert!(gather(&mut waiting, &batching, &mut batch, &stop).await);
        assert_eq!(batch.len(), 3);
        assert!(!gather(&mut waiting, &batching, &mut batch, &stop).await);
    }
}
