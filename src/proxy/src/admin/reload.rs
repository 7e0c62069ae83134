//! `POST /reload`: the configuration is read again.

use super::Facts;
use crate::reload::{Refused, Reloaded};
use axum::{
    Json,
    extract::{ConnectInfo, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use chain::settings::Mistake;
use serde::Serialize;
use std::{net::SocketAddr, sync::Arc};
use utoipa::ToSchema;

/// The answer where nothing has changed.
#[derive(Serialize, ToSchema)]
struct NotReloaded {
    error: String,
    mistakes: Vec<Wrong>,
}

/// One mistake of the file.
#[derive(Serialize, ToSchema)]
struct Wrong {
    file: String,
    /// From 1; 0 where it is about the file as a whole.
    line: usize,
    column: usize,
    message: String,
    hint: Option<String>,
}

/// Read the configuration again
#[utoipa::path(post, path = "/reload", tag = "orders", responses(
    (status = 200, description = "It is in use", body = Reloaded),
    (status = 422, description = "All mistakes; nothing has changed", body = NotReloaded),
))]
pub(super) async fn reload(
    State(facts): State<Arc<Facts>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Response {
    let reloads = facts.reloads.clone();
    let asked_by = format!("POST /reload from {peer}");
    // To its end, also if whoever has asked goes away.
    let reloading = tokio::spawn(async move { reloads.reload(&asked_by).await });
    let reloaded = reloading.await.unwrap_or(Err(Refused::NoFile));
    match reloaded {
        Ok(reloaded) => (StatusCode::OK, Json::<Reloaded>(reloaded)).into_response(),
        Err(refused) => {
            let mistakes = match &refused {
                Refused::Mistakes(mistakes) => mistakes.iter().cloned().map(Wrong::from).collect(),
                _ => Vec::new(),
            };
            let error = match mistakes.len() {
                0 => refused.to_string(),
                1 => "the file has a mistake".to_owned(),
                count => format!("the file has {count} mistakes"),
            };
            let answer = NotReloaded { error, mistakes };
            (StatusCode::UNPROCESSABLE_ENTITY, Json(answer)).into_response()
        }
    }
}

impl From<Mistake> for Wrong {
    fn from(mistake: Mistake) -> Self {
        let Mistake { file, line, column, message, hint, .. } = mistake;
        Self { file, line, column, message, hint }
    }
}
