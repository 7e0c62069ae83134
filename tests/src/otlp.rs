//! A collector of OpenTelemetry's: takes what is sent by OTLP, over gRPC and HTTP on one port, and
//! keeps it.

use crate::wait;
use anyhow::{Context, Result};
use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
    metrics::v1::Metric,
    trace::v1::Span,
};
use prost::Message;
use std::{
    fmt::Write,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{net::TcpListener, runtime::Runtime};
use tonic::{Request, Response, Status, service::Routes};

/// A collector that takes everything.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    taken: Taken,
    _runtime: Runtime,
}

/// What has been taken. Clones share it.
#[derive(Clone, Debug, Default)]
struct Taken(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    /// `authorization` headers, one for each request that had one.
    keys: Vec<String>,
}

impl Collector {
    /// Begins to take what is sent.
    pub fn start() -> Result<Self> {
        let runtime = Runtime::new()?;
        let taken = Taken::default();
        let grpc = Routes::new(TraceServiceServer::new(taken.clone()))
            .add_service(MetricsServiceServer::new(taken.clone()));
        let http = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .with_state(taken.clone());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let routes = http.merge(grpc.into_axum_router());
        runtime.spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { address, taken, _runtime: runtime })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        let contents = self.taken.lock();
        let resources = contents.traces.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.iter().cloned()).collect()
    }

    /// What the first request with spans says of its resource.
    pub fn resource(&self) -> Vec<KeyValue> {
        let contents = self.taken.lock();
        let first = contents.traces.first().and_then(|request| request.resource_spans.first());
        let resource = first.and_then(|spans| spans.resource.as_ref());
        resource.map(|resource| resource.attributes.clone()).unwrap_or_default()
    }

    /// The metrics of the last request that had some.
    pub fn metrics(&self) -> Vec<Metric> {
        let contents = self.taken.lock();
        let last = contents.metrics.last().map(|request| &request.resource_metrics);
        let scopes = last.into_iter().flatten().flat_map(|resource| &resource.scope_metrics);
        scopes.flat_map(|scope| scope.metrics.iter().cloned()).collect()
    }

    /// The `authorization` headers that came.
    pub fn keys(&self) -> Vec<String> {
        self.taken.lock().keys.clone()
    }

    /// Waits for a span that fits.
    pub fn span(&self, what: &str, fits: impl Fn(&Span) -> bool) -> Result<Span> {
        wait::until(what, || Ok(self.spans().into_iter().find(|span| fits(span))))
            .with_context(|| self.names())
    }

    /// The spans whose parent this is, in the order in which they began.
    pub fn children(&self, parent: &Span) -> Vec<Span> {
        let mut all = self.spans();
        all.retain(|span| {
            span.parent_span_id == parent.span_id && span.trace_id == parent.trace_id
        });
        all.sort_by_key(|span| span.start_time_unix_nano);
        all
    }

    /// Everything that was ever taken, for a search in it.
    pub fn everything(&self) -> String {
        let contents = self.taken.lock();
        format!("{:?} {:?}", contents.traces, contents.metrics)
    }

    fn names(&self) -> String {
        self.spans().iter().fold("spans:".to_owned(), |mut all, span| {
            let _ = write!(all, " {:?}", span.name);
            all
        })
    }
}

/// An attribute's value, as text; numbers of a list with commas between.
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.as_ref().map(text)
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(yes)) => yes.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::ArrayValue(list)) => list.values.iter().map(text).collect::<Vec<_>>().join(","),
        other => format!("{other:?}"),
    }
}

impl Taken {
    fn lock(&self) -> std::sync::MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, key: Option<&str>) {
        self.lock().keys.extend(key.map(str::to_owned));
    }
}

#[tonic::async_trait]
impl TraceService for Taken {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.key(request.metadata().get("authorization").and_then(|key| key.to_str().ok()));
        self.lock().traces.push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Taken {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.lock().metrics.push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

async fn traces(State(taken): State<Taken>, headers: HeaderMap, body: Bytes) -> &'static [u8] {
    taken.key(headers.get("authorization").and_then(|key| key.to_str().ok()));
    taken.lock().traces.extend(ExportTraceServiceRequest::decode(body).ok());
    b""
}

async fn metrics(State(taken): State<Taken>, body: Bytes) -> &'static [u8] {
    taken.lock().metrics.extend(ExportMetricsServiceRequest::decode(body).ok());
    b""
}
