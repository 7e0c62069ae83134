//! Bytes that are wiped and never shown.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A password, or what stands in for one. Wiped from memory when dropped; `Debug` shows nothing.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The bytes themselves.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<Vec<u8>>> From<T> for Secret {
    fn from(bytes: T) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }
}

/// In a time that depends on the lengths alone.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}
