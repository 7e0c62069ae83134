//! The admin port: what the proxy does, for machines and for people with curl.
//!
//! `GET /metrics` is Prometheus' text format, `GET /status` and `GET /servers` JSON; `GET /live` and
//! `GET /ready` are for whoever starts the proxy.

mod drain;
mod probes;
mod reload;
mod servers;

use crate::{
    backend::{Backends, health::machine::state_name, sessions::Sessions},
    metrics::Metrics,
    reload::Reloads,
    runtime::Live,
};
use axum::{
    Json, Router,
    extract::State,
    http::header::CONTENT_TYPE,
    routing::{get, post},
};
use serde::Serialize;
use std::{net::SocketAddr, sync::Arc, time::Instant};
use tokio::{net::TcpListener, sync::Mutex};
use tokio_util::sync::CancellationToken;

/// What the admin port shows.
pub(crate) struct Facts {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) backends: Arc<Backends>,
    /// The configuration in use.
    pub(crate) live: Arc<Live>,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) started: Instant,
    /// Who is logged in.
    pub(crate) clients: Arc<Sessions>,
    /// Locked while servers are asked for `/ready`.
    pub(crate) asking: Mutex<()>,
}

/// The answer to `GET /status`.
#[derive(Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListenerStatus {
    /// As bound: port 0 has become a real one.
    pub(crate) address: String,
    pub(crate) chain: String,
}

/// One server of one hostgroup.
#[derive(Serialize)]
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
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/live", get(probes::live))
        .route("/ready", get(probes::ready))
        .route("/reload", post(reload::reload))
        .route("/drain", post(drain::drain))
        .route("/servers", get(servers::all))
        .route("/servers/{name}/state", post(servers::order))
        .with_state(Arc::new(facts));
    let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, routes).with_graceful_shutdown(ended.cancelled_owned()).await
}

async fn metrics(
    State(facts): State<Arc<Facts>>,
) -> ([(axum::http::HeaderName, &'static str); 1], String) {
    facts.metrics.pinned(&facts.clients.pins());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], facts.metrics.scrape(&facts.backends))
}

async fn status(State(facts): State<Arc<Facts>>) -> Json<Status> {
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
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: facts.started.elapsed().as_secs(),
        state: if facts.live.is_draining() { "draining" } else { "running" },
        sessions: facts.metrics.sessions.get(),
        listeners: facts.listeners(),
        servers: servers.collect(),
    })
}
