//! Where clients connect: `[[listener]]`. The types' comments are the schema's descriptions.

use super::{Address, ProxyProtocol};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// TCP (host:port, port 0 for a free one) or unix:PATH.
    pub address: Address,
    /// The chain that the clients' commands go through.
    pub chain: String,
    /// The version that clients are told. Default: learnt from the servers.
    #[schemars(regex(pattern = r"^[0-9]+\.[0-9]+[ -~]*$"), extend("title" = "server version", "examples" = ["8.4.0"]))]
    pub server_version: Option<String>,
    /// TLS towards clients.
    #[serde(default)]
    pub tls: ListenerTls,
    /// Who checks the clients' passwords.
    #[serde(default)]
    pub login: LoginBy,
    /// With login = "server" and "untouched": the hostgroup whose servers check them and run all
    /// commands.
    pub hostgroup: Option<u32>,
    /// The authentication plugin that passwords are checked with. Default: learnt from the servers.
    pub default_auth: Option<AuthPlugin>,
    /// What clients may compress with, if the servers can; [] for nothing. Default: all.
    #[serde(default = "all_compression")]
    pub compression: Vec<Compression>,
    /// Load balancers that say whose a connection is.
    #[serde(default)]
    pub proxy_protocol: ProxyProtocol,
}

/// Who checks the clients' passwords.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoginBy {
    /// The proxy, by the users of the file.
    #[default]
    Proxy,
    /// A server; the proxy knows no passwords, and each session has one connection of its own.
    Server,
    /// A server, and the proxy reads nothing of it: bytes are forwarded from the first one on, TLS
    /// and all.
    Untouched,
}

/// A compression algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// zlib, which MySQL and MariaDB have.
    Zlib,
    /// zstd, which MySQL has.
    Zstd,
}

/// TLS towards clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListenerTls {
    /// Whether clients can or must use TLS.
    pub mode: ListenerTlsMode,
    /// A PEM file: the certificate, and those between it and its authority. Without it, a
    /// self-signed certificate is made at start, if `self_signed` allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// A PEM file: the certificate's private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Whether a certificate may be made at start where no file is given.
    pub self_signed: bool,
    /// A PEM file: the authorities that must have signed a client's certificate when it shows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// Whether a client must show a certificate. Needs `client_ca`.
    pub client_certificate: ClientCertificate,
}

/// Whether clients must show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCertificate {
    /// A certificate is checked if the client shows one.
    #[default]
    Optional,
    /// A client without one is refused, as is one without TLS.
    Required,
}

/// Whether clients can or must use TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ListenerTlsMode {
    /// Not offered.
    Disable,
    /// Offered; the client decides.
    #[default]
    Prefer,
    /// A client without it is refused.
    Require,
}

/// An authentication plugin, named as the servers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthPlugin {
    /// SHA-256 with a cache on the server; MySQL's default since 8.0.
    CachingSha2Password,
    /// SHA-1; MariaDB's default.
    MysqlNativePassword,
    /// The password itself, over TLS or a unix socket only.
    MysqlClearPassword,
    /// A signature; MariaDB's.
    Ed25519,
    /// A signature by a key that is dear to derive; MariaDB's, from 11.6 on.
    Parsec,
}

impl Default for ListenerTls {
    fn default() -> Self {
        Self {
            mode: ListenerTlsMode::default(),
            certificate: None,
            key: None,
            self_signed: true,
            client_ca: None,
            client_certificate: ClientCertificate::default(),
        }
    }
}

fn all_compression() -> Vec<Compression> {
    vec![Compression::Zlib, Compression::Zstd]
}
