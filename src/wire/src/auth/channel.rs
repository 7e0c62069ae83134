//! What a connection lets others see.

use super::Plugin;

/// How an authentication travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Anybody on the way can read it.
    Open,
    /// A unix socket: nobody is on the way.
    Socket,
    /// TLS.
    Tls,
}

impl Channel {
    /// Whether nobody can listen in.
    #[must_use]
    pub fn is_secure(self) -> bool {
        self != Self::Open
    }

    /// Whether both ends expect the password itself here, once the plugin has come to that. For
    /// sha256_password a unix socket is as open as TCP: it takes the RSA key there.
    #[must_use]
    pub fn shows_password(self, plugin: &Plugin) -> bool {
        match plugin {
            Plugin::Sha256Password => self == Self::Tls,
            _ => self.is_secure(),
        }
    }
}

/// Secure is TLS.
impl From<bool> for Channel {
    fn from(secure: bool) -> Self {
        if secure { Self::Tls } else { Self::Open }
    }
}
