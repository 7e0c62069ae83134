//! Names of authentication plugins.

/// An authentication plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// `mysql_native_password`: SHA-1, a single exchange.
    NativePassword,
    /// `caching_sha2_password`: SHA-256, the default of MySQL 8 and later.
    CachingSha2Password,
    /// Any other, by its name.
    Other(String),
}

const NATIVE: &str = "mysql_native_password";
const CACHING_SHA2: &str = "caching_sha2_password";

impl Plugin {
    /// The plugin of this name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Self {
        match name {
            name if name == NATIVE.as_bytes() => Self::NativePassword,
            name if name == CACHING_SHA2.as_bytes() => Self::CachingSha2Password,
            other => Self::Other(String::from_utf8_lossy(other).into_owned()),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::NativePassword => NATIVE,
            Self::CachingSha2Password => CACHING_SHA2,
            Self::Other(name) => name,
        }
    }
}

impl std::fmt::Display for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
