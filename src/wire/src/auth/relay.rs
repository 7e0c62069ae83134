//! Between a client and a server that check each other.
//!
//! What they say is passed on as it is, except where one hop is closed to others (TLS, a unix
//! socket) and the other is not. Each end then does what its own hop demands, and neither can do it
//! for the other's:
//!
//! ```text
//! client          server      the password itself
//! TLS             plain       comes as it is; encrypted here with the key that the server sends
//! plain           TLS         comes encrypted with a key of the relay's own; goes on as it is
//! ```

use super::{
    ASK_KEY, AuthSwitch, Channel, FULL, KeyError, MORE_DATA, Nonce, Plugin, PublicKey, RsaKeyPair,
    SHA256_ASK_KEY, SWITCH, Secret, more_data, scramble::xor_nonce,
};
use crate::{DecodeError, err, ok};
use bytes::Bytes;
use std::sync::Arc;
use thiserror::Error;
use zeroize::Zeroizing;

/// The machine for one login or COM_CHANGE_USER.
#[derive(Debug)]
pub struct RelayAuth {
    hops: Hops,
    plugin: Plugin,
    /// What the plugin began with.
    data: Vec<u8>,
    state: State,
    /// Payloads that may still come from either side.
    patience: u8,
}

/// What is known of the two connections.
#[derive(Clone, Debug)]
pub struct Hops {
    /// Between the client and here.
    pub client: Channel,
    /// Between here and the server.
    pub server: Channel,
    /// What a client encrypts its password with, where the server gets it as it is.
    pub key: Option<Arc<RsaKeyPair>>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this payload to the server; the first one is the response that the login carries.
    Server(Secret),
    /// Send this payload to the client, which answers it.
    Client(Bytes),
    /// Send this payload to the client, which does not answer it.
    Tell(Bytes),
    /// Send this payload to the client: the server's verdict, OK or ERR.
    Verdict(Bytes),
}

