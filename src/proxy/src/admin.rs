//! The admin port: what the proxy does, for machines, for people with curl, and as a page.
//!
//! ```text
//! request ──▶ guard (who asks, in which form) ──▶ routes ──▶ status, sessions, servers, ...
//!                                                       ├──▶ overview: all of it at once, once or as a stream
//!                                                       └──▶ page: what a browser shows of that
//! ```
//!
//! `GET /metrics` is Prometheus' text format, the rest is JSON and described by `GET /openapi.json`.

mod chains;
#[allow(unused_qualifications, reason = "utoipa's macro makes them of a query's type")]
mod digests;
mod drain;
mod guard;
mod kill;
mod overview;
mod page;
mod predictions;
mod probes;
mod reload;
mod routes;
mod servers;
#[allow(unused_qualifications, reason = "as above")]
mod sessions;

pub(crate) use guard::Guard;

use crate::{
    backend::{Backends, health::machine::state_name, sessions::Sessions},
    digests::Digests,
    live::Roll,
    metrics::Metrics,
    reload::Reloads,
    runtime::Live,
};
use axum::{Json, extract::State, http::header::CONTENT_TYPE};
use chain::Chain;
use serde::Serialize;
use std::{net::SocketAddr, sync::Arc, time::Instant};
use tokio::{net::TcpListener, sync::Mutex};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

/// What the admin port shows.
pub(crate) struct Facts {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) backends: Arc<Backends>,
    /// The configuration in use.
    pub(crate) live: Arc<Live>,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) started: Instant,
    /// Locked while servers are asked for `/ready`.
    pub(crate) asking: Mutex<()>,
    /// Who is logged in.
    pub(crate) ids: Arc<Sessions>,
    pub(crate) roll: Arc<Roll>,
    pub(crate) digests: Option<Arc<Digests>>,
    pub(crate) guard: Guard,
}

/// The answer to `GET /status`.
#[derive(Serialize, ToSchema)]
struct Status {
    version: &'static str,
    uptime_seconds: u64,
    /// `running`, or `draining` once the proxy is about to end.
    state: &'static str,
    sessions: i64,
    listeners: Vec<ListenerStatus>,
    servers: Vec<ServerStatus>,
}

/// One listener.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ListenerStatus {
    /// As bound: port 0 has become a real one.
    pub(crate) address: String,
    pub(crate) chain: String,
}

/// One server of one hostgroup.
#[derive(Serialize, ToSchema)]
struct ServerStatus {
    hostgroup: u32,
    name: Arc<str>,
    weight: u32,
    /// `online`, `lagging`, `shunned`, `offline-soft` or `offline-hard`.
    state: &'static str,
    /// Whether it belongs to the hostgroup now.
    member: bool,
    /// Connections that sessions hold.
    attached: u32,
    /// Connections in the pool.
    idle: usize,
    /// Commands whose reply has not ended.
    outstanding: u32,
}

impl Facts {
    /// Those of the configuration in use.
    fn chains(&self) -> Vec<Chain> {
        let world = self.live.world();
        world.map(|world| world.config.chains.values().cloned().collect()).unwrap_or_default()
    }

    /// Listeners, as they are now.
    fn listeners(&self) -> Vec<ListenerStatus> {
        let Some(world) = self.live.world() else { return Vec::new() };
        let all = world.doors.iter().zip(&world.config.listeners);
        let status = all.map(|(door, listener)| ListenerStatus {
            address: door.local.clone(),
            chain: listener.chain.clone(),
        });
        status.collect()
    }
}

/// Serves until `ended` is cancelled.
pub(crate) async fn serve(
    listener: TcpListener,
    facts: Facts,
    ended: CancellationToken,
) -> std::io::Result<()> {
    let routes = routes::all(Arc::new(facts), &ended);
    let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, routes).with_graceful_shutdown(ended.cancelled_owned()).await
}

/// All counters, as OpenMetrics 1.0
#[utoipa::path(get, path = "/metrics", tag = "seeing",
    responses((status = 200, description = "Prometheus' text", content_type = "application/openmetrics-text", body = String)))]
async fn metrics(
    State(facts): State<Arc<Facts>>,
) -> ([(axum::http::HeaderName, &'static str); 1], String) {
    facts.metrics.pinned(&facts.ids.pins());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], facts.metrics.scrape(&facts.backends))
}

/// What there is, in short
#[utoipa::path(get, path = "/status", tag = "seeing", responses((status = 200, body = Status)))]
async fn status(State(facts): State<Arc<Facts>>) -> Json<Status> {
    Json(Status::of(&facts))
}

impl Status {
    fn of(facts: &Facts) -> Self {
        let servers = facts.backends.iter().map(|backend| ServerStatus {
            hostgroup: backend.hostgroup.0,
            name: backend.server.name.clone(),
            weight: backend.server.weight(),
            state: state_name(backend.server.standing.state()),
            member: backend.server.standing.is_member(),
            attached: backend.server.load.attached(),
            idle: backend.idle(),
            outstanding: backend.server.load.outstanding(),
        });
        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: facts.started.elapsed().as_secs(),
            state: if facts.live.is_draining() { "draining" } else { "running" },
            sessions: facts.metrics.sessions.get(),
            listeners: facts.listeners(),
            servers: servers.collect(),
        }
    }
}
