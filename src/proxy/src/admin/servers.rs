//! `GET /servers`: how servers are. `POST /servers/{name}/state`: an operator's word.

use super::Facts;
use crate::{
    backend::health::report::{ClusterReport, ServerReport},
    config::ServerWord,
};
use axum::{
    Json,
    extract::{ConnectInfo, Path, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, sync::Arc};

/// The answer to `GET /servers`.
#[derive(Serialize)]
pub(super) struct Servers {
    servers: Vec<ServerReport>,
    clusters: Vec<ClusterReport>,
}

/// What is posted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    state: ServerWord,
}

/// The answer to an order that is not followed.
#[derive(Serialize)]
pub(super) struct Refusal {
    error: String,
}

pub(super) type Refused = (StatusCode, Json<Refusal>);

pub(super) async fn all(State(facts): State<Arc<Facts>>) -> Json<Servers> {
    let health = facts.backends.health();
    Json(Servers { servers: health.servers(), clusters: health.clusters() })
}

/// Sets the state of all servers of that name; gives what they are then.
pub(super) async fn order(
    State(facts): State<Arc<Facts>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Result<Json<Vec<ServerReport>>, Refused> {
    from_here(peer, &headers)?;
    let Word { state } = read(&body)?;
    let health = facts.backends.health();
    if health.order(&name, state) == 0 {
        let mut names: Vec<_> = health.servers().into_iter().map(|server| server.name).collect();
        names.sort();
        names.dedup();
        let text = format!("there is no server {name:?}; there are: {}", names.join(", "));
        return Err(refuse(StatusCode::NOT_FOUND, text));
    }
    tracing::info!(server = name, ?state, %peer, "an operator's word");
    Ok(Json(health.named(&name)))
}

/// Whoever reaches the port may read; only those on this machine may give orders, and no page in
/// a browser of theirs: it cannot send this type to another origin.
pub(super) fn from_here(peer: SocketAddr, headers: &HeaderMap) -> Result<(), Refused> {
    if !peer.ip().to_canonical().is_loopback() {
        let text = "orders are taken from this machine only, by its loopback addresses";
        return Err(refuse(StatusCode::FORBIDDEN, text));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().unwrap_or_default().trim() != "application/json" {
        let text = "say Content-Type: application/json";
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    Ok(())
}

fn read(body: &str) -> Result<Word, Refused> {
    serde_json::from_str(body).map_err(|error| {
        let form = r#"give {"state": "online"}, "offline-soft" or "offline-hard""#;
        refuse(StatusCode::BAD_REQUEST, format!("{error}; {form}"))
    })
}

pub(super) fn refuse(status: StatusCode, error: impl Into<String>) -> Refused {
    (status, Json(Refusal { error: error.into() }))
}

#[cfg(test)]
mod tests {
    use super::{from_here, read};
    use crate::config::ServerWord;
    use axum::http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};

    fn status(peer: &str, kind: &'static str, body: &str) -> Result<ServerWord, StatusCode> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let peer = peer.parse().expect("an address");
        let word = from_here(peer, &headers).and_then(|()| read(body));
        word.map(|word| word.state).map_err(|(status, _)| status)
    }

    #[test]
    fn orders_are_taken_from_here_and_in_one_form_only() {
        let (json, soft) = ("application/json", r#"{"state": "offline-soft"}"#);
        for peer in ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(status(peer, json, soft), Ok(ServerWord::OfflineSoft), "{peer}");
        }
        let with_charset = "application/json; charset=utf-8";
        assert_eq!(status("[::1]:1", with_charset, soft), Ok(ServerWord::OfflineSoft));
        for peer in ["10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:10.0.0.1]:1"] {
            assert_eq!(status(peer, json, soft), Err(StatusCode::FORBIDDEN), "{peer}");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
            let refused = Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
            assert_eq!(status("[::1]:1", kind, soft), refused, "{kind}");
        }
        for body in ["", "{}", r#"{"state": "gone"}"#, r#"{"state": "online", "x": 1}"#, "online"] {
            assert_eq!(status("[::1]:1", json, body), Err(StatusCode::BAD_REQUEST), "{body}");
        }
    }
}
