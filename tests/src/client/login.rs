//! What a client says about itself.

use anyhow::Result;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
};
use wire::{Attributes, Capabilities, auth::Plugin};

/// An account, and how to log in with it.
#[derive(Clone, Debug)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Password; empty for none.
    pub password: String,
    /// The id of the collation that the client asks for.
    pub collation: u8,
    pub(super) schema: Option<String>,
    pub(super) capabilities: Capabilities,
    pub(super) plugin: Option<Plugin>,
    pub(super) tls: Option<Tls>,
    pub(super) zstd_level: u8,
    /// Where the connection comes from; the system chooses where nothing is said.
    pub(super) source: Option<Ipv4Addr>,
    pub(super) attributes: Attributes,
    /// What is sent before the server has said anything.
    pub(super) header: Vec<u8>,
}

/// What the client asks of TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls {
    /// The authority and name that the server's certificate must have; any certificate without.
    verified: Option<(PathBuf, String)>,
    /// The client's own certificate and key.
    own: Option<(PathBuf, PathBuf)>,
}

/// utf8mb4_general_ci.
const UTF8MB4: u8 = 45;

impl Login {
    /// What drivers of today ask for, without TLS and without a schema.
    pub fn new(user: &str, password: &str) -> Self {
        let capabilities = [
            Capabilities::LONG_PASSWORD,
            Capabilities::LONG_FLAG,
            Capabilities::PROTOCOL_41,
            Capabilities::TRANSACTIONS,
            Capabilities::SECURE_CONNECTION,
            Capabilities::MULTI_RESULTS,
            Capabilities::PS_MULTI_RESULTS,
            Capabilities::PLUGIN_AUTH,
            Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA,
            Capabilities::DEPRECATE_EOF,
        ];
        Self {
            user: user.to_owned(),
            password: password.to_owned(),
            collation: UTF8MB4,
            schema: None,
            capabilities: capabilities.into_iter().fold(Capabilities::EMPTY, Capabilities::union),
            plugin: None,
            tls: None,
            zstd_level: 3,
            source: None,
            attributes: Attributes::default(),
            header: Vec::new(),
        }
    }

    /// With this default schema.
    pub fn schema(mut self, name: &str) -> Self {
        self.schema = Some(name.to_owned());
        self.with(Capabilities::CONNECT_WITH_DB)
    }

    /// With more capabilities.
    pub fn with(mut self, more: Capabilities) -> Self {
        self.capabilities = self.capabilities.union(more);
        self
    }

    /// Without some capabilities.
    pub fn without(mut self, some: Capabilities) -> Self {
        self.capabilities = self.capabilities.difference(some);
        self
    }

    /// With connection attributes.
    pub fn attributes(self, attributes: &[(&str, &str)]) -> Self {
        self.all_attributes(attributes.iter().copied().collect())
    }

    /// With these connection attributes, whether they add up or not.
    pub fn all_attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = attributes;
        self.with(Capabilities::CONNECT_ATTRS)
    }

    /// Begins with this authentication plugin, whatever the greeting names.
    pub fn plugin(mut self, name: &str) -> Self {
        self.plugin = Some(Plugin::from_name(name.as_bytes()));
        self
    }

    /// Behind these bytes, as a load balancer puts them in front.
    pub fn header(mut self, bytes: &[u8]) -> Self {
        self.header = bytes.to_vec();
        self
    }

    /// From this loopback address.
    pub fn from(mut self, source: Ipv4Addr) -> Self {
        self.source = Some(source);
        self
    }

    /// Compressed by zlib, if the other side can.
    pub fn zlib(self) -> Self {
        self.with(Capabilities::COMPRESS)
    }

    /// Compressed by zstd of this level, if the other side can.
    pub fn zstd(mut self, level: u8) -> Self {
        self.zstd_level = level;
        self.with(Capabilities::ZSTD_COMPRESSION_ALGORITHM)
    }

    /// Over TLS, with any certificate of the server.
    pub fn tls(mut self) -> Self {
        self.tls = Some(Tls::default());
        self.with(Capabilities::SSL)
    }

    /// Over TLS, with a certificate that this authority has signed for this name.
    pub fn tls_verified(self, ca: &Path, name: &str) -> Self {
        let mut login = self.tls();
        login.tls = Some(Tls { verified: Some((ca.to_owned(), name.to_owned())), own: None });
        login
    }

    /// With a certificate of the client's own.
    pub fn certificate(mut self, certificate: &Path, key: &Path) -> Self {
        let tls = self.tls.get_or_insert_default();
        tls.own = Some((certificate.to_owned(), key.to_owned()));
        self
    }
}

impl Tls {
    /// The name that the server's certificate must have.
    pub(super) fn name(&self) -> &str {
        self.verified.as_ref().map_or("localhost", |(_, name)| name)
    }

    pub(super) fn config(&self) -> Result<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = if let Some((ca, _)) = &self.verified {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(ca)? {
                roots.add(certificate?)?;
            }
            builder.with_root_certificates(roots)
        } else {
            let verifier = Arc::new(AnyCertificate { provider });
            builder.dangerous().with_custom_certificate_verifier(verifier)
        };
        let Some((certificate, key)) = &self.own else { return Ok(builder.with_no_client_auth()) };
        let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
        Ok(builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key)?)?)
    }
}

/// Takes any certificate: what a client does that was not told what to expect.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
