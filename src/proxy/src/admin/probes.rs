//! `/live` and `/ready`, for whoever starts the proxy and sends clients to it.

use super::Facts;
use crate::backend::Backend;
use axum::{Json, extract::State, http::StatusCode};
use chain::{HostgroupId, topology::ServerState};
use futures_util::future::join_all;
use serde::Serialize;
use std::sync::Arc;

/// The answer to `GET /ready`.
#[derive(Serialize)]
pub(super) struct Readiness {
    ready: bool,
    /// Why it is not.
    causes: Vec<String>,
}

/// The process serves, whatever it serves: there is no other answer.
pub(super) async fn live() -> &'static str {
    "live\n"
}

/// 200 if a client that comes now can be served, else 503.
pub(super) async fn ready(State(facts): State<Arc<Facts>>) -> (StatusCode, Json<Readiness>) {
    let mut causes = Vec::new();
    if facts.live.is_draining() {
        causes.push("draining: no new clients are taken".to_owned());
    } else {
        // One after the other: whoever asks often does not make it connect often.
        let _asking = facts.asking.lock().await;
        let needed = facts.live.world().map(|world| world.needed()).unwrap_or_default();
        let asked = needed.iter().map(|hostgroup| unreachable(&facts, *hostgroup));
        causes.extend(join_all(asked).await.into_iter().flatten());
    }
    let ready = causes.is_empty();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(Readiness { ready, causes }))
}

/// Why no server of the hostgroup can be reached. Connects only if none has answered last time.
async fn unreachable(facts: &Facts, hostgroup: HostgroupId) -> Option<String> {
    let usable = |backend: &Arc<Backend>| {
        backend.hostgroup == hostgroup
            && backend.server.weight() > 0
            && backend.server.standing.state() <= ServerState::Shunned
    };
    let takes_work =
        |backend: &Arc<Backend>| backend.server.standing.state() <= ServerState::Lagging;
    let servers: Vec<_> = facts.backends.iter().filter(usable).collect();
    if servers.iter().any(|backend| backend.has_answered() && takes_work(backend)) {
        return None;
    }
    let asked = servers.iter().map(|backend| backend.ask_greeting());
    let mut failures = Vec::new();
    for (backend, asked) in servers.iter().zip(join_all(asked).await) {
        match asked {
            Ok(()) => return None,
            Err(error) => failures.push(format!("{}: {error}", backend.server.name)),
        }
    }
    let why = match failures.is_empty() {
        true => "none takes new work".to_owned(),
        false => failures.join("; "),
    };
    Some(format!("hostgroup {hostgroup} has no server that can be reached ({why})"))
}
