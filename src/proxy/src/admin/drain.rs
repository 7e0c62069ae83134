//! `POST /drain`: the proxy ends as by SIGTERM.

use super::{
    Facts,
    servers::{Refused, from_here, refuse},
};
use axum::{
    Json,
    extract::{ConnectInfo, State},
    http::{HeaderMap, StatusCode},
};
use serde::Serialize;
use std::{net::SocketAddr, sync::Arc};

/// The answer.
#[derive(Serialize)]
pub(super) struct Draining {
    draining: bool,
    /// Clients that are there.
    sessions: i64,
    /// How long they may go on, at most.
    grace_seconds: f64,
}

/// 202: no client is accepted any more, and those that are there may finish.
pub(super) async fn drain(
    State(facts): State<Arc<Facts>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Draining>), Refused> {
    from_here(peer, &headers)?;
    let sessions = facts.metrics.sessions.get();
    if !facts.reloads.drain(&format!("POST /drain from {peer}")) {
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "it does not serve yet"));
    }
    let grace = facts.live.world().map(|world| world.config.shutdown.grace).unwrap_or_default();
    let answer = Draining { draining: true, sessions, grace_seconds: grace.as_secs_f64() };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