/// Why a login cannot be relayed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RelayError {
    /// The password itself would go over a channel that others may read.
    #[error("{0} shows the password: it is relayed between two secure connections only")]
    Exposed(Plugin),
    /// A password that was encrypted with another key than the one it is known by here.
    #[error("the password is encrypted with a key that is not this proxy's")]
    Foreign,
    /// The server's key cannot be used.
    #[error("the server's RSA key: {0}")]
    Key(#[from] KeyError),
    /// A malformed payload.
    #[error("malformed packet during authentication: {0}")]
    Malformed(#[from] DecodeError),
    /// More payloads than any method takes.
    #[error("an authentication without an end")]
    Endless,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The client's first response of a plugin comes next.
    First,
    /// The server wants the password itself.
    Full,
    /// The client has the key of this relay.
    KeySent,
    /// The client's password, which waits for the server's key.
    Holding(Secret),
    /// What comes is passed on.
    Passing,
}

/// First byte of `AuthNextFactor`, which goes on like an auth switch.
const NEXT_FACTOR: u8 = 0x02;

/// More exchanges than any method takes: PAM may ask many questions.
const PATIENCE: u8 = 100;

impl RelayAuth {
    /// A machine for a login with this plugin, made with this nonce of the server's.
    #[must_use]
    pub fn new(hops: Hops, plugin: Plugin, nonce: Nonce) -> Self {
        let data = nonce.to_vec();
        Self { hops, plugin, data, state: State::First, patience: PATIENCE }
    }

    /// Takes a payload of the client's; the first one is the response of its login.
    ///
    /// # Errors
    ///
    /// [`RelayError`]; the login is over then.
    pub fn client(&mut self, payload: &[u8]) -> Result<Step, RelayError> {
        self.count()?;
        match std::mem::replace(&mut self.state, State::Passing) {
            State::First => self.first(payload),
            State::Full => self.password(payload, ASK_KEY),
            State::KeySent => self.decrypted(payload),
            // Two in a row: the server will say what it thinks of that.
            State::Passing | State::Holding(_) => Ok(Step::Server(Secret::from(payload))),
        }
    }

    /// Takes a payload of the server's.
    ///
    /// # Errors
    ///
    /// As [`RelayAuth::client`].
    pub fn server(&mut self, payload: &[u8]) -> Result<Step, RelayError> {
        self.count()?;
        let bytes = Bytes::copy_from_slice(payload);
        let state = std::mem::replace(&mut self.state, State::Passing);
        match (payload, state) {
            ([ok::HEADER | err::HEADER, ..], _) => Ok(Step::Verdict(bytes)),
            ([SWITCH, _, ..], _) => {
                let AuthSwitch { plugin, data } = AuthSwitch::decode(payload)?;
                self.plugin = plugin;
                self.data = data;
                self.permit()?;
                self.state = State::First;
                Ok(Step::Client(bytes))
            }
            ([MORE_DATA, key @ ..], State::Holding(password)) => self.encrypted(&password, key),
            ([MORE_DATA, FULL], _) if self.plugin == Plugin::CachingSha2Password => {
                self.state = State::Full;
                Ok(Step::Client(bytes))
            }
            ([MORE_DATA, _], _) if self.plugin == Plugin::CachingSha2Password => {
                Ok(Step::Tell(bytes))
            }
            _ => {
                if let Some(AuthSwitch { plugin, data }) = next_factor(payload) {
                    (self.plugin, self.data, self.state) = (plugin, data, State::First);
                    self.permit()?;
                }
                Ok(Step::Client(bytes))
            }
        }
    }

    fn first(&mut self, response: &[u8]) -> Result<Step, RelayError> {
        self.permit()?;
        match self.plugin {
            Plugin::Sha256Password if !matches!(response, [] | [0]) => {
                self.password(response, SHA256_ASK_KEY)
            }
            _ => Ok(Step::Server(Secret::from(response))),
        }
    }

    /// The client sends its password, or asks for the key to encrypt it with.
    fn password(&mut self, payload: &[u8], ask_key: u8) -> Result<Step, RelayError> {
        let asks = *payload == [ask_key];
        let shown = |channel: Channel| channel.shows_password(&self.plugin);
        match (shown(self.hops.client), shown(self.hops.server)) {
            (true, false) if !asks => {
                self.state = State::Holding(Secret::from(payload));
                Ok(Step::Server(Secret::from([ask_key])))
            }
            (false, true) if asks => {
                let key = self.hops.key.as_ref().ok_or(RelayError::Foreign)?;
                self.state = State::KeySent;
                Ok(Step::Client(more_data(key.public_pem().as_bytes())))
            }
            (false, true) => self.decrypted(payload),
            _ => Ok(Step::Server(Secret::from(payload))),
        }
    }

    fn encrypted(&self, password: &Secret, pem: &[u8]) -> Result<Step, RelayError> {
        let mut password = Zeroizing::new(password.expose().to_vec());
        xor_nonce(&mut password, &self.nonce()?);
        Ok(Step::Server(Secret::from(PublicKey::from_pem(pem)?.encrypt(&password)?)))
    }

    fn decrypted(&self, payload: &[u8]) -> Result<Step, RelayError> {
        let key = self.hops.key.as_ref().ok_or(RelayError::Foreign)?;
        let mut password = key.decrypt(payload).map_err(|_| RelayError::Foreign)?;
        xor_nonce(&mut password, &self.nonce()?);
        Ok(Step::Server(Secret::from(password.to_vec())))
    }

    /// Refuses a plugin that shows the password where somebody may read it.
    fn permit(&self) -> Result<(), RelayError> {
        let secure = self.hops.client.is_secure() && self.hops.server.is_secure();
        match self.plugin {
            Plugin::ClearPassword if !secure => Err(RelayError::Exposed(self.plugin.clone())),
            _ => Ok(()),
        }
    }

    fn nonce(&self) -> Result<Nonce, DecodeError> {
        self.data.first_chunk().copied().ok_or(DecodeError::Truncated("nonce"))
    }

    fn count(&mut self) -> Result<(), RelayError> {
        self.patience = self.patience.checked_sub(1).ok_or(RelayError::Endless)?;
        Ok(())
    }
}

/// The plugin of the next factor, if it is one that is known here. A question of PAM's may begin
/// with the same byte.
fn next_factor(payload: &[u8]) -> Option<AuthSwitch> {
    let (&NEXT_FACTOR, rest) = payload.split_first()? else { return None };
    let switch = AuthSwitch::decode(&[&[SWITCH], rest].concat()).ok()?;
    (!matches!(switch.plugin, Plugin::Other(_))).then_some(switch)
}
