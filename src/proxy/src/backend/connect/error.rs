//! Why there is no connection to a server.

use std::{io, time::Duration};
use tokio::sync::AcquireError;
use wire::{
    DecodeError,
    auth::client,
    capability::Capabilities,
    err::{ErrPacket, codes},
    greeting::GreetingError,
    packet::PacketError,
};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no login within {0:?}")]
    Timeout(Duration),
    #[error("error {code}: {text}", code = .0.code, text = .0.message_lossy())]
    Refused(ErrPacket),
    #[error("{0}")]
    Login(client::AuthError),
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("the server does not offer TLS, which its configuration requires")]
    NoTls,
    #[error("the server cannot do what the client was promised: {0:?}")]
    Capabilities(Capabilities),
    #[error("all {0} connections that it may have (max_connections) are in use")]
    Full(u32),
    #[error("{0}")]
    Protocol(String),
}

impl ConnectError {
    /// Whether another attempt, or another server, may do better.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Io(_) | Self::Timeout(_) | Self::Full(_) => true,
            Self::Refused(err) => TRANSIENT.contains(&err.code),
            _ => false,
        }
    }

    /// Whether the server cannot be used, whoever asks: another one may do better.
    pub(crate) fn is_of_the_server(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::NoTls | Self::Capabilities(_) | Self::Protocol(_))
    }
}

/// Errors of a server that has no room, or is about to start or to end.
const TRANSIENT: [u16; 3] = [
    codes::ER_CON_COUNT_ERROR.code,
    codes::ER_SERVER_SHUTDOWN.code,
    codes::ER_TOO_MANY_USER_CONNECTIONS.code,
];

impl From<PacketError> for ConnectError {
    fn from(error: PacketError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<DecodeError> for ConnectError {
    fn from(error: DecodeError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<GreetingError> for ConnectError {
    fn from(error: GreetingError) -> Self {
        match error {
            GreetingError::Refused(err) => Self::Refused(err),
            other => Self::Protocol(other.to_string()),
        }
    }
}

impl From<client::AuthError> for ConnectError {
    fn from(error: client::AuthError) -> Self {
        match error {
            client::AuthError::Refused(err) => Self::Refused(err),
            other => Self::Login(other),
        }
    }
}

/// The semaphore of a server that is closed: the proxy is about to end.
impl From<AcquireError> for ConnectError {
    fn from(_: AcquireError) -> Self {
        Self::Protocol("the proxy is about to end".into())
    }
}
