//! Bounds on what clients can take: `[limits]`.

use super::part::Entry;
use chain::settings::{ByteSize, HumanDuration, Mistakes, duration, size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bounds on what clients can take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Client connections of all listeners together; one more is refused with error 1040.
    #[schemars(range(min = 1))]
    pub max_connections: u32,
    /// Clients at once that have not logged in yet; one more is refused with error 1040. 0 is as
    /// many as there may be connections.
    pub max_pending_logins: u32,
    /// The largest packet of a login, 1 KiB to 16 MiB; a larger one is refused with error 1153.
    #[serde(with = "size")]
    #[schemars(with = "ByteSize")]
    pub max_login_packet: u64,
    /// The largest command, 1 KiB to 1 GiB; a larger one is refused with error 1153.
    #[serde(with = "size")]
    #[schemars(with = "ByteSize")]
    pub max_allowed_packet: u64,
    /// Bytes of commands over 64 KiB that are in memory at once, of all sessions together, 1 MiB to
    /// 1 TiB; a command beyond it is refused with error 1153.
    #[serde(with = "size")]
    #[schemars(with = "ByteSize")]
    pub max_buffered: u64,
    /// Prepared statements of one session (COM_STMT_PREPARE); one more is refused with error 1461.
    pub max_prepared_statements: u32,
    /// Logins of one host that break off or are malformed, one after the other, before the host is
    /// refused with error 1129. A login that succeeds begins the count anew; a wrong password is
    /// not counted, nor are 127.0.0.1, ::1 and unix sockets. 0 is without limit.
    pub max_connect_errors: u32,
    /// How long such logins are remembered, and so how long their host stays refused.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub connect_errors_expire: Duration,
    /// How long a client may take from connecting until it is logged in.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub login_timeout: Duration,
    /// How long a client may be logged in without a command; then its connection is closed. From
    /// the first command on the servers' own wait_timeout counts.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub wait_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_pending_logins: 0,
            max_login_packet: 1 << 20,
            // MySQL's own default.
            max_allowed_packet: 64 << 20,
            max_buffered: 1 << 30,
            // The servers' own defaults, theirs for all sessions together.
            max_prepared_statements: 16_382,
            max_connect_errors: 100,
            connect_errors_expire: Duration::from_secs(600),
            login_timeout: Duration::from_secs(10),
            // The servers' own default.
            wait_timeout: Duration::from_secs(28_800),
        }
    }
}

pub(super) fn check(limits: &Entry<Limits>, mistakes: &mut Mistakes) {
    let Limits { login_timeout, wait_timeout, connect_errors_expire, .. } = limits.value;
    let durations = [
        ("login_timeout", login_timeout),
        ("wait_timeout", wait_timeout),
        ("connect_errors_expire", connect_errors_expire),
    ];
    limits.not_zero(&durations, mistakes);
    let Limits { max_login_packet, max_allowed_packet, max_buffered, .. } = limits.value;
    for (key, size, range, words) in [
        (
            "max_login_packet",
            max_login_packet,
            1 << 10..=16 << 20,
            "a login's limit is 1 KiB to 16 MiB",
        ),
        (
            "max_allowed_packet",
            max_allowed_packet,
            1 << 10..=1 << 30,
            "a command's limit is 1 KiB to 1 GiB",
        ),
        ("max_buffered", max_buffered, 1 << 20..=1 << 40, "all commands' limit is 1 MiB to 1 TiB"),
    ] {
        if !range.contains(&size) {
            mistakes.push(limits.settings.mistake_at(key, words));
        }
    }
}
