//! Authentication: machines without I/O for both ends, and what they reckon with.
//!
//! ```text
//! client                       ServerAuth
//!   ── login (plugin, response) ──▶  fits?  ── no ──▶ auth switch ──▶ response
//!                                     │ yes
//!   ◀── fast ok, OK ──────────────────┤  (caching_sha2_password, password known)
//!   ◀── full ── password by TLS, or the key and the password by RSA ──▶ OK or ERR
//!
//! sha256_password is the full way at once, mysql_clear_password the same by TLS only; those that
//! sign are in signature.rs.
//!
//! ClientAuth                   server: the same, mirrored
//! ```
//!
//! Source: MySQL Internals, "Authentication Method" and "Caching_sha2_password information"; MySQL
//! Manual, "SHA-256 Pluggable Authentication"; RFC 8017 for RSAES-OAEP.

mod channel;
mod plugin;
mod proof;
mod rsa;
mod scramble;
mod secret;
mod signature;

pub mod client;
pub mod relay;
pub mod server;

pub use channel::Channel;
pub use client::ClientAuth;
pub use plugin::Plugin;
pub use proof::{certificate_proof, native_stored};
pub use relay::RelayAuth;
pub use rsa::{KeyError, PublicKey, RsaKeyPair};
pub use scramble::{native_password, sha2_password};
pub use secret::Secret;
pub use server::ServerAuth;
pub use signature::{
    CHALLENGE_LEN, Challenge, ExtSalt, ed25519_sign, ed25519_verify, parsec_sign, parsec_sign_with,
    parsec_verify,
};

use crate::read::{DecodeError, Reader};
use bytes::{BufMut, Bytes, BytesMut};

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 20;

/// What a greeting gives the client to scramble its password with.
pub type Nonce = [u8; NONCE_LEN];

/// First byte of `AuthSwitchRequest`.
const SWITCH: u8 = 0xFE;

/// First byte of `AuthMoreData`.
const MORE_DATA: u8 = 0x01;

/// caching_sha2_password: the client asks for the server's public key.
const ASK_KEY: u8 = 0x02;

/// sha256_password: the same.
const SHA256_ASK_KEY: u8 = 0x01;

/// caching_sha2_password: the scramble was right.
const FAST_OK: u8 = 0x03;

/// caching_sha2_password: the server wants the password itself.
const FULL: u8 = 0x04;

/// A random nonce, as servers make them: no NUL, which would end it, no `$`, no bytes of 0x80 and
/// above.
#[must_use]
pub fn random_nonce() -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    random(&mut nonce);
    nonce.map(|byte| match byte & 0x7F {
        byte @ (0 | b'$') => byte + 1,
        byte => byte,
    })
}

/// `AuthSwitchRequest`: the server wants another plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSwitch {
    /// The plugin that it wants.
    pub plugin: Plugin,
    /// What the plugin begins with: a nonce, or for those that sign a challenge.
    pub data: Vec<u8>,
}

impl AuthSwitch {
    /// Decodes a payload, its 0xFE included. The NUL that closes a nonce is taken off; a challenge
    /// has none.
    ///
    /// # Errors
    ///
    /// Another first byte, or an empty request: that one asks for `mysql_old_password`.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        if r.u8("auth switch header")? != SWITCH {
            return Err(DecodeError::Invalid("auth switch header"));
        }
        if r.is_empty() {
            return Err(DecodeError::Truncated("plugin name"));
        }
        let plugin = Plugin::from_name(r.until_nul());
        let data = r.rest();
        let closed = if plugin.signs() { None } else { data.strip_suffix(&[0]) };
        let data = closed.unwrap_or(data).to_vec();
        Ok(Self { plugin, data })
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u8(SWITCH);
        crate::put::nul_string(out, self.plugin.name().as_bytes());
        out.put_slice(&self.data);
        if !self.plugin.signs() {
            out.put_u8(0);
        }
    }
}

fn more_data(data: &[u8]) -> Bytes {
    [&[MORE_DATA], data].concat().into()
}

fn random(bytes: &mut [u8]) {
    // It fails only if the operating system has no random numbers: nothing can be secure then.
    aws_lc_rs::rand::fill(bytes).expect("the operating system gives random numbers");
}
