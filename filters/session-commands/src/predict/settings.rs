//! When an answer is sure, and how much is remembered.

use chain::settings::{ByteSize, HumanDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// Settings of `mode = "predict"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How often a server must have given the same reply before it is given from memory.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub min_observations: u32,
    /// In so many sessions.
    #[schemars(range(min = 1, max = 16))]
    pub min_sessions: u32,
    /// A reply that no server has given for so long is not given from memory any more.
    #[serde(with = "chain::settings::duration")]
    #[schemars(with = "HumanDuration")]
    pub max_age: Duration,
    /// One of so many is sent to a server although its reply is known. 0: none is.
    #[schemars(range(max = 1_000_000))]
    pub audit_rate: u32,
    /// How long a USE or PREPARE that has had different replies is left alone; twice as long the
    /// next time, up to a day. `"0s"`: for good, as all that sets a constant is.
    #[serde(with = "chain::settings::duration")]
    #[schemars(with = "HumanDuration")]
    pub volatile_decay: Duration,
    /// Whether COM_STMT_PREPARE is answered from memory too.
    pub prepare: bool,
    /// Whether a reply with warnings is.
    pub with_warnings: bool,
    /// The share of replies from memory, in percent, that may turn out to be wrong within a minute.
    /// Beyond it nothing is given from memory for that version of servers for five minutes.
    #[schemars(range(max = 100))]
    pub trip_rate: u8,
    /// How long a session may live on replies from memory while no server has accepted its account:
    /// the proxy alone has checked the password, and the account may have gone meanwhile. Without
    /// it: until its first statement that needs a server.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "HumanDuration")]
    pub require_backend_auth_within: Option<Duration>,
    /// Commands that are remembered at most, over all sessions of the chain.
    #[schemars(range(min = 1000, max = 100_000_000))]
    pub max_keys: u32,
    /// Memory for their replies.
    #[serde(with = "chain::settings::size")]
    #[schemars(with = "ByteSize")]
    pub max_bytes: u64,
    /// The share of both, in percent, that one account keeps when there is no room for all.
    #[schemars(range(min = 1, max = 100))]
    pub quota: u8,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    chain::settings::duration::deserialize(deserializer).map(Some)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_observations: 5,
            min_sessions: 2,
            max_age: Duration::from_secs(3600),
            audit_rate: 256,
            volatile_decay: Duration::from_secs(600),
            prepare: true,
            with_warnings: false,
            trip_rate: 1,
            require_backend_auth_within: None,
            max_keys: 200_000,
            max_bytes: 64 << 20,
            quota: 10,
        }
    }
}
