//! `GET /servers`: how servers are. `POST /servers/{name}/state`: an operator's word.

use super::{
    Facts,
    guard::{Refusal, Refused, read, refuse},
};
use crate::{
    backend::{
        Backend,
        health::{
            machine::state_name,
            report::{ClusterReport, ServerReport},
        },
    },
    config::ServerWord,
};
use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// The answer to `GET /servers`.
#[derive(Serialize, ToSchema)]
pub(super) struct Servers {
    pub(super) servers: Vec<ServerReport>,
    pub(super) clusters: Vec<ClusterReport>,
}

/// What is posted.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Word {
    /// `online`, `offline-soft` or `offline-hard`.
    #[schema(value_type = String)]
    state: ServerWord,
}

/// One server of one hostgroup, and the connections to it.
#[derive(Serialize, ToSchema)]
pub(super) struct PoolReport {
    hostgroup: u32,
    server: Arc<str>,
    /// `online`, `lagging`, `shunned`, `offline-soft` or `offline-hard`.
    state: &'static str,
    /// How many there may be at once.
    max_connections: u32,
    /// Those that sessions hold.
    attached: u32,
    /// Those that wait for a session.
    idle: usize,
    /// Commands whose reply has not ended.
    outstanding: u32,
    /// Commands that were sent.
    commands: u64,
    /// Clients' commands whose whole reply has reached them.
    answered: u64,
    /// The time that these took, all together.
    answered_seconds: f64,
}

impl Servers {
    pub(super) fn of(facts: &Facts) -> Self {
        let health = facts.backends.health();
        Self { servers: health.servers(), clusters: health.clusters() }
    }
}

/// How each server is, and what has happened to it
#[utoipa::path(get, path = "/servers", tag = "seeing", responses((status = 200, body = Servers)))]
pub(super) async fn all(State(facts): State<Arc<Facts>>) -> Json<Servers> {
    Json(Servers::of(&facts))
}

/// The connections to each server of each hostgroup
#[utoipa::path(get, path = "/pools", tag = "seeing", responses((status = 200, body = Vec<PoolReport>)))]
pub(super) async fn pools(State(facts): State<Arc<Facts>>) -> Json<Vec<PoolReport>> {
    Json(pool_reports(&facts))
}

pub(super) fn pool_reports(facts: &Facts) -> Vec<PoolReport> {
    let report = |backend: Arc<Backend>| {
        let (answered, time) = backend.server.load.answered();
        PoolReport {
            hostgroup: backend.hostgroup.0,
            server: backend.server.name.clone(),
            state: state_name(backend.server.standing.state()),
            max_connections: backend.capacity(),
            attached: backend.server.load.attached(),
            idle: backend.idle(),
            outstanding: backend.server.load.outstanding(),
            commands: backend.metrics.commands.get(),
            answered,
            answered_seconds: time.as_secs_f64(),
        }
    };
    facts.backends.iter().map(report).collect()
}

/// Set the state of all servers of that name
///
/// Gives what they are then.
#[utoipa::path(post, path = "/servers/{name}/state", tag = "orders", request_body = Word,
    params(("name" = String, Path, description = "A server's name")),
    responses(
        (status = 200, body = Vec<ServerReport>),
        (status = 400, description = "The body says something else", body = Refusal),
        (status = 404, description = "There is no such server", body = Refusal),
    ))]
pub(super) async fn order(
    State(facts): State<Arc<Facts>>,
    Path(name): Path<String>,
    body: String,
) -> Result<Json<Vec<ServerReport>>, Refused> {
    let Word { state } = read(&body, r#"{"state": "online"}, "offline-soft" or "offline-hard""#)?;
    let health = facts.backends.health();
    if health.order(&name, state) == 0 {
        let mut names: Vec<_> = health.servers().into_iter().map(|server| server.name).collect();
        names.sort();
        names.dedup();
        let text = format!("there is no server {name:?}; there are: {}", names.join(", "));
        return Err(refuse(StatusCode::NOT_FOUND, text));
    }
    Ok(Json(health.named(&name)))
}

#[cfg(test)]
mod tests {
    use super::{Word, read};
    use crate::config::ServerWord;
    use axum::http::StatusCode;

    #[test]
    fn orders_are_taken_in_one_form_only() {
        let word = |body| read(body, "").map(|Word { state }| state).map_err(|(code, _)| code);
        assert_eq!(word(r#"{"state": "offline-soft"}"#), Ok(ServerWord::OfflineSoft));
        for body in ["", "{}", r#"{"state": "gone"}"#, r#"{"state": "online", "x": 1}"#, "online"] {
            assert_eq!(word(body), Err(StatusCode::BAD_REQUEST), "{body}");
        }
    }
}
