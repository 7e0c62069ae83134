//! Towards a server: showing who we are.

use super::{
    ASK_KEY, AuthSwitch, Challenge, Channel, ExtSalt, FAST_OK, FULL, KeyError, MORE_DATA, Nonce,
    Plugin, PublicKey, SHA256_ASK_KEY, SWITCH, Secret, ed25519_sign, native_password, parsec_sign,
    scramble::xor_nonce, sha2_password,
};
use crate::{Capabilities, DecodeError, ErrPacket, OkPacket, err, ok};
use std::sync::Arc;
use thiserror::Error;
use zeroize::Zeroizing;

/// The machine for one login or COM_CHANGE_USER.
#[derive(Debug)]
pub struct ClientAuth {
    password: Secret,
    plugin: Plugin,
    /// What the plugin began with: a nonce, or a challenge.
    data: Vec<u8>,
    channel: Channel,
    key: Option<Arc<PublicKey>>,
    caps: Capabilities,
    awaits: Option<Awaited>,
    /// Payloads that the server may still send before its verdict.
    patience: u8,
}

/// What a plugin has asked the server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Key,
    Salt,
}

impl Awaited {
    fn from_the_start(plugin: &Plugin) -> Option<Self> {
        match plugin {
            Plugin::Sha256Password => Some(Self::Key),
            Plugin::Parsec => Some(Self::Salt),
            _ => None,
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this payload, then read the next.
    Send(Secret),
    /// Read the next payload.
    Read,
    /// The server has let us in.
    Done(OkPacket),
}

/// Why we are not in.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AuthError {
    /// The server has answered with an error.
    #[error("the server refuses the login: error {}", .0.code)]
    Refused(ErrPacket),
    /// The server wants a plugin that this crate does not have.
    #[error("the server wants the authentication plugin {0}, which is not supported")]
    Plugin(String),
    /// The server wants the password itself, where others may read it.
    #[error(
        "the server wants the password itself ({0}), which is sent over TLS or a unix socket only"
    )]
    Exposed(&'static str),
    /// The server's RSA key cannot be used.
    #[error("the server's RSA key: {0}")]
    Key(#[from] KeyError),
    /// The server has sent something that does not belong there.
    #[error("unexpected packet during authentication: {0}")]
    Unexpected(&'static str),
    /// The packet is malformed.
    #[error("malformed packet during authentication: {0}")]
    Malformed(#[from] DecodeError),
}

/// More exchanges than any method takes.
const PATIENCE: u8 = 16;

impl ClientAuth {
    /// A machine that begins with the plugin and nonce of a greeting.
    ///
    /// A plugin that cannot begin (this crate does not have it, it signs, it would expose the
    /// password) is replaced by `mysql_native_password`: the server asks for another one anyhow if
    /// the account has another.
    ///
    /// The password itself is sent only where nobody can listen in, and only when the server asks
    /// for it.
    #[must_use]
    pub fn new(
        password: Secret,
        plugin: Plugin,
        nonce: Nonce,
        channel: impl Into<Channel>,
    ) -> Self {
        let channel = channel.into();
        let plugin = match plugin {
            Plugin::Other(_) | Plugin::Ed25519 | Plugin::Parsec => Plugin::NativePassword,
            Plugin::ClearPassword if !channel.is_secure() => Plugin::NativePassword,
            plugin => plugin,
        };
        Self {
            password,
            awaits: Awaited::from_the_start(&plugin),
            plugin,
            data: nonce.to_vec(),
            channel,
            key: None,
            caps: Capabilities::PROTOCOL_41,
            patience: PATIENCE,
        }
    }

    /// Trusts this RSA key of the server only, instead of the one that it sends.
    #[must_use]
    pub fn pin_key(mut self, key: Arc<PublicKey>) -> Self {
        self.key = Some(key);
        self
    }

    /// The negotiated capabilities, which the final OK packet is read by.
    #[must_use]
    pub fn capabilities(mut self, caps: Capabilities) -> Self {
        self.caps = caps;
        self
    }

    /// The plugin in use: what the login names.
    #[must_use]
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// The plugin's first response: what the login carries.
    #[must_use]
    pub fn response(&self) -> Secret {
        // No plugin that can begin fails with a whole nonce.
        self.first_response().unwrap_or_default()
    }

    /// Takes a payload that the server sent after the login.
    ///
    /// # Errors
    ///
    /// [`AuthError`]; the connection is of no more use then.
    pub fn receive(&mut self, payload: &[u8]) -> Result<Step, AuthError> {
        self.patience = self.patience.checked_sub(1).ok_or(AuthError::Unexpected("no end"))?;
        match payload.first() {
            Some(&(b'P' | MORE_DATA)) if self.awaits == Some(Awaited::Salt) => self.salt(payload),
            Some(&ok::HEADER) => Ok(Step::Done(OkPacket::decode(payload, self.caps)?)),
            Some(&err::HEADER) => Err(AuthError::Refused(ErrPacket::decode(payload)?)),
            Some(&SWITCH) => self.switch(payload),
            Some(&MORE_DATA) => self.more_data(&payload[1..]),
            Some(_) => Err(AuthError::Unexpected("unknown header")),
            None => Err(AuthError::Unexpected("empty")),
        }
    }

    fn switch(&mut self, payload: &[u8]) -> Result<Step, AuthError> {
        if payload.len() == 1 {
            return Err(AuthError::Plugin("mysql_old_password".into()));
        }
        let AuthSwitch { plugin, data } = AuthSwitch::decode(payload)?;
        self.awaits = Awaited::from_the_start(&plugin);
        self.plugin = plugin;
        self.data = data;
        Ok(Step::Send(self.first_response()?))
    }

    fn first_response(&self) -> Result<Secret, AuthError> {
        let password = self.password.expose();
        Ok(match &self.plugin {
            Plugin::NativePassword => native_password(password, &self.nonce()?),
            // As the reference client does: it has a way to say "no password" and "no response".
            Plugin::CachingSha2Password | Plugin::Sha256Password if password.is_empty() => {
                Secret::from([0])
            }
            Plugin::CachingSha2Password => sha2_password(password, &self.nonce()?),
            Plugin::Sha256Password => match &self.key {
                _ if self.is_shown() => self.closed_password(),
                Some(key) => self.encrypted(key)?,
                None => Secret::from([SHA256_ASK_KEY]),
            },
            Plugin::ClearPassword if self.is_shown() => self.closed_password(),
            Plugin::ClearPassword => return Err(AuthError::Exposed("mysql_clear_password")),
            Plugin::Ed25519 => ed25519_sign(password, &self.challenge()?),
            Plugin::Parsec => self.challenge().map(|_| Secret::default())?,
            Plugin::Other(name) => return Err(AuthError::Plugin(name.clone())),
        })
    }

    fn more_data(&mut self, data: &[u8]) -> Result<Step, AuthError> {
        match (&self.plugin, data) {
            (Plugin::CachingSha2Password | Plugin::Sha256Password, _) if self.takes_key() => {
                self.awaits = None;
                Ok(Step::Send(self.encrypted(&PublicKey::from_pem(data)?)?))
            }
            (Plugin::CachingSha2Password, [FAST_OK]) => Ok(Step::Read),
            (Plugin::CachingSha2Password, [FULL]) => self.full(),
            _ => Err(AuthError::Unexpected("more data")),
        }
    }

    /// Whether the server has been asked for its key, and not answered yet.
    fn takes_key(&self) -> bool {
        !self.is_shown() && self.key.is_none() && self.awaits == Some(Awaited::Key)
    }

    /// The server wants the password itself.
    fn full(&mut self) -> Result<Step, AuthError> {
        if self.is_shown() {
            return Ok(Step::Send(self.closed_password()));
        }
        if let Some(key) = &self.key {
            return Ok(Step::Send(self.encrypted(key)?));
        }
        self.awaits = Some(Awaited::Key);
        Ok(Step::Send(Secret::from([ASK_KEY])))
    }

    /// parsec's salt; MariaDB marks it as more data only where it looks like something else.
    fn salt(&mut self, payload: &[u8]) -> Result<Step, AuthError> {
        self.awaits = None;
        let salt = ExtSalt::decode(payload.strip_prefix(&[MORE_DATA]).unwrap_or(payload))?;
        Ok(Step::Send(parsec_sign(self.password.expose(), &salt, &self.challenge()?)))
    }

    fn is_shown(&self) -> bool {
        self.channel.shows_password(&self.plugin)
    }

    fn encrypted(&self, key: &PublicKey) -> Result<Secret, AuthError> {
        let mut password = Zeroizing::new(self.closed_password().expose().to_vec());
        xor_nonce(&mut password, &self.nonce()?);
        Ok(Secret::from(key.encrypt(&password)?))
    }

    fn closed_password(&self) -> Secret {
        Secret::from([self.password.expose(), &[0]].concat())
    }

    fn nonce(&self) -> Result<Nonce, DecodeError> {
        self.data.first_chunk().copied().ok_or(DecodeError::Truncated("nonce"))
    }

    fn challenge(&self) -> Result<Challenge, DecodeError> {
        self.data[..].try_into().map_err(|_| DecodeError::Invalid("length of the challenge"))
    }
}
