//! The page: files that are part of the executable.

use super::Facts;
use axum::{
    Router,
    http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    response::IntoResponse,
    routing::get,
};
use std::sync::Arc;

/// Nothing of others' is loaded, run or asked, and nobody shows the page within theirs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The routes of its files.
pub(super) fn files() -> Router<Arc<Facts>> {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move {
            let headers = [
                (CONTENT_TYPE, kind),
                (CONTENT_SECURITY_POLICY, POLICY),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (CACHE_CONTROL, "no-cache"),
            ];
            (headers, text).into_response()
        })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page/page.html")))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("page/page.css")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("page/page.js")))
        .route("/draw.js", file("text/javascript; charset=utf-8", include_str!("page/draw.js")))
        .route("/icon.svg", file("image/svg+xml", include_str!("page/icon.svg")))
}
