//! What clients are greeted with: the servers' own version and abilities.

use crate::{backend::Backends, config};
use arc_swap::ArcSwapOption;
use chain::session::Peer;
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

/// A server's greeting, learnt once and kept for when no server is there.
pub(crate) struct Model {
    learnt: ArcSwapOption<Greeting>,
    backends: Arc<Backends>,
}

/// Abilities of servers that the proxy does not have, such as more than one factor, or that are a
/// listener's to offer.
const NOT_OURS: Capabilities = COMPRESSION
    .union(Capabilities::MULTI_FACTOR_AUTHENTICATION)
    .union(Capabilities::CAPABILITY_EXTENSION)
    .union(Capabilities::SSL);

const COMPRESSION: Capabilities =
    Capabilities::COMPRESS.union(Capabilities::ZSTD_COMPRESSION_ALGORITHM);

impl Model {
    pub(crate) fn new(backends: Arc<Backends>) -> Self {
        Self { learnt: ArcSwapOption::empty(), backends }
    }

    /// What is known, or what the first server says that answers.
    pub(crate) async fn get(&self) -> Option<Arc<Greeting>> {
        if let Some(known) = self.learnt.load_full() {
            return Some(known);
        }
        for backend in self.backends.iter() {
            match backend.greeting().await {
                Ok(greeting) => {
                    let greeting = Arc::new(greeting);
                    self.learnt.store(Some(greeting.clone()));
                    return Some(greeting);
                }
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
        let compression = model.capabilities.intersection(self.compression);
        let mut capabilities = model.capabilities.difference(NOT_OURS).union(compression);
        if tls {
            capabilities = capabilities.union(Capabilities::SSL);
        }
        let version = self.version.as_ref().map(|version| version.as_bytes().to_vec());
        Ok(Greeting {
            server_version: version.unwrap_or_else(|| model.server_version.clone()),
            thread_id,
            nonce,
            capabilities,
            collation: model.collation,
            status: model.status,
            plugin: self.plugin_of(&model),
        })
    }

    /// The refusal of a host whose logins break off, in the words of the servers.
    pub(crate) fn host_is_blocked(&self, peer: Peer) -> ErrPacket {
        let known = self.model.learnt.load();
        let tool = match known.as_ref().is_some_and(|greeting| greeting.is_mariadb()) {
            true => "mariadb-admin",
            false => "mysqladmin",
        };
        let text = format!(
            "Host '{peer}' is blocked because of many connection errors; \
             unblock with '{tool} flush-hosts'"
        );
        ErrPacket::new(codes::ER_HOST_IS_BLOCKED, text)
    }

    /// The plugin that passwords are checked with.
    fn plugin_of(&self, model: &Greeting) -> Plugin {
        match (&self.plugin, &model.plugin) {
            (Some(configured), _) => configured.clone(),
            (None, Plugin::NativePassword) => Plugin::NativePassword,
            (None, _) => Plugin::CachingSha2Password,
        }
    }
}
