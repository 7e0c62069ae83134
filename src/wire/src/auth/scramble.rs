//! What a client sends instead of its password.

use super::{Nonce, Secret};
use mysql_common::auth::plugins::{
    caching_sha2_password::scramble_sha256, mysql_native_password::scramble_native,
};

/// `SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password)))`; empty for an empty password.
#[must_use]
pub fn native_password(password: &[u8], nonce: &Nonce) -> Secret {
    scramble_native(nonce, password).map(Secret::from).unwrap_or_default()
}

/// `SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)`; empty for an empty password.
#[must_use]
pub fn sha2_password(password: &[u8], nonce: &Nonce) -> Secret {
    scramble_sha256(nonce, password).map(Secret::from).unwrap_or_default()
}

/// A password as it goes through RSA: closed by a NUL, then XORed with the nonce, over and over.
/// Doing it twice gives it back.
pub(super) fn xor_nonce(bytes: &mut [u8], nonce: &Nonce) {
    for (byte, key) in bytes.iter_mut().zip(nonce.iter().cycle()) {
        *byte ^= key;
    }
}
