//! The `session-commands` filter: what a session has set holds on every connection that it has.
//!
//! It reads each command for what it does to the session's state. A session command (SET, USE,
//! PREPARE, ...) is sent on and executed once, at once; its reply is the server's. When it has
//! succeeded it is in the session's log, and every command from then on carries the log, so that
//! `catch-up` on the connection that runs it can execute what that connection lacks. State that
//! cannot be repeated ties the session to the connection that has it.

#![deny(missing_docs)]

mod filter;
mod log;
mod plan;
mod predict;
mod state;
mod statements;
mod ties;
mod types;

use chain::{
    FilterFactory, Layer,
    counters::Family,
    each_session,
    facts::{Fact, Pin, SessionLog, Statement},
    registry::IntoLayer,
};
use filter::SessionCommands;
use log::Volumes;
use predict::Memory;
pub use predict::Settings as Predict;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use tower::BoxError;

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What becomes of a session command: SET, USE, PREPARE and the like.
    pub mode: Mode,
    /// When a connection of the session that has not executed a session command does so.
    pub propagate: Propagate,
    /// When `mode` is `"predict"`: when a reply is sure, and how much is remembered.
    pub predict: Predict,
    /// Session commands that one session's log holds at most, statements of COM_STMT_PREPARE not
    /// counted. What a later one makes unobservable is not in it.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_entries: usize,
    /// Bytes of those commands at most.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub max_bytes: usize,
    /// Bytes of the texts that one session has prepared with COM_STMT_PREPARE; beyond it, ERR 1461.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub max_prepared_bytes: usize,
    /// What happens when the log would grow beyond that.
    pub overflow: Overflow,
    /// System variables that are the same on every connection once a session has set them, beyond
    /// those that are known to be (`"+name"`), or of which that is not to be taken for granted
    /// (`"-name"`): a SET of these is brought to other connections as it came, and nothing that was
    /// set before it is left out.
    #[schemars(with = "Vec<String>")]
    allow_variables: plan::Variables,
}

/// What becomes of a session command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All connections that the session has open execute it before the client has its reply; one
    /// that is opened later, when it is opened.
    Off,
    /// One server executes it at once; the session's other connections do when they are used.
    #[default]
    Defer,
    /// The same, but where its reply is known from earlier sessions, no server does until it is
    /// used.
    Predict,
}

/// When other connections of a session execute what one has executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Propagate {
    /// When they are used.
    #[default]
    Lazy,
    /// The one that the session has used last, at once, in the background; the others when they are
    /// used.
    LastUsed,
    /// At once, in the background.
    Eager,
}

/// What happens to a session whose log is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// It stays on the connection that it has used last, until COM_RESET_CONNECTION.
    #[default]
    Pin,
    /// It ends.
    Close,
    /// Its oldest entry goes: another connection may differ from this one in what that has set.
    ForgetOldest,
}

impl Default for Config {
    fn default() -> Self {
        let overflow = Overflow::default();
        Self {
            mode: Mode::default(),
            propagate: Propagate::default(),
            predict: Predict::default(),
            max_entries: 512,
            max_bytes: 1 << 20,
            max_prepared_bytes: 8 << 20,
            overflow,
            allow_variables: plan::Variables::default(),
        }
    }
}

impl FilterFactory for Factory {
    const NAME: &'static str = "session-commands";
    const NEEDS: &'static [&'static str] = &[Statement::NAME];
    const GIVES: &'static [&'static str] = &[SessionLog::NAME, Pin::NAME];
    const WANTS_BELOW: Option<&'static str> = Some("catch-up");

    type Config = Config;

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        let predicts = config.mode == Mode::Predict;
        let memory = predicts.then(|| Arc::new(Memory::new(config.predict)));
        let mut families = memory.as_ref().map(|memory| memory.families()).unwrap_or_default();
        let volumes = Arc::new(Volumes::default());
        let now = volumes.clone();
        let help = "What the logs of all sessions hold: entries, and the bytes of their commands";
        families.push(Family::measured("session_log", help, "what", move || now.now()));
        let config = Arc::new(config);
        let layer = each_session(move || {
            SessionCommands::new(config.clone(), memory.clone(), volumes.clone())
        });
        Ok(Layer::new(layer).counting(families))
    }
}
