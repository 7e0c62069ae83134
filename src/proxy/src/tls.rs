//! TLS towards clients and towards servers.
//!
//! rustls speaks TLS 1.2 and 1.3 only.

pub(crate) mod renewal;
mod watched;

pub(crate) use watched::Watched;

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime, pem::PemObject,
    },
    server::WebPkiClientVerifier,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file that cannot be read or holds nothing of use.
    #[error("{path}: {reason}", path = .0.display(), reason = .1)]
    File(PathBuf, String),
    /// Certificate and key do not go together, or one of them is of an unknown kind.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
    /// The client certificates' authority is of no use.
    #[error("client_ca: {0}")]
    ClientAuthority(#[from] rustls::server::VerifierBuilderError),
    /// The servers' authority is of no use.
    #[error("ca: {0}")]
    ServerAuthority(String),
    /// No self-signed certificate could be made.
    #[error("making a self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
}

/// How much of a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Nothing: encryption alone.
    None,
    /// That the authority has signed it.
    Authority,
    /// That, and that it names the host.
    Identity,
}

/// Certificate and key files, both or none.
pub(crate) type Pair<'a> = Option<(&'a Path, &'a Path)>;

/// What a listener accepts TLS with.
pub(crate) struct Acceptor {
    pub(crate) tls: TlsAcceptor,
    pub(crate) certificate: CertificateDer<'static>,
    /// The certificate was made here: nobody has signed it.
    pub(crate) self_made: bool,
}

/// What a listener needs to accept TLS. Without a pair of files it makes a self-signed
/// certificate, which lives as long as the process. With `client_ca`, a client's certificate is
/// checked when it shows one.
pub(crate) fn acceptor(pair: Pair<'_>, client_ca: Option<&Path>) -> Result<Acceptor, TlsError> {
    let (chain, key) = match pair {
        Some((certificate, key)) => (certificates(certificate)?, private_key(key)?),
        None => self_signed()?,
    };
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
        }
    };
    let certificate = chain.first().cloned().unwrap_or_else(|| CertificateDer::from(Vec::new()));
    let tls = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key)?));
    Ok(Acceptor { tls, certificate, self_made: pair.is_none() })
}

/// What is needed to speak TLS to a server. Without `ca`, the usual public authorities count.
pub(crate) fn connector(
    check: Check,
    ca: Option<&Path>,
    pair: Pair<'_>,
) -> Result<TlsConnector, TlsError> {
    let roots = match ca {
        Some(path) => authorities(path)?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|e| TlsError::ServerAuthority(e.to_string()))?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { check, full: verifier }));
    let config = match pair {
        Some((certificate, key)) => {
            builder.with_client_auth_cert(certificates(certificate)?, private_key(key)?)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = |e: &dyn std::fmt::Display| TlsError::File(path.into(), e.to_string());
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|e| bad(&e))?.collect();
    match found {
        Ok(found) if found.is_empty() => Err(bad(&"no certificate in it (PEM is expected)")),
        found => found.map_err(|e| bad(&e)),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|e| TlsError::File(path.into(), e.to_string()))
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|e| TlsError::File(path.into(), e.to_string()))?;
    }
    Ok(roots)
}

type Certified = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn self_signed() -> Result<Certified, TlsError> {
    let made = rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

/// webpki's checks, or fewer of them. Signatures of the handshake are always checked.
#[derive(Debug)]
struct Verifier {
    check: Check,
    full: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        if self.check == Check::None {
            return Ok(ServerCertVerified::assertion());
        }
        // The name is what webpki looks at last: when it complains of that, the rest is good.
        match self.full.verify_server_cert(end_entity, intermediates, server_name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) if self.check == Check::Authority => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.full.supported_verify_schemes()
    }
}
