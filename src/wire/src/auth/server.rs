//! Towards a client: is it who it says it is?

use super::{
    ASK_KEY, AuthSwitch, CHALLENGE_LEN, Challenge, Channel, ExtSalt, FAST_OK, FULL, Nonce, Plugin,
    RsaKeyPair, SHA256_ASK_KEY, Secret, ed25519_verify, more_data, native_password, native_stored,
    parsec_verify, random,
    scramble::xor_nonce,
    sha2_password,
    signature::{SIGNATURE_LEN, ed25519_stored},
};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use zeroize::Zeroizing;

/// What a client is to be tested against.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The account's password; `None` if there is no such account. The client cannot tell a missing
    /// account from a wrong password: the steps are the same.
    pub password: Option<Secret>,
    /// The account's plugin; one that this crate does not have lets nobody in.
    pub plugin: Plugin,
    /// The nonce of the greeting. Plugins that sign get a challenge of their own.
    pub nonce: Nonce,
    /// How the authentication travels.
    pub channel: Channel,
    /// The key for passwords over channels that are not secure; it can be given later
    /// ([`ServerAuth::needs_key`]). Without it, full authentication over them is denied.
    pub key: Option<Arc<RsaKeyPair>>,
    /// Whether caching_sha2_password asks for the password itself without testing the scramble, as
    /// servers do that have not cached it. After a wrong scramble it asks in any case.
    pub full: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this payload, then ask again.
    Send(Bytes),
    /// Read a payload, give it to [`ServerAuth::receive`], then ask again.
    Read,
    /// The client is who it says it is. The caller sends OK.
    Accept,
    /// It is not, or it cannot show it. The caller sends ERR 1045.
    Deny,
}

/// The machine for one login or COM_CHANGE_USER.
#[derive(Debug)]
pub struct ServerAuth {
    expected: Expected,
    /// The password to test against: a random one if there is no account.
    password: Secret,
    known: bool,
    /// What plugins that sign are to sign, and parsec's salt.
    challenge: Challenge,
    salt: Option<ExtSalt>,
    state: State,
    outgoing: Option<Bytes>,
    password_used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The auth switch is out.
    Switched,
    /// The client knows that it must send the password itself.
    Full,
    /// The client has the public key.
    KeySent,
    /// The client has parsec's salt.
    SaltSent,
    Accepted,
    Denied,
}

impl ServerAuth {
    /// Begins with what the login says: its plugin, whether it can be asked for another
    /// ([`Capabilities::PLUGIN_AUTH`](crate::Capabilities::PLUGIN_AUTH)), and its response.
    #[must_use]
    pub fn new(expected: Expected, plugin: &Plugin, can_switch: bool, response: &[u8]) -> Self {
        let mut auth = Self::unbegun(expected);
        auth.password_used = !is_empty_password(response);
        let same = *plugin == auth.expected.plugin && !plugin.signs();
        if same && auth.fits(response) {
            auth.state = auth.judge(response);
        } else if same && *plugin == Plugin::CachingSha2Password {
            // MySQL 9.7 does not ask again for a response of another length.
        } else if can_switch {
            auth.state = auth.switch();
        }
        auth
    }

    /// Begins with an auth switch, whatever the client has said: so servers answer every
    /// COM_CHANGE_USER, MySQL 9.7 with a new nonce and MariaDB 10.11 with the greeting's.
    #[must_use]
    pub fn switched(expected: Expected) -> Self {
        let mut auth = Self::unbegun(expected);
        auth.state = auth.switch();
        auth
    }

    fn unbegun(expected: Expected) -> Self {
        let known = expected.password.is_some();
        let password = expected.password.clone().unwrap_or_else(|| {
            let mut unknown = [0; 16];
            random(&mut unknown);
            Secret::from(unknown)
        });
        let mut challenge = [0; CHALLENGE_LEN];
        random(&mut challenge);
        let (state, salt) = (State::Denied, None);
        let (outgoing, password_used) = (None, false);
        Self { expected, password, known, challenge, salt, state, outgoing, password_used }
    }

    /// What to do next.
    #[must_use]
    pub fn step(&mut self) -> Step {
        if let Some(payload) = self.outgoing.take() {
            return Step::Send(payload);
        }
        match self.state {
            State::Accepted => Step::Accept,
            State::Denied => Step::Deny,
            State::Switched | State::Full | State::KeySent | State::SaltSent => Step::Read,
        }
    }

