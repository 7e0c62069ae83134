//! `sticky`: which servers a session stays on.
//!
//! ```text
//! hint, SET, rule, user ──▶ mode ──▶ Affinity on the command ──▶ route, dispatch
//!                                        ▲
//! reply ──▶ ServedBy ────────────────────┘ the server of each hostgroup
//! ```
//!
//! It chooses no server. It remembers which ones the session has used since it is sticky, and says
//! so on every command.

mod assigned;
mod filter;

use chain::{
    FilterFactory, Layer, Stack,
    counters::{Counter, Family},
    facts::{Affinity, Fact, Statement, StickyMode},
    registry::IntoLayer,
    settings::{HumanDuration, duration},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{sync::Arc, time::Duration};
use tower::BoxError;

/// The filter's name.
const NAME: &str = "sticky";

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How long a statement of a strict session waits for its server to come back before it fails.
    #[serde(default, with = "duration")]
    #[schemars(with = "HumanDuration")]
    strict_wait: Duration,
}

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    strict_wait: Duration,
    off: Counter,
    while_alive: Counter,
    strict: Counter,
    /// A session has found another server in the place of one that it stayed on.
    re_picks: Counter,
    /// A strict session's server was not there.
    strict_failures: Counter,
    /// A SET gave the variable a value that is no mode.
    bad_values: Counter,
}

impl FilterFactory for Factory {
    const NAME: &'static str = NAME;
    const NEEDS: &'static [&'static str] = &[Statement::NAME];
    const GIVES: &'static [&'static str] = &[Affinity::NAME];
    type Config = Config;

    fn build(Config { strict_wait }: Config) -> Result<impl IntoLayer, BoxError> {
        let modes = Family::new("sticky_modes", "Times that a session took a sticky mode", "mode");
        let events = Family::new("sticky_events", "What sticky sessions have met with", "event");
        let mode = |mode: StickyMode| modes.counter(mode.name());
        let shared = Arc::new(Shared {
            strict_wait,
            off: mode(StickyMode::Off),
            while_alive: mode(StickyMode::WhileAlive),
            strict: mode(StickyMode::Strict),
            re_picks: events.counter("re-pick"),
            strict_failures: events.counter("strict-failure"),
            bad_values: events.counter("bad-value"),
        });
        let layer = tower::layer::layer_fn(move |below: Stack| {
            Stack::moving(filter::Sticky::new(shared.clone(), below))
        });
        Ok(Layer::new(layer).counting([modes, events]))
    }
}

impl Shared {
    fn count(&self, mode: StickyMode) {
        match mode {
            StickyMode::Off => self.off.add_one(),
            StickyMode::WhileAlive => self.while_alive.add_one(),
            StickyMode::Strict => self.strict.add_one(),
        }
    }
}
