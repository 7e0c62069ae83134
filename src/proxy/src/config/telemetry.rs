//! What is sent to a collector of OpenTelemetry: `[otlp]` says where, `[trace]` which commands.

use super::part::Entry;
use chain::settings::{HumanDuration, Mistakes, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Where traces and metrics are sent, by OTLP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Otlp {
    /// The collector's URL, as "http://127.0.0.1:4317"; without one nothing is sent. Headers for it
    /// stand in the environment, as OTEL_EXPORTER_OTLP_HEADERS.
    pub endpoint: Option<String>,
    /// How it is spoken to.
    pub protocol: OtlpProtocol,
    /// How long one request may take.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub timeout: Duration,
    /// `service.name` of all that is sent.
    #[schemars(length(min = 1))]
    pub service_name: String,
    /// Further attributes of the resource, as { "deployment.environment.name" = "test" }.
    pub resource: BTreeMap<String, String>,
    /// How often metrics are sent; "0s" is never. They are on the admin port in any case.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub metrics_interval: Duration,
    /// Spans that wait to be sent; those for which there is no room are counted and dropped.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub queue: u32,
    /// Spans in one request at most.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch: u32,
    /// How long a span waits for others before it is sent.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub batch_delay: Duration,
}

/// How a collector is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OtlpProtocol {
    /// gRPC, usually on port 4317.
    #[default]
    Grpc,
    /// HTTP with protobuf, usually on port 4318.
    Http,
}

/// Which commands are traced, and what is told of them. A command is traced if one of `ratio`,
/// `parent` and `slow` says so.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// The share of commands that are traced, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub ratio: f64,
    /// Whether a client that is traced itself decides for its commands, instead of `ratio`.
    pub parent: bool,
    /// Where clients say of which trace a command is a part.
    pub parents: Vec<ParentSource>,
    /// Commands that take longer are traced, and those that fail; "0s" is none.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub slow: Duration,
    /// What is told of a statement's text.
    pub query_text: QueryText,
    /// Up to which level spans and events of filters are told; with "debug" each filter has a span
    /// of its own.
    pub level: TraceLevel,
}

/// Where a client says of which trace a command is a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParentSource {
    /// The query attribute `traceparent`, which MySQL's clients can send.
    Attributes,
    /// `traceparent='...'` in a comment of the statement, as sqlcommenter writes it.
    Comments,
}

/// What is told of a statement's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueryText {
    /// Its digest: no values.
    #[default]
    Digest,
    /// All of it, with passwords and whatever else stands in it.
    Full,
    /// Nothing but the verb and the tables.
    None,
}

/// How much filters tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceLevel {
    /// What they tell at level info and above.
    #[default]
    Info,
    /// Also at level debug, and how long each filter took.
    Debug,
}

impl Trace {
    /// Whether any command may be traced.
    pub fn is_on(&self) -> bool {
        self.ratio > 0.0 || self.parent && !self.parents.is_empty() || !self.slow.is_zero()
    }
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            endpoint: None,
            protocol: OtlpProtocol::Grpc,
            timeout: Duration::from_secs(10),
            service_name: "towpath".to_owned(),
            resource: BTreeMap::new(),
            metrics_interval: Duration::ZERO,
            queue: 8192,
            batch: 512,
            batch_delay: Duration::from_secs(1),
        }
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            ratio: 0.0,
            parent: true,
            parents: vec![ParentSource::Attributes],
            slow: Duration::ZERO,
            query_text: QueryText::Digest,
            level: TraceLevel::Info,
        }
    }
}

pub(super) fn check(otlp: &Entry<Otlp>, trace: &Entry<Trace>, mistakes: &mut Mistakes) {
    otlp.not_zero(&[("timeout", otlp.value.timeout)], mistakes);
    if let Some(endpoint) = &otlp.value.endpoint
        && !is_url(endpoint)
    {
        let mistake = otlp.settings.mistake_at("endpoint", "this is no URL of http or https");
        mistakes.push(mistake.hint("for example \"http://127.0.0.1:4317\""));
    }
    if otlp.value.service_name.is_empty() {
        mistakes.push(otlp.settings.mistake_at("service_name", "a service has a name"));
    }
    let Trace { ratio, slow, .. } = trace.value;
    if !(0.0..=1.0).contains(&ratio) {
        mistakes.push(trace.settings.mistake_at("ratio", "a share is from 0 to 1"));
    }
    if otlp.value.endpoint.is_none() && (ratio > 0.0 || !slow.is_zero()) {
        let key = if ratio > 0.0 { "ratio" } else { "slow" };
        let mistake = trace.settings.mistake_at(key, "nothing says where traces are sent");
        mistakes.push(mistake.hint("add [otlp] endpoint = \"http://127.0.0.1:4317\""));
    }
}

fn is_url(text: &str) -> bool {
    text.parse::<axum::http::Uri>()
        .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
}
