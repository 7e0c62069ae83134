//! `POST /sessions/{id}/kill`: ends a session, or what it runs.

use super::{
    Facts,
    guard::{Refusal, Refused, read, refuse},
    sessions::missing,
};
use crate::backend::{connect::ConnectError, kill, sessions::Entry};
use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What is posted.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Order {
    what: What,
}

/// What is to end.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// The session: its client is disconnected, and what is open is rolled back.
    Session,
    /// The statement that it runs, on its server.
    Query,
}

/// The answer.
#[derive(Serialize, ToSchema)]
pub(super) struct Killed {
    id: u32,
    what: What,
}

/// End a session, or the statement that it runs
#[utoipa::path(post, path = "/sessions/{id}/kill", tag = "orders", request_body = Order,
    params(("id" = u32, Path, description = "As CONNECTION_ID() says")),
    responses(
        (status = 200, description = "It has been ended, or told to end", body = Killed),
        (status = 400, description = "The body says something else", body = Refusal),
        (status = 404, description = "There is no such session", body = Refusal),
        (status = 409, description = "It runs nothing that can be found", body = Refusal),
        (status = 502, description = "Its server did not do so", body = Refusal),
    ))]
pub(super) async fn order(
    State(facts): State<Arc<Facts>>,
    Path(id): Path<u32>,
    body: String,
) -> Result<Json<Killed>, Refused> {
    let Order { what } = read(&body, r#"{"what": "session"} or "query""#)?;
    let live = facts.roll.find(id).ok_or_else(|| missing(id))?;
    match what {
        // Its connections close with it, and a statement on one of them is killed.
        What::Session => live.ended.give(),
        What::Query => {
            let entry = facts.ids.find(id).filter(|_| live.at_work().0);
            let idle = || refuse(StatusCode::CONFLICT, format!("session {id} runs nothing here"));
            let entry = entry.ok_or_else(idle)?;
            strike(&entry).await?.then_some(()).ok_or_else(idle)?;
        }
    }
    Ok(Json(Killed { id, what }))
}

/// Kills what the session's connection runs. False if it has none.
async fn strike(victim: &Entry) -> Result<bool, Refused> {
    let Some(lease) = victim.last_used() else { return Ok(false) };
    let Some(passage) = lease.gate.enter().await else { return Ok(false) };
    let killed =
        kill::query(&lease.backend, &victim.account(), lease.source, lease.thread_id).await;
    // Whatever else has happened, a server that has answered strikes no more.
    if matches!(killed, Ok(()) | Err(ConnectError::Refused(_))) {
        passage.answered();
    }
    let failed = |error: ConnectError| {
        let text = format!("{}: {error}", lease.backend.server.name);
        refuse(StatusCode::BAD_GATEWAY, text)
    };
    killed.map_err(failed).map(|()| true)
}
