//! A certificate that the password vouches for.

use super::{Nonce, Secret};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

/// First byte of the proof: the digest is SHA-256.
const BY_SHA256: u8 = 0x01;

/// What the OK packet of a login over TLS says to a client that cannot verify the certificate
/// otherwise: 0x01 and 64 upper-case hexadecimal digits, `SHA256(stored + nonce +
/// SHA256(certificate))`, where `stored` is what a server keeps of the password
/// ([`ServerAuth::stored`](super::ServerAuth::stored)), the nonce is that of the greeting for all
/// plugins, and the certificate is in DER.
/// Who stands in the middle knows neither the password nor that, and has another certificate.
///
/// Source: MariaDB Knowledge Base, "Securing Connections for Client and Server", section
/// "Certificate Verification" (MariaDB 11.4 and later).
#[must_use]
pub fn certificate_proof(stored: &Secret, nonce: &Nonce, certificate: &[u8]) -> Vec<u8> {
    let mut proof = Context::new(&SHA256);
    for part in [stored.expose(), nonce, digest(&SHA256, certificate).as_ref()] {
        proof.update(part);
    }
    let digits =
        proof.finish().as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    [&[BY_SHA256], digits.as_bytes()].concat()
}

/// What a server keeps of a password for `mysql_native_password`: `SHA1(SHA1(password))`.
#[must_use]
pub fn native_stored(password: &[u8]) -> Secret {
    let once = digest(&SHA1_FOR_LEGACY_USE_ONLY, password);
    Secret::from(digest(&SHA1_FOR_LEGACY_USE_ONLY, once.as_ref()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by OpenSSL, for the password `apppw`, a nonce of 20 times `n` and the bytes `DER`:
    /// `( printf apppw | openssl sha1 -binary | openssl sha1 -binary; printf 'n%.0s' {1..20};
    /// printf DER | openssl sha256 -binary ) | openssl sha256`
    #[test]
    fn as_computed_elsewhere() {
        let proof = certificate_proof(&native_stored(b"apppw"), &[b'n'; 20], b"DER");
        let digits = b"AF47114ECA146A0A2CE4741A944EA38F53B69E0C1C475E8497D214469337A6AD";
        assert_eq!(proof, [&[1][..], digits].concat());
    }
}
