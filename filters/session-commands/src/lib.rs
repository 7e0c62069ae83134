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
mod state;
mod statements;
mod ties;
mod types;

use chain::{
    FilterFactory, each_session,
    facts::{Fact, Pin, SessionLog, Statement},
    registry::IntoLayer,
};
use filter::SessionCommands;
use schemars::JsonSchema;
use serde::Deserialize;
use tower::BoxError;

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
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
        Ok(each_session(move || SessionCommands::new(config.clone())))
    }
}