    /// Whether the payload that is to be read may need the key, and there is none yet.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        self.state == State::Full && !self.is_shown() && self.expected.key.is_none()
    }

    /// The key that [`ServerAuth::needs_key`] is about.
    pub fn give_key(&mut self, key: Arc<RsaKeyPair>) {
        self.expected.key = Some(key);
    }

    /// Whether the client's response was one for a password, for the text of ERR 1045.
    #[must_use]
    pub fn password_used(&self) -> bool {
        self.password_used
    }

    /// What a server keeps of the password that the client has shown to know: what a certificate is
    /// vouched for by ([`certificate_proof`](super::certificate_proof)). `None` for an empty
    /// password, for plugins that MariaDB's clients vouch for nothing by, and before
    /// [`Step::Accept`].
    #[must_use]
    pub fn stored(&self) -> Option<Secret> {
        let password = self.password.expose();
        if self.state != State::Accepted || password.is_empty() {
            return None;
        }
        match self.expected.plugin {
            Plugin::NativePassword => Some(native_stored(password)),
            Plugin::Ed25519 => Some(ed25519_stored(password)),
            Plugin::Parsec => self.salt.as_ref().map(|salt| salt.stored(password)),
            _ => None,
        }
    }

    /// Takes the payload that was read. Whatever does not belong there leads to [`Step::Deny`].
    pub fn receive(&mut self, payload: &[u8]) {
        // The first answer to a switch counts: parsec's is empty, and MariaDB says NO then.
        if self.state == State::Switched {
            self.password_used = !is_empty_password(payload);
        }
        self.state = match self.state {
            State::Switched if self.fits(payload) => self.judge(payload),
            State::Full if self.is_shown() => self.compare_clear(payload),
            State::Full if *payload == [ASK_KEY] => self.send_key(),
            State::Full | State::KeySent => self.compare_encrypted(payload),
            State::SaltSent => self.compare_parsec(payload),
            State::Switched | State::Accepted | State::Denied => State::Denied,
        };
    }

    /// Whether a first response can be one of the account's plugin.
    fn fits(&self, response: &[u8]) -> bool {
        match self.expected.plugin {
            Plugin::NativePassword => response.len() == 20 || is_empty_password(response),
            Plugin::CachingSha2Password => response.len() == 32 || is_empty_password(response),
            // The password itself, closed by a NUL, in whatever form.
            Plugin::ClearPassword => self.is_shown(),
            Plugin::Sha256Password => true,
            Plugin::Ed25519 => response.len() == SIGNATURE_LEN,
            Plugin::Parsec => response.is_empty(),
            Plugin::Other(_) => false,
        }
    }

    fn switch(&mut self) -> State {
        let Expected { plugin, nonce, .. } = &self.expected;
        let data = match plugin {
            Plugin::Other(_) => return State::Denied,
            // Asking for it would make the client show its password to everybody.
            Plugin::ClearPassword if !self.is_shown() => return State::Denied,
            plugin if plugin.signs() => self.challenge.to_vec(),
            _ => nonce.to_vec(),
        };
        let mut payload = BytesMut::new();
        AuthSwitch { plugin: plugin.clone(), data }.encode(&mut payload);
        self.outgoing = Some(payload.freeze());
        State::Switched
    }

    /// Judges a first response that fits.
    fn judge(&mut self, response: &[u8]) -> State {
        let Expected { plugin, nonce, .. } = &self.expected;
        let password = self.password.expose();
        match plugin {
            Plugin::NativePassword => {
                self.judge_scramble(response, native_password(password, nonce))
            }
            Plugin::CachingSha2Password => {
                self.judge_scramble(response, sha2_password(password, nonce))
            }
            Plugin::ClearPassword => self.compare_clear(response),
            Plugin::Sha256Password if is_empty_password(response) => {
                self.verdict(password.is_empty())
            }
            Plugin::Sha256Password if self.is_shown() => self.compare_clear(response),
            Plugin::Sha256Password if *response == [SHA256_ASK_KEY] => self.send_key(),
            Plugin::Sha256Password => self.compare_encrypted(response),
            Plugin::Ed25519 => self.verdict(ed25519_verify(password, &self.challenge, response)),
            Plugin::Parsec => self.send_salt(),
            Plugin::Other(_) => State::Denied,
        }
    }

    fn judge_scramble(&mut self, response: &[u8], wanted: Secret) -> State {
        if is_empty_password(response) {
            return self.verdict(wanted.is_empty());
        }
        let right = wanted == Secret::from(response);
        if self.expected.plugin == Plugin::CachingSha2Password {
            let passes = right && self.known && !self.expected.full;
            self.outgoing = Some(more_data(&[if passes { FAST_OK } else { FULL }]));
            if !passes {
                return State::Full;
            }
        }
        self.verdict(right)
    }

    fn send_salt(&mut self) -> State {
        let salt = ExtSalt::random();
        self.outgoing = Some(salt.encode());
        self.salt = Some(salt);
        State::SaltSent
    }

    fn compare_parsec(&self, response: &[u8]) -> State {
        let right = self.salt.as_ref().is_some_and(|salt| {
            parsec_verify(self.password.expose(), salt, &self.challenge, response)
        });
        self.verdict(right)
    }

    fn send_key(&mut self) -> State {
        let Some(key) = &self.expected.key else { return State::Denied };
        self.outgoing = Some(more_data(key.public_pem().as_bytes()));
        State::KeySent
    }

    /// The password as it is, closed by a NUL.
    fn compare_clear(&self, payload: &[u8]) -> State {
        match payload.strip_suffix(&[0]) {
            Some(password) => self.verdict(self.password == Secret::from(password)),
            None => State::Denied,
        }
    }

    fn compare_encrypted(&self, payload: &[u8]) -> State {
        let Some(Ok(plain)) = self.expected.key.as_ref().map(|key| key.decrypt(payload)) else {
            return State::Denied;
        };
        let mut plain: Zeroizing<Vec<u8>> = plain;
        xor_nonce(&mut plain, &self.expected.nonce);
        self.compare_clear(&plain)
    }

    fn is_shown(&self) -> bool {
        self.expected.channel.shows_password(&self.expected.plugin)
    }

    fn verdict(&self, right: bool) -> State {
        if right && self.known { State::Accepted } else { State::Denied }
    }
}

/// Clients send nothing, or a NUL alone, for an empty password.
fn is_empty_password(response: &[u8]) -> bool {
    matches!(response, [] | [0])
}
