//! Signatures of Ed25519 in place of passwords: MariaDB's plugins `ed25519` and `parsec`.
//!
//! ```text
//! ed25519                                   parsec
//!   ◀── auth switch, 32 random bytes ──       ◀── auth switch, 32 random bytes ──
//!   ── signature of them ──▶                  ── empty ──▶
//!                                             ◀── 'P', factor, salt ──
//!                                             ── 32 random bytes, signature of both ──▶
//! ```
//!
//! Source: RFC 8032 for Ed25519, RFC 8018 for PBKDF2; MariaDB Knowledge Base, "Authentication Plugin
//! - ed25519" and "Authentication Plugin - PARSEC".

use super::{Secret, random};
use crate::read::{DecodeError, Reader};
use aws_lc_rs::{digest, pbkdf2};
use bytes::{BufMut, Bytes, BytesMut};
use ed25519_dalek::{
    Sha512, Signature, Signer, SigningKey, Verifier, VerifyingKey,
    hazmat::{ExpandedSecretKey, raw_sign},
};
use std::num::NonZeroU32;
use zeroize::Zeroizing;

/// Bytes of a challenge.
pub const CHALLENGE_LEN: usize = 32;

/// What a response signs: random bytes of the server's.
pub type Challenge = [u8; CHALLENGE_LEN];

/// Bytes of a signature.
pub(super) const SIGNATURE_LEN: usize = 64;

/// ed25519's response: a signature of the challenge. The key is no seed of RFC 8032, but what that
/// makes of one: SHA-512 of the password.
#[must_use]
pub fn ed25519_sign(password: &[u8], challenge: &Challenge) -> Secret {
    let (secret, public) = ed25519_keys(password);
    let signature = raw_sign::<Sha512>(&secret, challenge, &public);
    Secret::from(signature.to_bytes())
}

/// Whether somebody who knows the password has signed the challenge.
#[must_use]
pub fn ed25519_verify(password: &[u8], challenge: &Challenge, response: &[u8]) -> bool {
    let (_, public) = ed25519_keys(password);
    verify(&public, challenge, response)
}

/// What a server keeps of a password for ed25519: the public key.
pub(super) fn ed25519_stored(password: &[u8]) -> Secret {
    Secret::from(ed25519_keys(password).1.to_bytes())
}

/// parsec's extended salt: how a password becomes a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtSalt {
    /// PBKDF2 runs 1024 times 2 to the power of this; at most [`ExtSalt::MAX_FACTOR`].
    pub factor: u8,
    /// The salt; servers make 18 bytes.
    pub salt: Vec<u8>,
}

/// The only way of making a key that there is: PBKDF2 with HMAC-SHA512.
const PBKDF2: u8 = b'P';

impl ExtSalt {
    /// The largest factor that clients take, 8192 rounds: a server must not be able to keep them
    /// busy for long.
    pub const MAX_FACTOR: u8 = 3;

    /// A new one, as servers make them.
    #[must_use]
    pub fn random() -> Self {
        let mut salt = vec![0; 18];
        random(&mut salt);
        Self { factor: 0, salt }
    }

    /// Decodes a payload.
    ///
    /// # Errors
    ///
    /// Another way of making keys, a factor beyond [`ExtSalt::MAX_FACTOR`], no salt.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        if r.u8("key derivation")? != PBKDF2 {
            return Err(DecodeError::Invalid("key derivation"));
        }
        let factor = r.u8("iteration factor")?;
        if factor > Self::MAX_FACTOR {
            return Err(DecodeError::Invalid("iteration factor"));
        }
        let salt = r.rest().to_vec();
        if salt.is_empty() {
            return Err(DecodeError::Truncated("salt"));
        }
        Ok(Self { factor, salt })
    }

    /// The payload.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(PBKDF2);
        out.put_u8(self.factor);
        out.put_slice(&self.salt);
        out.freeze()
    }

    /// What a server keeps of a password: this, and the public key.
    pub(super) fn stored(&self, password: &[u8]) -> Secret {
        Secret::from([&self.encode()[..], self.key(password).verifying_key().as_bytes()].concat())
    }

    fn key(&self, password: &[u8]) -> SigningKey {
        let rounds = 1024_u32 << self.factor.min(Self::MAX_FACTOR);
        let rounds = NonZeroU32::new(rounds).unwrap_or(NonZeroU32::MIN);
        let mut seed = Zeroizing::new([0; 32]);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, rounds, &self.salt, password, &mut *seed);
        SigningKey::from_bytes(&seed)
    }
}

/// parsec's response: a challenge of the client's own, and the signature of both.
#[must_use]
pub fn parsec_sign(password: &[u8], salt: &ExtSalt, challenge: &Challenge) -> Secret {
    let mut own = [0; CHALLENGE_LEN];
    random(&mut own);
    parsec_sign_with(password, salt, challenge, &own)
}

/// As [`parsec_sign`], with this challenge of the client's.
#[must_use]
pub fn parsec_sign_with(
    password: &[u8],
    salt: &ExtSalt,
    challenge: &Challenge,
    own: &Challenge,
) -> Secret {
    let signature = salt.key(password).sign(&[&challenge[..], own].concat());
    Secret::from([&own[..], &signature.to_bytes()].concat())
}

/// Whether a response is of somebody who knows the password.
#[must_use]
pub fn parsec_verify(
    password: &[u8],
    salt: &ExtSalt,
    challenge: &Challenge,
    response: &[u8],
) -> bool {
    let Some((own, signature)) = response.split_first_chunk::<CHALLENGE_LEN>() else {
        return false;
    };
    let message = [&challenge[..], own].concat();
    verify(&salt.key(password).verifying_key(), &message, signature)
}

fn ed25519_keys(password: &[u8]) -> (ExpandedSecretKey, VerifyingKey) {
    let hash = digest::digest(&digest::SHA512, password);
    let mut bytes = Zeroizing::new([0; 64]);
    bytes.copy_from_slice(hash.as_ref());
    let secret = ExpandedSecretKey::from_bytes(&bytes);
    let public = VerifyingKey::from(&secret);
    (secret, public)
}

fn verify(public: &VerifyingKey, message: &[u8], signature: &[u8]) -> bool {
    let signature = Signature::from_slice(signature);
    signature.is_ok_and(|signature| public.verify(message, &signature).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `authentication_string` of mysql.user, MariaDB 11.8: for ed25519 and `edpw` the public
    /// key; for parsec and `parsecpw` the factor, the salt and the public key.
    #[test]
    fn servers_keep_the_same() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let public = "2c812f1831a31d398acb3de978b4633ea6a139cb799fafc1402366d5b3afa2de";
        assert_eq!(hex(ed25519_stored(b"edpw").expose()), public);
        let salt = "f9bccc39b76a13bb60eb4cf5f482d146d8ff";
        let bytes = (0..18).map(|n| u8::from_str_radix(&salt[2 * n..2 * n + 2], 16).unwrap());
        let ext = ExtSalt { factor: 0, salt: bytes.collect() };
        let public = "df8ff0221d7d27688525cc22e84151f86f2ef241ec8c02774d8c8a63b197342e";
        assert_eq!(hex(ext.stored(b"parsecpw").expose()), format!("5000{salt}{public}"));
    }
}
