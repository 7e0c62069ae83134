//! `GET /digests`: which statements cost most.

use super::{
    Facts,
    guard::{Refusal, Refused, refuse},
};
use crate::digests::DigestReport;
use axum::{
    Json,
    extract::{Query, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, sync::Arc};
use utoipa::{IntoParams, ToSchema};

/// Which digests are asked for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// At most so many; 50 if left out, at most 10000.
    limit: Option<usize>,
    /// Which come first: those with the most `time` (if left out), `calls` or `errors`.
    #[serde(default)]
    #[param(inline)]
    by: By,
}

/// What makes a digest come first.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum By {
    #[default]
    Time,
    Calls,
    Errors,
}

/// The answer to `POST /digests/reset`.
#[derive(Serialize, ToSchema)]
pub(super) struct Forgotten {
    digests: usize,
}

/// The statements that cost most, without their values
///
/// Counted if `admin.digests` is not 0; by user and hostgroup, since the start or the last reset.
#[utoipa::path(get, path = "/digests", tag = "seeing", params(Wanted), responses(
    (status = 200, body = Vec<DigestReport>),
    (status = 409, description = "They are not counted", body = Refusal),
))]
pub(super) async fn top(
    State(facts): State<Arc<Facts>>,
    Query(Wanted { limit, by }): Query<Wanted>,
) -> Result<Json<Vec<DigestReport>>, Refused> {
    most(&facts, by, limit.unwrap_or(50).min(10_000)).map(Json).ok_or_else(off)
}

/// Forget all digests
#[utoipa::path(post, path = "/digests/reset", tag = "orders", responses(
    (status = 200, body = Forgotten),
    (status = 409, description = "They are not counted", body = Refusal),
))]
pub(super) async fn reset(State(facts): State<Arc<Facts>>) -> Result<Json<Forgotten>, Refused> {
    let digests = facts.digests.as_ref().ok_or_else(off)?.clear();
    Ok(Json(Forgotten { digests }))
}

/// The first of them. `None` if they are not counted.
pub(super) fn most(facts: &Facts, by: By, limit: usize) -> Option<Vec<DigestReport>> {
    let mut all = facts.digests.as_ref()?.all();
    match by {
        By::Time => all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds)),
        By::Calls => all.sort_by_key(|digest| Reverse(digest.calls)),
        By::Errors => all.sort_by_key(|digest| Reverse(digest.errors)),
    }
    all.truncate(limit);
    Some(all)
}

fn off() -> Refused {
    refuse(StatusCode::CONFLICT, "digests are not counted: set admin.digests")
}
