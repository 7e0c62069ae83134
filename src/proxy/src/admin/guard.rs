//! Who may ask, and in which form.
//!
//! | | without a token | with one |
//! |---|---|---|
//! | probes, the page's files, the description | everybody | everybody |
//! | what only reads | whoever reaches the port, by an address or as `localhost` | whoever sends the token |
//! | orders | likewise, and from a loopback address | likewise |
//!
//! Orders are JSON. A page of another origin in a browser of the operator's can send neither that
//! type nor the token, and a name that it makes point here is none of those.

use super::Facts;
use crate::window::Window;
use axum::{
    Json,
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use utoipa::ToSchema;
use wire::auth::Secret;

/// The token, and how much is told of who did what.
pub(crate) struct Guard {
    token: Option<Arc<Secret>>,
    orders: Window,
    refusals: Window,
}

/// The answer to what is not done.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Refusal {
    /// Why, in words.
    error: String,
}

pub(super) type Refused = (StatusCode, Json<Refusal>);

/// What shows nothing of what the proxy does, and what machines ask that have no token.
const OPEN: [&str; 8] =
    ["/", "/page.css", "/page.js", "/draw.js", "/icon.svg", "/openapi.json", "/live", "/ready"];

impl Guard {
    pub(crate) fn new(token: Option<Arc<Secret>>) -> Self {
        Self { token, orders: Window::new(), refusals: Window::new() }
    }

    fn judge(
        &self,
        peer: SocketAddr,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Refused> {
        let reads = [Method::GET, Method::HEAD].contains(method);
        if reads && OPEN.contains(&path) {
            return Ok(());
        }
        match &self.token {
            Some(token) => {
                // Compared in a time that does not depend on where they differ.
                let given = bearer(headers).map(Secret::from);
                if given.is_none_or(|given| given != **token) {
                    let text = "send the token: Authorization: Bearer TOKEN";
                    return Err(refuse(StatusCode::UNAUTHORIZED, text));
                }
            }
            None if !is_addressed(headers) => {
                let text = "without a token, ask by the address or as localhost";
                return Err(refuse(StatusCode::FORBIDDEN, text));
            }
            None if !reads && !peer.ip().to_canonical().is_loopback() => {
                let text = "orders are taken from this machine only, by its loopback addresses";
                return Err(refuse(StatusCode::FORBIDDEN, text));
            }
            None => {}
        }
        if *method == Method::POST && !is_json(headers) {
            let text = "say Content-Type: application/json";
            return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        Ok(())
    }
}

/// Stands before all routes.
pub(super) async fn stand(
    State(facts): State<Arc<Facts>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let guard = &facts.guard;
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if let Err((status, text)) = guard.judge(peer, &method, &path, request.headers()) {
        if let Some(left_out) = guard.refusals.admit() {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::warn!(%peer, %method, path, status = status.as_u16(), left_out, "admin: refused");
        }
        let mut refused = (status, text).into_response();
        if status == StatusCode::UNAUTHORIZED {
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        return refused;
    }
    let answer = next.run(request).await;
    if ![Method::GET, Method::HEAD].contains(&method)
        && let Some(left_out) = guard.orders.admit()
    {
        let (status, left_out) = (answer.status().as_u16(), (left_out > 0).then_some(left_out));
        tracing::info!(%peer, %method, path, status, left_out, "admin: an order");
    }
    answer
}

/// Reads what is posted; `form` is how it may look.
pub(super) fn read<T: for<'de> Deserialize<'de>>(body: &str, form: &str) -> Result<T, Refused> {
    serde_json::from_str(body)
        .map_err(|error| refuse(StatusCode::BAD_REQUEST, format!("{error}; give {form}")))
}

pub(super) fn refuse(status: StatusCode, error: impl Into<String>) -> Refused {
    (status, Json(Refusal { error: error.into() }))
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim() == "application/json"
}

/// Whether the request names the proxy by an address, as `localhost`, or not at all, which no
/// browser does.
fn is_addressed(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let host = host.to_str().unwrap_or("?");
    let is_port = |(_, port): &(&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = host.rsplit_once(':').filter(is_port).map_or(host, |(name, _)| name);
    let name = name.trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: (&str, &str) = ("content-type", "application/json");

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (axum::http::HeaderName::from_static(name), value.parse().expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    fn judged(
        token: Option<&str>,
        peer: &str,
        method: Method,
        path: &str,
        pairs: &[(&'static str, &str)],
    ) -> Result<(), StatusCode> {
        let guard = Guard::new(token.map(|token| Arc::new(Secret::from(token))));
        let peer = peer.parse().expect("an address");
        guard.judge(peer, &method, path, &headers(pairs)).map_err(|(status, _)| status)
    }

    #[test]
    fn without_a_token_orders_come_from_here_and_are_json() {
        let order = |peer, pairs: &[_]| judged(None, peer, Method::POST, "/drain", pairs);
        for peer in ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(order(peer, &[JSON]), Ok(()), "{peer}");
        }
        let with_charset = ("content-type", "application/json; charset=utf-8");
        assert_eq!(order("[::1]:1", &[with_charset]), Ok(()));
        for peer in ["10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:10.0.0.1]:1"] {
            assert_eq!(order(peer, &[JSON]), Err(StatusCode::FORBIDDEN), "{peer}");
            assert_eq!(judged(None, peer, Method::GET, "/status", &[]), Ok(()), "{peer}");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
            let refused = Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
            assert_eq!(order("[::1]:1", &[("content-type", kind)]), refused, "{kind}");
        }
    }

    #[test]
    fn a_name_that_somebody_made_point_here_is_refused() {
        let ask = |host| judged(None, "127.0.0.1:1", Method::GET, "/status", &[("host", host)]);
        for host in
            ["127.0.0.1:6032", "[::1]:6032", "[::1]", "localhost", "LocalHost:6032", "10.0.0.1"]
        {
            assert_eq!(ask(host), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:6032", "localhost.evil.example", "", "a:b"] {
            assert_eq!(ask(host), Err(StatusCode::FORBIDDEN), "{host}");
        }
    }

    #[test]
    fn a_token_opens_everything_and_nothing_else_does() {
        let token = "0123456789abcdef";
        let ask =
            |method, path, pairs: &[_]| judged(Some(token), "10.0.0.1:1", method, path, pairs);
        let right = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(ask(Method::GET, "/status", &[right]), Ok(()));
        assert_eq!(ask(Method::GET, "/metrics", &[("host", "proxy.example"), right]), Ok(()));
        assert_eq!(ask(Method::POST, "/drain", &[right, JSON]), Ok(()));
        for wrong in [
            "Bearer 0123456789abcdeX",
            "Bearer 0123456789abcde",
            "Bearer ",
            "bearer",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "Bearer 0123456789abcdef0",
        ] {
            let wrong = ("authorization", wrong);
            for path in ["/status", "/metrics", "/sessions", "/overview", "/nothing"] {
                let refused = Err(StatusCode::UNAUTHORIZED);
                assert_eq!(ask(Method::GET, path, &[wrong]), refused, "{path} {wrong:?}");
            }
        }
        assert_eq!(ask(Method::POST, "/", &[JSON]), Err(StatusCode::UNAUTHORIZED));
        for path in OPEN {
            assert_eq!(ask(Method::GET, path, &[]), Ok(()), "{path}");
        }
    }
}
