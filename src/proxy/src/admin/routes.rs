//! All routes, each with its description.

use super::{
    Facts, chains, digests, drain,
    guard::{self, Refusal},
    kill, overview, page, predictions, probes, reload, servers, sessions,
};
use axum::{Json, Router, middleware, routing::get};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        OpenApi as Document,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

/// The description's head.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Towpath",
        description = "What a Towpath process does, and orders to it. With [admin] token, each request has to bring it, but for the probes and this page.",
    ),
    components(schemas(Refusal)),
    modifiers(&Token),
    security((), ("token" = [])),
    tags(
        (name = "seeing", description = "What is"),
        (name = "orders", description = "What is to be done"),
        (name = "probes", description = "For whoever starts the process"),
    )
)]
struct Description;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut Document) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// What the guard stands before. A stream ends when `ended` is cancelled.
pub(super) fn all(facts: Arc<Facts>, ended: &CancellationToken) -> Router {
    let (routes, document) = described().split_for_parts();
    let document = Arc::new(document);
    let description = move || async move { Json(document.as_ref().clone()) };
    routes
        .route("/openapi.json", get(description))
        .merge(page::files())
        .layer(axum::Extension(overview::Streams::new(ended.clone())))
        .layer(middleware::from_fn_with_state(facts.clone(), guard::stand))
        .with_state(facts)
}

fn described() -> OpenApiRouter<Arc<Facts>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(super::status))
        .routes(routes!(super::metrics))
        .routes(routes!(overview::once))
        .routes(routes!(overview::stream))
        .routes(routes!(sessions::all))
        .routes(routes!(sessions::one))
        .routes(routes!(sessions::pins))
        .routes(routes!(kill::order))
        .routes(routes!(servers::all))
        .routes(routes!(servers::order))
        .routes(routes!(servers::pools))
        .routes(routes!(chains::all))
        .routes(routes!(chains::rules))
        .routes(routes!(chains::counters))
        .routes(routes!(predictions::all))
        .routes(routes!(digests::top))
        .routes(routes!(digests::reset))
        .routes(routes!(reload::reload))
        .routes(routes!(drain::drain))
        .routes(routes!(probes::live))
        .routes(routes!(probes::ready))
}

#[cfg(test)]
mod tests {
    use super::described;
    use serde_json::Value;

    #[test]
    fn the_description_has_words_and_types_for_everything() {
        let document = described().split_for_parts().1;
        let document = serde_json::to_value(document).expect("it is JSON");
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
        let paths = document["paths"].as_object().expect("there are paths");
        assert!(paths.contains_key("/reload") && paths.contains_key("/drain"), "{paths:?}");
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().expect("there are methods") {
                let place = format!("{method} {path}");
                assert!(operation["summary"].is_string(), "{place} has no words");
                assert!(operation["tags"][0].is_string(), "{place} is nowhere");
                let answers = &operation["responses"];
                let has_type = |status: &str| answers[status]["content"].is_object();
                assert!(has_type("200") || has_type("202"), "{place} has no type");
            }
        }
        // Each type that is named is there.
        let mut named = Vec::new();
        references(&document, &mut named);
        assert!(named.len() > 20, "{named:?}");
        for name in named {
            let pointer = name.strip_prefix('#').expect("in this document");
            assert!(document.pointer(pointer).is_some(), "{name} is not there");
        }
    }

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(keys) => {
                found.extend(keys.get("$ref").and_then(Value::as_str).map(str::to_owned));
                keys.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
}
