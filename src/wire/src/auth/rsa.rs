//! RSA keys, for passwords over channels that are not secure by themselves.

mod pem;

use aws_lc_rs::{
    encoding::AsDer,
    rsa::{
        KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
        PrivateDecryptingKey, PublicEncryptingKey,
    },
};
use thiserror::Error;
use zeroize::Zeroizing;

/// A private key and the PEM of its public half. Making one takes about a tenth of a second.
pub struct RsaKeyPair {
    private: OaepPrivateDecryptingKey,
    public_pem: String,
}

/// A server's public key.
pub struct PublicKey(OaepPublicEncryptingKey);

/// Why a key is of no use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// No PEM block of the kind.
    #[error("no PEM block with {0}")]
    Pem(&'static str),
    /// Not RSA, or not of 2048 to 8192 bits.
    #[error("not an RSA key of 2048 to 8192 bits")]
    Key,
    /// The data does not fit the key, or was encrypted for another.
    #[error("the data does not fit the RSA key")]
    Data,
}

impl RsaKeyPair {
    /// A new key of 2048 bits.
    ///
    /// # Errors
    ///
    /// [`KeyError::Key`] if the cryptographic library cannot make one.
    pub fn generate() -> Result<Self, KeyError> {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(|_| KeyError::Key)?;
        Self::new(key)
    }

    /// The key in a PEM file: `PRIVATE KEY` (PKCS #8) or `RSA PRIVATE KEY` (PKCS #1).
    ///
    /// # Errors
    ///
    /// [`KeyError::Pem`], [`KeyError::Key`].
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let pkcs8 = match pem::decode(text, "PRIVATE KEY") {
            Some(der) => Zeroizing::new(der),
            None => {
                let pkcs1 = pem::decode(text, "RSA PRIVATE KEY").map(Zeroizing::new);
                pem::wrap_pkcs1(&pkcs1.ok_or(KeyError::Pem("a private key"))?)
            }
        };
        Self::new(PrivateDecryptingKey::from_pkcs8(&pkcs8).map_err(|_| KeyError::Key)?)
    }

    /// The public half, as clients get it.
    #[must_use]
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// Decrypts what a client has encrypted with RSAES-OAEP and SHA-1.
    ///
    /// # Errors
    ///
    /// [`KeyError::Data`].
    pub fn decrypt(&self, data: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let mut out = Zeroizing::new(vec![0; self.private.min_output_size()]);
        let plain = self.private.decrypt(&OAEP_SHA1_MGF1SHA1, data, &mut out, None);
        let len = plain.map_err(|_| KeyError::Data)?.len();
        out.truncate(len);
        Ok(out)
    }

    fn new(key: PrivateDecryptingKey) -> Result<Self, KeyError> {
        let der = key.public_key().as_der().map_err(|_| KeyError::Key)?;
        let public_pem = pem::encode(der.as_ref(), "PUBLIC KEY");
        let private = OaepPrivateDecryptingKey::new(key).map_err(|_| KeyError::Key)?;
        Ok(Self { private, public_pem })
    }
}

impl PublicKey {
    /// The key in a PEM file: `PUBLIC KEY` (RFC 5280), as servers send it.
    ///
    /// # Errors
    ///
    /// [`KeyError::Pem`], [`KeyError::Key`].
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let text = std::str::from_utf8(text).map_err(|_| KeyError::Pem("a public key"))?;
        let der = pem::decode(text, "PUBLIC KEY").ok_or(KeyError::Pem("a public key"))?;
        let key = PublicEncryptingKey::from_der(&der).map_err(|_| KeyError::Key)?;
        OaepPublicEncryptingKey::new(key).map(Self).map_err(|_| KeyError::Key)
    }

    /// Encrypts with RSAES-OAEP and SHA-1.
    ///
    /// # Errors
    ///
    /// [`KeyError::Data`] for more than the key's size less 42 bytes.
    pub fn encrypt(&self, data: &[u8]) -> Result<Vec<u8>, KeyError> {
        let mut out = vec![0; self.0.ciphertext_size()];
        let len = self
            .0
            .encrypt(&OAEP_SHA1_MGF1SHA1, data, &mut out, None)
            .map_err(|_| KeyError::Data)?
            .len();
        out.truncate(len);
        Ok(out)
    }
}

impl std::fmt::Debug for RsaKeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RsaKeyPair(..)")
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PublicKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_public_half_encrypts_the_private_one_decrypts() {
        let pair = RsaKeyPair::generate().unwrap();
        let public = PublicKey::from_pem(pair.public_pem().as_bytes()).unwrap();
        let data = public.encrypt(b"a secret").unwrap();
        assert_eq!(&pair.decrypt(&data).unwrap()[..], b"a secret");
        assert_eq!(RsaKeyPair::generate().unwrap().decrypt(&data).unwrap_err(), KeyError::Data);
        assert_eq!(public.encrypt(&[0; 215]).unwrap_err(), KeyError::Data);
    }

    #[test]
    fn both_forms_of_private_keys_are_read() {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        let pkcs8 = key.as_der().unwrap();
        // The PKCS #1 form is the octet string at the end: behind two lengths of three bytes, their
        // tags, the version and the algorithm.
        let pkcs1 = &pkcs8.as_ref()[4 + 18 + 4..];
        let public = RsaKeyPair::new(key).unwrap().public_pem;
        for (der, label) in [(pkcs8.as_ref(), "PRIVATE KEY"), (pkcs1, "RSA PRIVATE KEY")] {
            let read = RsaKeyPair::from_pem(&pem::encode(der, label)).unwrap();
            assert_eq!(read.public_pem(), public, "{label}");
        }
    }

    #[test]
    fn keys_that_are_none_are_errors() {
        assert_eq!(RsaKeyPair::from_pem("x").unwrap_err(), KeyError::Pem("a private key"));
        let pem = pem::encode(b"no DER", "PRIVATE KEY");
        assert_eq!(RsaKeyPair::from_pem(&pem).unwrap_err(), KeyError::Key);
        assert_eq!(PublicKey::from_pem(b"\xFF").unwrap_err(), KeyError::Pem("a public key"));
        let pem = pem::encode(b"no DER", "PUBLIC KEY");
        assert_eq!(PublicKey::from_pem(pem.as_bytes()).unwrap_err(), KeyError::Key);
    }
}
