//! Towards a server: showing who we are.

use super::{
    ASK_KEY, AuthSwitch, FAST_OK, FULL, KeyError, MORE_DATA, NONCE_LEN, Nonce, Plugin, PublicKey,
    SWITCH, Secret,
    scramble::{scramble, xor_nonce},
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
    nonce: Nonce,
    secure: bool,
    key: Option<Arc<PublicKey>>,
    caps: Capabilities,
    awaits_key: bool,
    /// Payloads that the server may still send before its verdict.
    patience: u8,
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
    /// A plugin that this crate does not have is replaced by `mysql_native_password`: the server
    /// asks for another one anyhow if the account has another.
    ///
    /// `secure` says that nobody can listen in (TLS, unix socket): only then the password itself
    /// is ever sent, and only when the server asks for it.
    #[must_use]
    pub fn new(password: Secret, plugin: Plugin, nonce: Nonce, secure: bool) -> Self {
        let plugin = match plugin {
            Plugin::Other(_) => Plugin::NativePassword,
            plugin => plugin,
        };
        Self {
            password,
            plugin,
            nonce,
            secure,
            key: None,
            caps: Capabilities::PROTOCOL_41,
            awaits_key: false,
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
        let response = scramble(&self.plugin, self.password.expose(), &self.nonce);
        match response.unwrap_or_default() {
            // As the reference client does: it has a way to say "no password" and "no response".
            empty if empty.is_empty() && self.plugin == Plugin::CachingSha2Password => {
                Secret::from([0])
            }
            response => response,
        }
    }

    /// Takes a payload that the server sent after the login.
    ///
    /// # Errors
    ///
    /// [`AuthError`]; the connection is of no more use then.
    pub fn receive(&mut self, payload: &[u8]) -> Result<Step, AuthError> {
        self.patience = self.patience.checked_sub(1).ok_or(AuthError::Unexpected("no end"))?;
        match payload.first() {
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
        if let Plugin::Other(name) = plugin {
            return Err(AuthError::Plugin(name));
        }
        self.nonce = *data.first_chunk::<NONCE_LEN>().ok_or(DecodeError::Truncated("nonce"))?;
        self.plugin = plugin;
        self.awaits_key = false;
        Ok(Step::Send(self.response()))
    }

    fn more_data(&mut self, data: &[u8]) -> Result<Step, AuthError> {
        if self.plugin != Plugin::CachingSha2Password {
            return Err(AuthError::Unexpected("more data"));
        }
        match data {
            _ if self.awaits_key => {
                self.awaits_key = false;
                self.encrypted(&PublicKey::from_pem(data)?)
            }
            [FAST_OK] => Ok(Step::Read),
            [FULL] => self.full(),
            _ => Err(AuthError::Unexpected("more data")),
        }
    }

    /// The server wants the password itself.
    fn full(&mut self) -> Result<Step, AuthError> {
        if self.secure {
            return Ok(Step::Send(Secret::from(self.closed_password().to_vec())));
        }
        if let Some(key) = self.key.clone() {
            return self.encrypted(&key);
        }
        self.awaits_key = true;
        Ok(Step::Send(Secret::from([ASK_KEY])))
    }

    fn encrypted(&self, key: &PublicKey) -> Result<Step, AuthError> {
        let mut password = self.closed_password();
        xor_nonce(&mut password, &self.nonce);
        Ok(Step::Send(Secret::from(key.encrypt(&password)?)))
    }

    fn closed_password(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([self.password.expose(), &[0]].concat())
    }
}
