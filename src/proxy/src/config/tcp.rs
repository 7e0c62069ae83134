//! How peers are noticed that are gone without a word: `[tcp]`.

use super::part::Entry;
use chain::settings::{HumanDuration, Mistakes, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// TCP connections, to clients and to servers: how peers are noticed that are gone without a word.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// A peer that has said nothing for this long is asked whether it is there (TCP_KEEPIDLE), 1s
    /// to 9h.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub keepalive_time: Duration,
    /// The time between two such questions (TCP_KEEPINTVL), 1s to 9h.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub keepalive_interval: Duration,
    /// How many of them stay unanswered before the connection is given up (TCP_KEEPCNT).
    #[schemars(range(min = 1, max = 127))]
    pub keepalive_retries: u32,
    /// How long what was sent may stay unacknowledged, or the peer take nothing more
    /// (TCP_USER_TIMEOUT), up to 9h; "0s" leaves it to the system.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub user_timeout: Duration,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            keepalive_time: Duration::from_secs(60),
            keepalive_interval: Duration::from_secs(10),
            keepalive_retries: 6,
            // A peer that only reads slowly would be cut off too.
            user_timeout: Duration::ZERO,
        }
    }
}

/// What Linux takes for times of keep-alive, in seconds.
const LONGEST: Duration = Duration::from_secs(9 * 3600);

pub(super) fn check(tcp: &Entry<Tcp>, mistakes: &mut Mistakes) {
    let Tcp { keepalive_time, keepalive_interval, user_timeout, .. } = tcp.value;
    for (key, duration, least) in [
        ("keepalive_time", keepalive_time, 1),
        ("keepalive_interval", keepalive_interval, 1),
        ("user_timeout", user_timeout, 0),
    ] {
        if duration < Duration::from_secs(least) || duration > LONGEST {
            mistakes.push(tcp.settings.mistake_at(key, format!("{least}s to 9h")));
        }
    }
}
