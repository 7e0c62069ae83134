//! How servers are watched.

use super::{
    Account,
    part::{Entry, Variables},
    user::Ways,
};
use chain::settings::{HumanDuration, Mistakes, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// How servers are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Who asks the servers. Without it nobody does: what is known of them is what sessions meet
    /// with.
    pub account: Option<Account>,
    /// Intervals, timeouts and thresholds.
    pub settings: MonitorTable,
}

/// How servers are watched. Without `user` nobody asks them, and a server is only left alone for a
/// while when sessions cannot connect to it.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Monitor")]
pub struct MonitorTable {
    /// Whom the monitor logs in to every server as. It needs USAGE; in clusters REPLICATION CLIENT,
    /// for MariaDB REPLICA MONITOR.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub user: Option<String>,
    /// The password; "" for none. With `user`, exactly one of `password`, `password_file` and
    /// `password_env` must be there.
    #[serde(skip_serializing)]
    password: Option<String>,
    /// A file whose first line is the password.
    #[serde(skip_serializing)]
    password_file: Option<PathBuf>,
    /// A variable of the environment that holds the password.
    #[serde(skip_serializing)]
    password_env: Option<String>,
    /// How long a server may be without a question before it is pinged.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub ping_interval: Duration,
    /// How long a ping may take, or the connect before it.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub ping_timeout: Duration,
    /// How often a server of a cluster is asked whether it is read-only.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub read_only_interval: Duration,
    /// How long the answer may take.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub read_only_timeout: Duration,
    /// How often a replica of a cluster is asked how far it is behind.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub lag_interval: Duration,
    /// How long the answer may take.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub lag_timeout: Duration,
    /// After how many failures, one after the other, a server is shunned.
    #[schemars(range(min = 1))]
    pub failures: u32,
    /// After how many answers, one after the other, a server that was shunned or lagging comes
    /// back.
    #[schemars(range(min = 1))]
    pub successes: u32,
    /// How many answers, one after the other, must say that a server has become a primary or a
    /// replica.
    #[schemars(range(min = 1))]
    pub confirmations: u32,
    /// How long a shunned server is left alone at least.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub shun_time: Duration,
    /// A table, as schema.table, in which the primary notes the time (UTC) again and again: lag is
    /// then measured by it, to the ms. Default: what SHOW REPLICA STATUS says, in whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_$]+\.[A-Za-z0-9_$]+$"), extend("title" = "table with its schema", "examples" = ["percona.heartbeat"]))]
    pub heartbeat_table: Option<String>,
    /// The column of `heartbeat_table` with the time.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_$]+$"), extend("title" = "column's name", "examples" = ["ts"]))]
    pub heartbeat_column: String,
}

impl Default for MonitorTable {
    fn default() -> Self {
        Self {
            user: None,
            password: None,
            password_file: None,
            password_env: None,
            ping_interval: Duration::from_secs(2),
            ping_timeout: Duration::from_secs(1),
            read_only_interval: Duration::from_secs(1),
            read_only_timeout: Duration::from_secs(1),
            lag_interval: Duration::from_secs(2),
            lag_timeout: Duration::from_secs(1),
            failures: 3,
            successes: 2,
            confirmations: 2,
            shun_time: Duration::from_secs(2),
            heartbeat_table: None,
            heartbeat_column: "ts".to_owned(),
        }
    }
}

/// Without the password.
impl std::fmt::Debug for MonitorTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let durations = [
            self.ping_interval,
            self.ping_timeout,
            self.read_only_interval,
            self.read_only_timeout,
            self.lag_interval,
            self.lag_timeout,
            self.shun_time,
        ];
        f.debug_struct("MonitorTable")
            .field("user", &self.user)
            .field("durations", &durations)
            .field("thresholds", &[self.failures, self.successes, self.confirmations])
            .field("heartbeat", &(&self.heartbeat_table, &self.heartbeat_column))
            .finish()
    }
}

/// Reads the monitor's password.
pub(super) fn resolve(
    entry: &Entry<MonitorTable>,
    variables: Variables<'_>,
    mistakes: &mut Mistakes,
) -> Monitor {
    let table = &entry.value;
    let durations = [
        ("ping_interval", table.ping_interval),
        ("ping_timeout", table.ping_timeout),
        ("read_only_interval", table.read_only_interval),
        ("read_only_timeout", table.read_only_timeout),
        ("lag_interval", table.lag_interval),
        ("lag_timeout", table.lag_timeout),
        ("shun_time", table.shun_time),
    ];
    entry.not_zero(&durations, mistakes);
    let ways = Ways {
        prefix: "",
        text: &table.password,
        file: &table.password_file,
        variable: &table.password_env,
    };
    let account = match &table.user {
        Some(user) => ways
            .read(entry, variables, mistakes)
            .map(|password| Account { user: user.as_str().into(), password }),
        None => {
            for key in ways.keys_given() {
                let mistake = entry.settings.mistake_at(&key, format!("`{key}` without a user"));
                mistakes.push(mistake.hint("add user"));
            }
            None
        }
    };
    Monitor { account, settings: table.clone() }
}
