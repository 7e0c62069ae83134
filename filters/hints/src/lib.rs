//! `hints`: what comments in a statement ask of the proxy.
//!
//! ```text
//! text ──▶ sql::comments ──▶ form (whose dialect) ──▶ key, value ──▶ Hints on the command
//!                                └─▶ maxscale (named hints, their stack)
//! ```
//!
//! A statement without a comment costs one search. Nothing here is ever an error to the client: a
//! hint that does not fit is counted, and does nothing.

mod filter;
mod form;
mod key;
mod maxscale;
mod read;
mod strip;
mod tell;
mod value;

use chain::{
    FilterFactory, Layer, Stack,
    counters::Family,
    facts::{Fact, Hints, Statement},
    registry::IntoLayer,
};
use key::{Dialect, Key, Keys};
use read::Found;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeMap, sync::Arc};
use tell::Counts;
use tower::BoxError;

/// The filter's name.
const NAME: &str = "hints";

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Keys that are honoured: a list for all users, or a list for each; "*" is for those that have
    /// none. Without it, all keys are honoured.
    allow: Option<Allow>,
    /// Who wins where a hint and a rule say different things.
    #[serde(default)]
    precedence: Precedence,
    /// Whether comments with hints are taken out before a statement is sent.
    #[serde(default)]
    strip: bool,
    /// Ways of writing hints that are understood.
    dialects: Option<Vec<Dialect>>,
}

/// Who may ask for what.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Allow {
    /// Everybody.
    All(Vec<Key>),
    /// Each user, by name.
    Each(BTreeMap<String, Vec<Key>>),
}

/// Who wins where a hint and a rule say different things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Precedence {
    /// The hint.
    #[default]
    Hints,
    /// The rule.
    Rules,
}

/// Whoever has no list of their own.
const EVERYBODY_ELSE: &str = "*";

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    allow: Option<Allow>,
    dialects: Option<Vec<Dialect>>,
    beats_rules: bool,
    strip: bool,
    honoured: Counts,
    ignored: Counts,
    denied: Counts,
}

impl FilterFactory for Factory {
    const NAME: &'static str = NAME;
    const NEEDS: &'static [&'static str] = &[Statement::NAME];
    const GIVES: &'static [&'static str] = &[Hints::NAME];
    type Config = Config;

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        let Config { allow, precedence, strip, dialects } = config;
        let honoured = Family::new("hints", "Hints that counted", "key");
        let ignored = Family::new("hints_ignored", "Hints whose value does not fit", "key");
        let denied = Family::new("hints_denied", "Hints that the user may not use", "key");
        let shared = Arc::new(Shared {
            allow,
            dialects,
            beats_rules: precedence == Precedence::Hints,
            strip,
            honoured: Counts::of(&honoured),
            ignored: Counts::of(&ignored),
            denied: Counts::of(&denied),
        });
        let layer = tower::layer::layer_fn(move |below: Stack| {
            Stack::moving(filter::Hinting::new(shared.clone(), below))
        });
        Ok(Layer::new(layer).counting([honoured, ignored, denied]))
    }
}

impl Shared {
    /// What this user may ask for.
    fn allowed(&self, user: &str) -> Keys {
        let list = match &self.allow {
            None => return Keys::all(),
            Some(Allow::All(list)) => Some(list),
            Some(Allow::Each(lists)) => lists.get(user).or_else(|| lists.get(EVERYBODY_ELSE)),
        };
        list.into_iter().flatten().copied().collect()
    }

    fn knows(&self, dialect: Dialect) -> bool {
        self.dialects.as_ref().is_none_or(|dialects| dialects.contains(&dialect))
    }

    fn count(&self, found: &Found) {
        self.honoured.count(found.honoured);
        self.ignored.count(found.ignored);
        self.denied.count(found.denied);
    }
}
