//! What a filter says by the crate `tracing` becomes part of its command's trace.

use super::{Started, Telemetry};
use crate::config::{Otlp, Trace, TraceLevel};
use chain::{Chain, Command, Filter, Next, Registry, Reply, Result, testing};
use opentelemetry::trace::SpanKind;
use opentelemetry_sdk::trace::SpanData;
use std::time::Instant;
use tower::{Service, ServiceExt};
use tracing::{Instrument, field::Empty};
use tracing_subscriber::layer::SubscriberExt;

/// A filter of somebody else's.
struct LooksUp;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {}

impl Filter for LooksUp {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        let span = tracing::info_span!("look up", table = "prices", rows = Empty);
        let reply = next.run(command).instrument(span.clone()).await;
        span.record("rows", 3);
        tracing::info!(found = true, "looked up");
        tracing::debug!("not at this level");
        reply
    }
}

fn chain() -> Chain {
    let registry = Registry::default()
        .with_layer("looks-up", |_: Settings| Ok(chain::each_session(|| LooksUp)));
    testing::chain("session = [{ use = 'looks-up' }]", &registry).expect("is good")
}

/// The spans of one command, in the order in which they ended.
async fn told(trace: Trace) -> Vec<SpanData> {
    let otlp = Otlp { endpoint: Some("http://127.0.0.1:9".to_owned()), ..Otlp::default() };
    let telemetry = Telemetry::of(&otlp, &trace).expect("is good");
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let _guard = tracing::subscriber::set_default(subscriber);
    let tracing = telemetry.tracing().expect("commands are traced");
    let mut stack = chain().session(testing::ok(testing::Log::default()));
    let command = Command::query(testing::session(), "SELECT 1");
    let traced = tracing.begin(&command, Instant::now());
    let (command, span) = match &traced {
        Some(traced) => (traced.follow(command), traced.span()),
        None => (command, tracing::Span::none()),
    };
    let call = async { stack.ready().await.expect("is ready").call(command).await };
    call.instrument(span).await.expect("an answer").collect().await.expect("all of it");
    drop(traced);
    let Some(Started { mut waiting, .. }) = telemetry.0 else { panic!("it has begun") };
    let mut all = Vec::new();
    while let Ok(span) = waiting.try_recv() {
        all.push(span);
    }
    all
}

#[tokio::test]
async fn a_filter_s_spans_and_events_are_in_the_trace() {
    let all = told(Trace { ratio: 1.0, ..Trace::default() }).await;
    let [inner, outer] = &all[..] else { panic!("{all:?}") };
    assert_eq!((outer.span_kind.clone(), &*outer.name), (SpanKind::Server, "SELECT"));
    assert_eq!(inner.name, "look up");
    assert_eq!(inner.parent_span_id, outer.span_context.span_id());
    let attributes: Vec<_> =
        inner.attributes.iter().map(|one| format!("{}={}", one.key, one.value)).collect();
    for expected in ["table=prices", "rows=3"] {
        assert!(attributes.iter().any(|one| one == expected), "{expected}: {attributes:?}");
    }
    let events: Vec<_> = outer.events.iter().map(|event| &*event.name).collect();
    assert_eq!(events, ["looked up"]);
    let found = outer.events.iter().flat_map(|event| &event.attributes);
    assert!(found.into_iter().any(|one| one.key.as_str() == "found"), "{outer:?}");
}

#[tokio::test]
async fn at_level_debug_more_is_told() {
    let trace = Trace { ratio: 1.0, level: TraceLevel::Debug, ..Trace::default() };
    let all = told(trace).await;
    let events = all.last().map(|outer| outer.events.len());
    assert_eq!(events, Some(2), "{all:?}");
}

#[tokio::test]
async fn nothing_is_told_of_a_command_that_is_not_traced() {
    assert!(told(Trace::default()).await.is_empty());
}
