//! What clients are greeted with: the servers' own version and abilities.

use crate::{
    backend::{Backend, Backends},
    config,
};
use chain::{HostgroupId, session::Peer};
use std::sync::Arc;
use wire::{
    auth::{Nonce, Plugin},
    capability::Capabilities,
    err::{ErrPacket, ErrorCode, codes},
    greeting::Greeting,
};

/// Makes the greetings of one listener.
pub(crate) struct Greeter {
    version: Option<String>,
    plugin: Option<Plugin>,
    /// What clients may compress with, as far as the servers have it.
    compression: Capabilities,
    model: Arc<Model>,
}

/// Whose greetings are passed on: the servers that users' commands go to, then the others, each in
/// the order of the file.
pub(crate) struct Model(Vec<Arc<Backend>>);

/// Abilities of servers that the proxy does not have, or that are a listener's to offer. More than
/// one factor is not among them: the flag says that a server may ask for another, and no user has
/// one.
const NOT_OURS: Capabilities =
    COMPRESSION.union(Capabilities::CAPABILITY_EXTENSION).union(Capabilities::SSL);

const COMPRESSION: Capabilities =
    Capabilities::COMPRESS.union(Capabilities::ZSTD_COMPRESSION_ALGORITHM);

impl Model {
    pub(crate) fn new(backends: &Backends, users: &[config::User]) -> Self {
        let mut order: Vec<_> = backends.iter().collect();
        let serves_users = |backend: &Backend| {
            users.iter().any(|user| HostgroupId(user.hostgroup) == backend.hostgroup)
        };
        order.sort_by_key(|backend| !serves_users(backend));
        Self(order)
    }

    /// How the first server greets of which that is known. It is what the server last said, to
    /// whatever connection, and is kept for when it is down.
    fn known(&self) -> Option<Arc<Greeting>> {
        self.0.iter().find_map(|backend| backend.known_greeting())
    }

    /// What is known, or what the first server says that answers.
    async fn get(&self) -> Option<Arc<Greeting>> {
        if let Some(known) = self.known() {
            return Some(known);
        }
        for backend in &self.0 {
            match backend.ask_greeting().await {
                Ok(()) => return self.known(),
                Err(error) => {
                    tracing::warn!(server = %backend.server.name, %error, "no greeting");
                }
            }
        }
        None
    }
}

impl Greeter {
    pub(crate) fn new(listener: &config::Listener, model: Arc<Model>) -> Self {
        let plugin = listener.default_auth.map(|plugin| match plugin {
            config::AuthPlugin::MysqlNativePassword => Plugin::NativePassword,
            config::AuthPlugin::CachingSha2Password => Plugin::CachingSha2Password,
            config::AuthPlugin::MysqlClearPassword => Plugin::ClearPassword,
            config::AuthPlugin::Ed25519 => Plugin::Ed25519,
            config::AuthPlugin::Parsec => Plugin::Parsec,
        });
        let compression = listener.compression.iter().map(|algorithm| match algorithm {
            config::Compression::Zlib => Capabilities::COMPRESS,
            config::Compression::Zstd => Capabilities::ZSTD_COMPRESSION_ALGORITHM,
        });
        let compression = compression.fold(Capabilities::EMPTY, Capabilities::union);
        Self { version: listener.server_version.clone(), plugin, compression, model }
    }

    /// The greeting for one client, or the reason why there is none.
    pub(crate) async fn greeting(
        &self,
        nonce: Nonce,
        thread_id: u32,
        tls: bool,
    ) -> Result<Greeting, ErrPacket> {
        let Some(model) = self.model.get().await else {
            let text = "no server has been reachable yet, so its version is not known";
            let code = ErrorCode { code: chain::error::code::SERVER_OFFLINE, sqlstate: *b"08S01" };
            return Err(ErrPacket::new(code, text));
        };
        let plugin = self.plugin_of(&model);
        Ok(Greeting { nonce, plugin, ..self.adapted(&model, thread_id, tls) })
    }

    /// A server's greeting for a client that the server itself will check.
    pub(crate) fn relayed(&self, theirs: &Greeting, thread_id: u32, tls: bool) -> Greeting {
        self.adapted(theirs, thread_id, tls)
    }

    /// A server's greeting with what is the listener's own.
    fn adapted(&self, model: &Greeting, thread_id: u32, tls: bool) -> Greeting {
        let compression = model.capabilities.intersection(self.compression);
        let mut capabilities = model.capabilities.difference(NOT_OURS).union(compression);
        if tls {
            capabilities = capabilities.union(Capabilities::SSL);
        }
        let version = self.version.as_ref().map(|version| version.as_bytes().to_vec());
        Greeting {
            server_version: version.unwrap_or_else(|| model.server_version.clone()),
            thread_id,
            capabilities,
            ..model.clone()
        }
    }

    /// Whether the servers are MariaDB's, as far as that is known.
    pub(crate) fn is_mariadb(&self) -> bool {
        self.model.known().is_some_and(|greeting| greeting.is_mariadb())
    }

    /// The refusal of a host whose logins break off, in the words of the servers.
    pub(crate) fn host_is_blocked(&self, peer: Peer) -> ErrPacket {
        let tool = match self.is_mariadb() {
            true => "mariadb-admin",
            false => "mysqladmin",
        };
        let text = format!(
            "Host '{peer}' is blocked because of many connection errors; \
             unblock with '{tool} flush-hosts'"
        );
        ErrPacket::new(codes::ER_HOST_IS_BLOCKED, text)
    }

    /// The plugin that the file names, if it does.
    pub(crate) fn asks_for(&self) -> Option<&Plugin> {
        self.plugin.as_ref()
    }

    /// The plugin that passwords are checked with.
    pub(crate) fn plugin(&self, greeting: &Greeting) -> Plugin {
        self.plugin.clone().unwrap_or_else(|| greeting.plugin.clone())
    }

    /// The plugin of the greeting: as from servers, the others are asked for by an auth switch.
    fn plugin_of(&self, model: &Greeting) -> Plugin {
        match (&self.plugin, &model.plugin) {
            (Some(plugin @ (Plugin::NativePassword | Plugin::CachingSha2Password)), _) => {
                plugin.clone()
            }
            (None | Some(_), Plugin::NativePassword) => Plugin::NativePassword,
            (None | Some(_), _) => Plugin::CachingSha2Password,
        }
    }
}
