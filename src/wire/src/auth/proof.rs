//! A certificate that the password vouches for.

use super::{Nonce, Secret};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

/// First byte of the proof: the digest is SHA-256.
const BY_SHA256: u8 = 0x01;

/// What the OK packet of a login by `mysql_native_password` over TLS says to a client that cannot
/// verify the certificate otherwise: 0x01 and 64 upper-case hexadecimal digits,
/// `SHA256(SHA1(SHA1(password)) + nonce + SHA256(certificate))`, the certificate in DER.
/// Who stands in the middle knows neither the password nor its hash, and has another certificate.
/// `None` without a password: it would prove nothing.
///
/// Source: MariaDB Knowledge Base, "Securing Connections for Client and Server", section
/// "Certificate Verification" (MariaDB 11.4 and later).
#[must_use]
pub fn certificate_proof(password: &Secret, nonce: &Nonce, certificate: &[u8]) -> Option<Vec<u8>> {
    let password = password.expose();
    if password.is_empty() {
        return None;
    }
    let once = digest(&SHA1_FOR_LEGACY_USE_ONLY, password);
    let stored = digest(&SHA1_FOR_LEGACY_USE_ONLY, once.as_ref());
    let mut proof = Context::new(&SHA256);
    for part in [stored.as_ref(), nonce, digest(&SHA256, certificate).as_ref()] {
        proof.update(part);
    }
    let digits =
        proof.finish().as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    Some([&[BY_SHA256], digits.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by OpenSSL, for the password `apppw`, a nonce of 20 times `n` and the bytes `DER`:
    /// `( printf apppw | openssl sha1 -binary | openssl sha1 -binary; printf 'n%.0s' {1..20};
    /// printf DER | openssl sha256 -binary ) | openssl sha256`
    #[test]
    fn as_computed_elsewhere() {
        let proof = certificate_proof(&Secret::from("apppw"), &[b'n'; 20], b"DER");
        let digits = b"AF47114ECA146A0A2CE4741A944EA38F53B69E0C1C475E8497D214469337A6AD";
        assert_eq!(proof, Some([&[1][..], digits].concat()));
        assert_eq!(certificate_proof(&Secret::default(), &[b'n'; 20], b"DER"), None);
    }
}
