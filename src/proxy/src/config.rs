//! The configuration file as a whole.
//!
//! ```text
//! towpath.toml ─┬▶ parts (file and includes) ─▶ tables, each by itself ─▶ checks across them ─▶ Config
//!               └───────────────── every mistake on the way, with its place ─────────────────▶ Mistakes
//! ```

mod address;
mod admin;
mod checks;
mod cluster;
mod events;
mod limits;
mod listener;
mod load;
mod monitor;
mod part;
mod proxy_protocol;
mod reload;
mod schema;
mod tables;
mod tcp;
mod telemetry;
mod user;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use admin::Admin;
pub use cluster::Cluster;
pub use events::{EventText, Events, EventsOf};
pub use limits::Limits;
pub use listener::{
    AuthPlugin, ClientCertificate, Compression, Listener, ListenerTls, ListenerTlsMode, LoginBy,
};
pub use monitor::{Monitor, MonitorTable};
pub use proxy_protocol::{Network, ProxyProtocol};
pub use reload::Reload;
pub use tables::{
    Backend, Hostgroup, Log, LogFormat, Server, ServerCompression, ServerTls, ServerTlsMode,
    ServerWord, Shutdown,
};
pub use tcp::Tcp;
pub use telemetry::{Otlp, OtlpProtocol, ParentSource, QueryText, Trace, TraceLevel};
pub use user::{Account, Require, User};

use chain::{Chain, Registry, Topology, settings::Mistakes};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// A configuration that was found good: passwords read, paths absolute, names resolved.
#[derive(Debug)]
pub struct Config {
    /// Metrics and status.
    pub admin: Admin,
    /// What is logged.
    pub log: Log,
    /// The file with a line for each command.
    pub events: Events,
    /// Where traces and metrics are sent.
    pub otlp: Otlp,
    /// Which commands are traced.
    pub trace: Trace,
    /// Bounds on what clients can take.
    pub limits: Limits,
    /// Connections to servers.
    pub backend: Backend,
    /// How peers are noticed that are gone.
    pub tcp: Tcp,
    /// How the proxy ends.
    pub shutdown: Shutdown,
    /// At least one.
    pub listeners: Vec<Listener>,
    /// At least one, each with a name of its own.
    pub users: Vec<User>,
    /// In the order of the file; behind them those that clusters have added.
    pub servers: Vec<Server>,
    /// In the order of the file.
    pub clusters: Vec<Cluster>,
    /// How servers are watched.
    pub monitor: Monitor,
    /// Names of hostgroups. A hostgroup without a name is not among them.
    pub hostgroups: Vec<Hostgroup>,
    /// By name. Every listener's chain is there.
    pub chains: BTreeMap<String, Chain>,
    /// When the configuration is read again.
    pub reload: Reload,
    /// All files that it was read from but certificates.
    pub files: Vec<PathBuf>,
}

impl Config {
    /// Reads the file at `path`, the files that it includes, passwords and certificates.
    ///
    /// # Errors
    ///
    /// All mistakes of all the files, each with its place.
    pub fn load(path: &Path, registry: &Registry) -> Result<Self, Mistakes> {
        Self::load_with(path, registry, &|name| std::env::var(name).ok())
    }

    /// As [`Self::load`], with variables from elsewhere than the environment.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn load_with(
        path: &Path,
        registry: &Registry,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Mistakes> {
        load::load(path, registry, variables)
    }

    /// The JSON Schema (draft 2020-12) of the file, with the settings of the registry's filters.
    pub fn schema(registry: &Registry) -> serde_json::Value {
        schema::of_file(registry)
    }

    /// The servers, as filters see them.
    pub fn topology(&self) -> Topology {
        crate::runtime::alone(self)
    }

    /// How many of each there are, for people.
    pub fn summary(&self) -> String {
        let counts = [
            (self.listeners.len(), "listener"),
            (self.chains.len(), "chain"),
            (self.users.len(), "user"),
            (self.servers.iter().filter(|server| !server.twin).count(), "server"),
        ];
        let words = counts.map(|(n, word)| format!("{n} {word}{}", if n == 1 { "" } else { "s" }));
        words.join(", ")
    }
}
