//! `POST /drain`: the proxy ends as by SIGTERM.

use super::{
    Facts,
    guard::{Refusal, Refused, refuse},
};
use axum::{
    Json,
    extract::{ConnectInfo, State},
    http::StatusCode,
};
use serde::Serialize;
use std::{net::SocketAddr, sync::Arc};
use utoipa::ToSchema;

/// The answer.
#[derive(Serialize, ToSchema)]
pub(super) struct Draining {
    draining: bool,
    /// Clients that are there.
    sessions: i64,
    /// How long they may go on, at most.
    grace_seconds: f64,
}

/// End, as by SIGTERM
#[utoipa::path(post, path = "/drain", tag = "orders", responses(
    (status = 202, description = "No client is accepted any more, and those that are there may finish",
        body = Draining),
    (status = 503, description = "It does not serve yet", body = Refusal),
))]
pub(super) async fn drain(
    State(facts): State<Arc<Facts>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Result<(StatusCode, Json<Draining>), Refused> {
    let sessions = facts.metrics.sessions.get();
    if !facts.reloads.drain(&format!("POST /drain from {peer}")) {
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "it does not serve yet"));
    }
    let grace = facts.live.world().map(|world| world.config.shutdown.grace).unwrap_or_default();
    let answer = Draining { draining: true, sessions, grace_seconds: grace.as_secs_f64() };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
