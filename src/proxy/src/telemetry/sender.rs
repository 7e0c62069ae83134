//! OTLP, over gRPC or HTTP.

use crate::config::{Otlp, OtlpProtocol};
use axum::http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header::CONTENT_TYPE};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_proto::tonic::collector::{
    metrics::v1::{ExportMetricsServiceRequest, metrics_service_client::MetricsServiceClient},
    trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_client::TraceServiceClient,
    },
};
use prost::Message;
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};
use tonic::{
    Code,
    metadata::{KeyAndValueRef, MetadataMap},
    transport::{Channel, ClientTlsConfig, Endpoint},
};

/// Sends to one collector.
pub(super) struct Sender {
    way: Way,
    headers: Vec<(HeaderName, HeaderValue)>,
    timeout: Duration,
    /// The last request failed, and that was told of.
    failing: AtomicBool,
}

enum Way {
    Grpc(Channel),
    Http { client: Box<HttpClient>, base: String },
}

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Why a request came to nothing.
struct Failure {
    why: String,
    /// The same request may do better later.
    may_pass: bool,
}

/// How often a request is sent, with pauses of 1 s, 2 s, ... between.
const ATTEMPTS: u32 = 3;
/// What a collector answers at most, in bytes.
const ANSWER: usize = 1 << 16;

impl Sender {
    /// Connects to nothing yet. The error is for people.
    pub(super) fn new(endpoint: &str, otlp: &Otlp) -> Result<Self, String> {
        let way = match otlp.protocol {
            OtlpProtocol::Grpc => {
                let mut to = Endpoint::from_shared(endpoint.to_owned())
                    .map_err(|error| error.to_string())?
                    .timeout(otlp.timeout)
                    .connect_timeout(otlp.timeout);
                if endpoint.starts_with("https:") {
                    let tls = ClientTlsConfig::new().with_webpki_roots();
                    to = to.tls_config(tls).map_err(|error| error.to_string())?;
                }
                Way::Grpc(to.connect_lazy())
            }
            OtlpProtocol::Http => {
                let https = HttpsConnectorBuilder::new()
                    .with_provider_and_webpki_roots(rustls::crypto::aws_lc_rs::default_provider())
                    .map_err(|error| error.to_string())?
                    .https_or_http()
                    .enable_http1()
                    .build();
                let client = Box::new(Client::builder(TokioExecutor::new()).build(https));
                Way::Http { client, base: endpoint.trim_end_matches('/').to_owned() }
            }
        };
        let headers = std::env::var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let (headers, failing) = (headers_of(&headers), AtomicBool::new(false));
        Ok(Self { way, headers, timeout: otlp.timeout, failing })
    }

    /// Sends spans. Gives how many of them the collector refused.
    pub(super) async fn traces(&self, request: ExportTraceServiceRequest) -> Result<u64, ()> {
        let sent = self.again(|| async {
            match &self.way {
                Way::Grpc(channel) => {
                    let mut client = TraceServiceClient::new(channel.clone());
                    let sent = client.export(self.request(request.clone())).await;
                    sent.map(|answer| answer.into_inner()).map_err(Failure::from)
                }
                Way::Http { .. } => {
                    let answer = self.post("/v1/traces", request.encode_to_vec()).await?;
                    Ok(ExportTraceServiceResponse::decode(answer).unwrap_or_default())
                }
            }
        });
        let refused = |answer: ExportTraceServiceResponse| answer.partial_success;
        let refused = sent.await.map(refused)?.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(refused).unwrap_or(0))
    }

    /// Sends metrics.
    pub(super) async fn metrics(&self, request: ExportMetricsServiceRequest) -> Result<(), ()> {
        self.again(|| async {
            match &self.way {
                Way::Grpc(channel) => {
                    let mut client = MetricsServiceClient::new(channel.clone());
                    let sent = client.export(self.request(request.clone())).await;
                    sent.map(drop).map_err(Failure::from)
                }
                Way::Http { .. } => {
                    self.post("/v1/metrics", request.encode_to_vec()).await.map(drop)
                }
            }
        })
        .await
    }

    /// Tries until it is done or cannot be. Says so once when it begins to fail.
    async fn again<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, ()> {
        for tried in 1.. {
            let Failure { why, may_pass } = match attempt().await {
                Ok(done) => {
                    self.failing.store(false, Relaxed);
                    return Ok(done);
                }
                Err(failure) => failure,
            };
            if !may_pass || tried >= ATTEMPTS {
                if !self.failing.swap(true, Relaxed) {
                    tracing::warn!(%why, "the collector of traces and metrics cannot be reached");
                }
                return Err(());
            }
            tokio::time::sleep(Duration::from_secs(tried.into())).await;
        }
        Err(())
    }

    fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let mut headers = axum::http::HeaderMap::new();
        headers.extend(self.headers.iter().cloned());
        for header in MetadataMap::from_headers(headers).iter() {
            if let KeyAndValueRef::Ascii(key, value) = header {
                request.metadata_mut().insert(key.clone(), value.clone());
            }
        }
        request
    }

    async fn post(&self, path: &str, body: Vec<u8>) -> Result<Bytes, Failure> {
        let Way::Http { client, base } = &self.way else { return Ok(Bytes::new()) };
        let wrong =
            |error: &dyn std::fmt::Display| Failure { why: error.to_string(), may_pass: false };
        let uri = format!("{base}{path}").parse::<Uri>().map_err(|error| wrong(&error))?;
        let mut request = Request::post(uri)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| wrong(&error))?;
        request.headers_mut().extend(self.headers.iter().cloned());
        let answered = async {
            let answer = client.request(request).await.map_err(Failure::passing)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER).collect().await;
            let body = body.map_err(Failure::passing)?.to_bytes();
            if status.is_success() {
                return Ok(body);
            }
            let may_pass = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            Err(Failure { why: status.to_string(), may_pass })
        };
        let late = |_| Err(Failure { why: "no answer in time".to_owned(), may_pass: true });
        tokio::time::timeout(self.timeout, answered).await.unwrap_or_else(late)
    }
}

impl Failure {
    fn passing(error: impl std::fmt::Display) -> Self {
        Self { why: error.to_string(), may_pass: true }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        let may_pass = matches!(
            status.code(),
            Code::Unavailable
                | Code::DeadlineExceeded
                | Code::ResourceExhausted
                | Code::Aborted
                | Code::Cancelled
        );
        Self { why: format!("{}: {}", status.code(), status.message()), may_pass }
    }
}

/// Headers as the environment has them, `key=value` with commas between. What is none is left out.
fn headers_of(text: &str) -> Vec<(HeaderName, HeaderValue)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.filter_map(|(name, value)| {
        let name = name.trim().to_ascii_lowercase().parse().ok()?;
        let mut value = HeaderValue::from_str(value.trim()).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    });
    pairs.collect()
}

/// Headers may be secrets.
impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}
