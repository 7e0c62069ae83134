//! `route`: which server a command goes to.
//!
//! It names a server and opens nothing. The first of these that applies: the server of an open
//! transaction, the one that state pins the session to, what a hint or a rule asks for, the policy.

#![deny(missing_docs)]

mod causal;
mod filter;
mod place;
mod settings;
mod wish;

use chain::{
    FilterFactory, Layer, Result, each_session,
    facts::{Fact, SessionLog, Target},
    registry::{IntoLayer, SHARED},
    settings::{Mistakes, Settings},
};
use filter::Route;
use settings::Shared;
use std::{collections::BTreeSet, sync::Arc};
use tower::BoxError;

pub use settings::{AfterWrite, AnswerFrom, Config, Each, NoReplica, Policy};

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

impl FilterFactory for Factory {
    const NAME: &'static str = "route";
    const GIVES: &'static [&'static str] = &[Target::NAME];
    type Config = Config;

    fn read(settings: &Settings, mistakes: &mut Mistakes) -> Option<Config> {
        let config = settings.deserialize::<Config>(mistakes)?;
        let before = mistakes.len();
        config.check(settings, mistakes);
        (mistakes.len() == before).then_some(config)
    }

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        layer(config, false, false)
    }

    fn build_below(
        config: Config,
        above: &BTreeSet<&'static str>,
    ) -> Result<impl IntoLayer, BoxError> {
        layer(config, above.contains(SessionLog::NAME), above.contains(SHARED))
    }
}

fn layer(config: Config, keeps_state: bool, shares: bool) -> Result<Layer, BoxError> {
    let shared = Arc::new(Shared::new(config, keeps_state, shares)?);
    let counters = shared.counters.families();
    Ok(Layer::new(each_session(move || Route::new(shared.clone()))).counting(counters))
}
