//! `rules`: what becomes of a command, by rules as ProxySQL has them.
//!
//! ```text
//! settings ──▶ read (files, rows) ──▶ compile (a row's checks) ──▶ RuleSet, shared by all sessions
//!                                                                     │
//! command ──▶ filter ──▶ walk (labels, rewriting, fast routing) ◀─────┘ set: which rule is next
//!                │
//!                └─▶ RuleVerdict on the command, or an answer, or a wait; an event at the reply's end
//! ```

mod address;
mod bits;
mod compile;
mod fast_routing;
mod filter;
mod log;
mod pattern;
mod proxysql;
mod read;
mod row;
mod rule;
mod set;
mod walk;

use chain::{
    FilterFactory, Layer, Stack,
    counters::Family,
    facts::{Fact, RuleVerdict, Statement},
    live::Live,
    registry::{IntoLayer, Want},
    settings::{Mistakes, Settings},
};
use row::{FastRoute, Row};
use schemars::JsonSchema;
use serde::Deserialize;
use set::RuleSet;
use tower::BoxError;

/// The filter's name.
const NAME: &str = "rules";

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The rules: a list of them; the name of a file with a list `[[rule]]` (and another one,
    /// `[[fast_routing]]`); or ProxySQL's own file.
    #[expect(dead_code, reason = "read row by row; this is their schema")]
    rules: Written,
    /// Lines of ProxySQL's `mysql_query_rules_fast_routing`.
    #[serde(default)]
    #[expect(dead_code, reason = "read row by row; this is their schema")]
    fast_routing: Vec<FastRoute>,
    /// How often a command's walk may begin again at the top with a `flagOUT` as its label. 0: it
    /// only goes downwards.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    #[expect(dead_code, reason = "read with the rules")]
    iterations: u32,
    #[serde(skip)]
    loaded: Option<Loaded>,
}

/// Where rules are written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "read row by row; this is their schema")]
enum Written {
    /// A file of TOML, relative to this one.
    File(String),
    /// Here.
    Here(Vec<Row>),
    /// Another file of ProxySQL's, relative to this one.
    Elsewhere(Elsewhere),
}

/// A file that is not ours.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Elsewhere {
    /// ProxySQL's configuration file: its `mysql_query_rules` and
    /// `mysql_query_rules_fast_routing`.
    proxysql: String,
}

/// Rules that were found good.
#[derive(Debug)]
struct Loaded {
    set: RuleSet,
    hits: Family,
    wants: Vec<Want>,
    shown: serde_json::Value,
}

impl FilterFactory for Factory {
    const NAME: &'static str = NAME;
    const NEEDS: &'static [&'static str] = &[Statement::NAME];
    const GIVES: &'static [&'static str] = &[RuleVerdict::NAME];
    type Config = Config;

    fn read(settings: &Settings, mistakes: &mut Mistakes) -> Option<Config> {
        let loaded = read::read(settings, mistakes)?;
        let rules = Written::Here(Vec::new());
        Some(Config { rules, fast_routing: Vec::new(), iterations: 0, loaded: Some(loaded) })
    }

    fn wants(config: &Config) -> Vec<Want> {
        config.loaded.iter().flat_map(|loaded| loaded.wants.clone()).collect()
    }

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        let Loaded { set, hits, shown, .. } = config.loaded.ok_or("no rules were read")?;
        let live = Live::new(set);
        let sessions = live.clone();
        let layer = tower::layer::layer_fn(move |below: Stack| {
            Stack::moving(filter::Rules::new(sessions.current(), below))
        });
        Ok(Layer::new(layer).counting([hits]).showing(shown).live(&live, RuleSet::hand_on_hits))
    }
}
