//! `cache`: results from memory, for the statements and the time that a rule or a hint names.
//!
//! ```text
//! command ──▶ may it? (rule or hint, a pure read, nothing that binds the session) ──▶ key ──▶ there, and young enough?
//!                │ no                                                                            │ yes       │ no
//!                ▼                                                                               ▼           ▼
//!              below                                                                      the same bytes   below, and kept
//! ```

mod filter;
mod kept;
mod key;
mod seat;

use chain::{
    FilterFactory, Layer,
    counters::Family,
    each_session,
    facts::{Fact, Statement},
    registry::IntoLayer,
};
use filter::{Cache, Counted};
use kept::Store;
use schemars::JsonSchema;
use seat::Seat;
use serde::Deserialize;
use std::sync::Arc;
use tower::BoxError;

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// All results together, with the texts of their statements. What was used longest ago makes
    /// way.
    #[serde(with = "chain::settings::size")]
    #[schemars(with = "chain::settings::ByteSize")]
    max_bytes: u64,
    /// The largest result that is kept.
    #[serde(with = "chain::settings::size")]
    #[schemars(with = "chain::settings::ByteSize")]
    max_result: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_result: 1 << 20 }
    }
}

impl FilterFactory for Factory {
    const NAME: &'static str = "cache";
    const NEEDS: &'static [&'static str] = &[Statement::NAME];
    type Config = Config;

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        if config.max_result > config.max_bytes {
            return Err("`max_result` is more than `max_bytes`: the largest would never fit".into());
        }
        let lookups = Family::new(
            "cache_lookups",
            "Statements that a rule or a hint would have answered from memory",
            "result",
        );
        let counted = Counted::new(&lookups);
        let store = Arc::new(Store::new(config.max_bytes));
        let max_result = usize::try_from(config.max_result).unwrap_or(usize::MAX);
        let layer = each_session(move || {
            Cache::new(store.clone(), counted.clone(), max_result, Seat::default())
        });
        Ok(Layer::new(layer).counting([lookups]).from_login())
    }
}
