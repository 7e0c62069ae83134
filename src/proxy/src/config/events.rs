//! The log of events.

use super::part::Entry;
use chain::settings::{ByteSize, Mistakes, size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A file with a line of JSON for each command. Off unless `file` is given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// Where lines are appended, relative to this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Which commands have a line.
    pub commands: EventsOf,
    /// What is told of a statement.
    pub statement: EventText,
    /// How large the file may become; then it is renamed and another one begins.
    #[serde(with = "size")]
    #[schemars(with = "ByteSize")]
    pub max_size: u64,
    /// How many of those before it are kept, as FILE.1 (the newest), FILE.2, ...
    #[schemars(range(max = 1000))]
    pub keep: u32,
}

/// Which commands have a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventsOf {
    /// Those that a rule with `log = true` has matched.
    #[default]
    Rules,
    /// All.
    All,
}

/// What is told of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventText {
    /// Its digest, without values.
    #[default]
    Digest,
    /// Its text as well, values and all; but for statements about accounts.
    Text,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            file: None,
            commands: EventsOf::default(),
            statement: EventText::default(),
            max_size: 100 << 20,
            keep: 5,
        }
    }
}

/// Makes the file's path absolute, and notes what is wrong with the table.
pub(super) fn resolve(entry: &Entry<Events>, mistakes: &mut Mistakes) -> Events {
    let events = &entry.value;
    if events.max_size < 64 << 10 {
        let mistake = entry.settings.mistake_at("max_size", "this is less than 64 KiB");
        mistakes.push(mistake.hint("for example \"100 MiB\""));
    }
    Events { file: events.file.as_ref().map(|file| entry.resolve(file)), ..events.clone() }
}
