//! The tables of the file, one type each. Their comments are the schema's descriptions.

use super::Address;
use chain::settings::{HumanDuration, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};
use wire::compress::Method;

/// What is logged, to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A level (error, warn, info, debug, trace), or a list of them for parts of the program, as
    /// in "info,proxy=debug".
    #[schemars(length(min = 1))]
    pub level: String,
    /// How a line looks.
    pub format: LogFormat,
    /// Commands whose reply takes longer than this have a line each; "0s" is none.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub slow_queries: Duration,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Text, with colours on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

/// A server, in one hostgroup. Stands several times for a server of several hostgroups.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The hostgroup it is in.
    pub hostgroup: u32,
    /// TCP (host:port) or unix:PATH.
    pub address: Address,
    /// What it is called in logs and metrics. Default: its address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "Option<String>")]
    pub name: String,
    /// Its share among the servers of its hostgroup; 0 is never chosen.
    #[serde(default = "one")]
    #[schemars(range(max = 10_000_000))]
    pub weight: u32,
    /// Connections to it at once, used and idle.
    #[serde(default = "thousand")]
    #[schemars(range(min = 1))]
    pub max_connections: u32,
    /// What its operator says of it, wherever it stands; the admin port can change it.
    #[serde(default)]
    pub state: ServerWord,
    /// TLS towards it.
    #[serde(default)]
    pub tls: ServerTls,
    /// Compression towards it, if it can; worth its time on slow links only.
    #[serde(default)]
    pub compression: ServerCompression,
    /// From 1 (fast) to 9 for zlib, to 22 for zstd (small). Default: 6 for zlib, 3 for zstd.
    #[schemars(range(min = 1, max = 22))]
    pub compression_level: Option<u8>,
    /// Whether connections to it begin with a PROXY protocol header (version 2) that names the
    /// client. It must take them from this host.
    #[serde(default)]
    pub send_proxy_protocol: bool,
    /// Its cluster has added it: the file names it in the other hostgroup only.
    #[serde(skip)]
    pub(crate) twin: bool,
}

/// What its operator says of a server.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ServerWord {
    /// It is used, if it can be.
    #[default]
    Online,
    /// No new work; what is there goes on.
    OfflineSoft,
    /// Nothing; what is there is cut.
    OfflineHard,
}

/// Compression towards a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerCompression {
    /// No compression.
    #[default]
    None,
    /// zlib, which MySQL and MariaDB have.
    Zlib,
    /// zstd, which MySQL has.
    Zstd,
}

/// TLS towards a server.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTls {
    /// Whether TLS is used, and how much of the server's certificate is checked.
    pub mode: ServerTlsMode,
    /// A PEM file: the authorities that may sign its certificate. Default: the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// A PEM file: the certificate to show to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// A PEM file: the private key of `certificate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

/// Whether TLS is used, and how much of the server's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerTlsMode {
    /// No TLS.
    #[default]
    Disable,
    /// TLS if the server offers it; its certificate is not checked.
    Prefer,
    /// TLS or no connection; the certificate is not checked.
    Require,
    /// TLS, and an authority of `ca` has signed the certificate.
    VerifyCa,
    /// As verify-ca, and the certificate names the server's host.
    VerifyIdentity,
}

/// A name for a hostgroup.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hostgroup {
    /// Its number, as servers and users name it.
    pub id: u32,
    /// What it is called in logs and metrics.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Connections to servers, and the pools that keep them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Backend {
    /// How long a command may wait for its connection, all attempts together.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub connect_budget: Duration,
    /// How long one attempt may take, login included.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub connect_timeout: Duration,
    /// The pause between two attempts.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub connect_retry_delay: Duration,
    /// Idle connections that are kept for each server; 0 keeps none.
    pub pool_max_idle: u32,
    /// A connection that was idle for longer is closed.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub pool_max_idle_time: Duration,
    /// A connection that was opened longer ago is not used again.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub pool_max_age: Duration,
    /// Whether a statement is killed on its server when its client has gone. A server notices by
    /// itself only when it has something to send.
    pub kill_abandoned: bool,
    /// How long a statement whose client has gone may still run, with `kill_abandoned`.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub abandoned_grace: Duration,
    /// How long a client that is forwarded without a chain may take to read what its server had
    /// sent before it closed.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub grace_close: Duration,
}

/// How the proxy ends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// How long sessions may go on after SIGTERM or SIGINT.
    #[serde(with = "duration")]
    #[schemars(with = "HumanDuration")]
    pub grace: Duration,
    /// A unix socket at which the listening sockets are given to a process of the same user that
    /// takes over (`towpath run --take-over`). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_over: Option<PathBuf>,
}

impl Server {
    /// How frames towards it are compressed, if it can.
    pub(crate) fn compression_method(&self) -> Option<Method> {
        let or = |method: Method| self.compression_level.unwrap_or(method.level());
        match self.compression {
            ServerCompression::None => None,
            ServerCompression::Zlib => Some(Method::Zlib { level: or(Method::ZLIB) }),
            ServerCompression::Zstd => Some(Method::Zstd { level: or(Method::ZSTD) }),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Auto, slow_queries: Duration::ZERO }
    }
}

impl Default for Backend {
    fn default() -> Self {
        Self {
            connect_budget: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
            connect_retry_delay: Duration::from_millis(100),
            pool_max_idle: 100,
            pool_max_idle_time: Duration::from_secs(300),
            pool_max_age: Duration::from_secs(3600),
            kill_abandoned: true,
            abandoned_grace: Duration::from_secs(1),
            grace_close: Duration::from_secs(5),
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { grace: Duration::from_secs(30), take_over: None }
    }
}

fn one() -> u32 {
    1
}

fn thousand() -> u32 {
    1_000
}
