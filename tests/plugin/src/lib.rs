//! A user's own filters, beside the built-in ones: what `docs/writing-a-filter.md` describes.
//!
//! | filter | how it is made |
//! |---|---|
//! | `audit` | a plain tower layer that has never heard of a registry |
//! | `tag` | by the easy door, with settings |
//! | `timeout` | tower's own, registered in a line |

pub mod audit;
pub mod tag;

use audit::AuditLayer;
use chain::Registry;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use tower::timeout::TimeoutLayer;

/// Settings of a filter that has none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Settings of tower's timeout.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    /// How long a command may wait for the first packet of its reply, in milliseconds.
    ms: u64,
}

/// The built-in filters and these three.
pub fn registry() -> Registry {
    towpath::builtin::registry()
        .with::<tag::Factory>()
        .with_layer("audit", |_: Nothing| Ok(AuditLayer))
        .with_layer("timeout", |t: Timeout| Ok(TimeoutLayer::new(Duration::from_millis(t.ms))))
}

/// Compiles and runs what the page shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-filter.md")]
struct Page;
