//! Names of authentication plugins.

/// An authentication plugin, by what the client's half of it is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// `mysql_native_password`: SHA-1, a single exchange.
    NativePassword,
    /// `caching_sha2_password`: SHA-256, the default of MySQL 8 and later.
    CachingSha2Password,
    /// `sha256_password`: MySQL's, the password itself by TLS or by RSA.
    Sha256Password,
    /// `mysql_clear_password`: the password itself, for what the server asks elsewhere (PAM, LDAP).
    ClearPassword,
    /// `client_ed25519`: a signature; MariaDB's `ed25519`.
    Ed25519,
    /// `parsec`: a signature by a key that is dear to derive; MariaDB's, from 11.6 on.
    Parsec,
    /// Any other, by its name.
    Other(String),
}

/// Those with a variant of their own, by name.
const KNOWN: [(&str, Plugin); 6] = [
    ("mysql_native_password", Plugin::NativePassword),
    ("caching_sha2_password", Plugin::CachingSha2Password),
    ("sha256_password", Plugin::Sha256Password),
    ("mysql_clear_password", Plugin::ClearPassword),
    ("client_ed25519", Plugin::Ed25519),
    ("parsec", Plugin::Parsec),
];

impl Plugin {
    /// The plugin of this name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Self {
        let known = KNOWN.into_iter().find(|(known, _)| known.as_bytes() == name);
        let other = || Self::Other(String::from_utf8_lossy(name).into_owned());
        known.map_or_else(other, |(_, plugin)| plugin)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => KNOWN.iter().find(|(_, plugin)| plugin == known).map_or("", |(name, _)| name),
        }
    }

    /// Whether its response is a signature: what it begins with is longer than a greeting's nonce,
    /// so that it always takes an auth switch.
    #[must_use]
    pub fn signs(&self) -> bool {
        matches!(self, Self::Ed25519 | Self::Parsec)
    }
}

impl std::fmt::Display for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
