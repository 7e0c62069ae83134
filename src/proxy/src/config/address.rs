//! Where somebody listens or is reached.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, path::PathBuf};

/// A TCP address or a unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// `host:port`; an IPv6 address stands in brackets.
    Tcp(String),
    /// The path of a socket. Absolute once the configuration is loaded.
    Unix(PathBuf),
}

impl Address {
    /// The host of a TCP address, without brackets.
    pub fn host(&self) -> Option<&str> {
        let Self::Tcp(address) = self else { return None };
        let (host, _) = address.rsplit_once(':')?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Some(bare.unwrap_or(host))
    }

    /// The port of a TCP address.
    pub fn port(&self) -> Option<u16> {
        let Self::Tcp(address) = self else { return None };
        address.rsplit_once(':')?.1.parse().ok()
    }
}

impl TryFrom<String> for Address {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        /// What `sun_path` of unix(7) has room for, with the NUL at its end.
        const LONGEST_PATH: usize = 107;
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.len() {
                0 => Err("the path of the socket is missing after unix:"),
                1..=LONGEST_PATH => Ok(Self::Unix(path.into())),
                _ => Err("the path of a unix socket has at most 107 bytes"),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or("the port is missing: host:port")?;
        let in_brackets = host.starts_with('[') && host.ends_with(']');
        if host.contains(':') && !in_brackets {
            return Err("an IPv6 address stands in brackets: [::1]:3306");
        }
        match port.parse::<u16>() {
            Ok(_) => Ok(Self::Tcp(text)),
            Err(_) => Err("a port is a number from 0 to 65535"),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl JsonSchema for Address {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "title": "address",
            "pattern": "^(unix:.+|[^:/ ]+:[0-9]+|\\[[0-9A-Fa-f:.%]+\\]:[0-9]+)$",
            "examples": ["127.0.0.1:6033", "unix:/run/towpath.sock"],
        })
    }
}
