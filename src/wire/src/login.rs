//! The client's first packets.

use crate::{
    Attributes, Capabilities,
    auth::{Plugin, Secret},
    put,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

/// `SSLRequest`: the head of a login, after which the connection changes to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SslRequest {
    /// What the client wants, [`Capabilities::SSL`] included.
    pub capabilities: Capabilities,
    /// The largest packet that it takes, in bytes.
    pub max_packet: u32,
    /// The low byte of its collation id.
    pub collation: u8,
}

/// `HandshakeResponse41`.
///
/// Source: MySQL Internals, "Protocol::HandshakeResponse41"; MariaDB Knowledge Base, "Connection",
/// "Client Handshake Response".
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LoginRequest {
    /// What the client wants. MariaDB's extended flags are on the wire only where
    /// [`Capabilities::LONG_PASSWORD`] is off.
    pub capabilities: Capabilities,
    /// The largest packet that it takes, in bytes.
    pub max_packet: u32,
    /// The low byte of its collation id.
    pub collation: u8,
    /// The account's user name, in that collation's character set.
    pub user: Vec<u8>,
    /// The first answer of the authentication plugin.
    pub auth_response: Secret,
    /// The default schema; empty for none.
    pub schema: Vec<u8>,
    /// The plugin that made `auth_response`; `None` without [`Capabilities::PLUGIN_AUTH`].
    pub plugin: Option<Plugin>,
    /// Connection attributes.
    pub attributes: Attributes,
    /// Level of zstd compression, with [`Capabilities::ZSTD_COMPRESSION_ALGORITHM`].
    pub zstd_level: u8,
}

/// Bytes of a login before the user's name, and of a whole `SSLRequest`.
const HEAD_LEN: usize = 32;

impl SslRequest {
    /// Decodes a payload that is an `SSLRequest`; `None` if it is a login without TLS.
    ///
    /// # Errors
    ///
    /// A payload shorter than the head, or the protocol before 4.1.
    pub fn decode(payload: &[u8]) -> Result<Option<Self>, DecodeError> {
        let head = Self::head(&mut Reader::new(payload))?;
        Ok((payload.len() == HEAD_LEN && head.capabilities.contains(Capabilities::SSL))
            .then_some(head))
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u32_le(self.capabilities.mysql_bits());
        out.put_u32_le(self.max_packet);
        out.put_u8(self.collation);
        out.put_bytes(0, 19);
        let mysql = self.capabilities.contains(Capabilities::LONG_PASSWORD);
        out.put_u32_le(if mysql { 0 } else { self.capabilities.mariadb_bits() });
    }

    fn head(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut capabilities = Capabilities(r.u32("capabilities")?.into());
        if !capabilities.contains(Capabilities::PROTOCOL_41) {
            return Err(DecodeError::Invalid("protocol version (older than 4.1)"));
        }
        let max_packet = r.u32("maximum packet size")?;
        let collation = r.u8("collation")?;
        r.bytes(19, "filler")?;
        let extended = r.u32("extended capabilities")?;
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities = capabilities | Capabilities(u64::from(extended) << 32);
        }
        Ok(Self { capabilities, max_packet, collation })
    }
}

impl LoginRequest {
    /// Decodes a payload, as forgiving as servers are: strings at the end may lack their NUL, and
    /// fields at the end may be missing although their flag is set.
    ///
    /// # Errors
    ///
    /// A head that is cut, the protocol before 4.1, a length beyond the payload, or more than
    /// [`MAX_ATTRIBUTES`](crate::attributes::MAX_ATTRIBUTES) bytes of attributes.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        let SslRequest { capabilities, max_packet, collation } = SslRequest::head(&mut r)?;
        let has = |flag| capabilities.contains(flag);
        let user = r.until_nul().to_vec();
        let auth_response = Secret::from(auth_response(&mut r, capabilities)?);
        let schema =
            if has(Capabilities::CONNECT_WITH_DB) { r.until_nul().to_vec() } else { Vec::new() };
        let plugin = has(Capabilities::PLUGIN_AUTH).then(|| Plugin::from_name(r.until_nul()));
        let mut attributes = Attributes::default();
        if has(Capabilities::CONNECT_ATTRS) && !r.is_empty() {
            attributes = Attributes::decode(&mut r)?;
        }
        let zstd = has(Capabilities::ZSTD_COMPRESSION_ALGORITHM) && !r.is_empty();
        let zstd_level = if zstd { r.u8("zstd level")? } else { 0 };
        Ok(Self {
            capabilities,
            max_packet,
            collation,
            user,
            auth_response,
            schema,
            plugin,
            attributes,
            zstd_level,
        })
    }

    /// Appends the payload. Fields whose flag is not in `capabilities` are left out.
    pub fn encode(&self, out: &mut BytesMut) {
        let has = |flag| self.capabilities.contains(flag);
        self.ssl_request().encode(out);
        put::nul_string(out, &self.user);
        let response = self.auth_response.expose();
        if has(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA) {
            put::string(out, response);
        } else if has(Capabilities::SECURE_CONNECTION) {
            let len = u8::try_from(response.len()).unwrap_or(u8::MAX);
            out.put_u8(len);
            out.put_slice(&response[..len.into()]);
        } else {
            put::nul_string(out, response);
        }
        if has(Capabilities::CONNECT_WITH_DB) {
            put::nul_string(out, &self.schema);
        }
        if has(Capabilities::PLUGIN_AUTH) {
            put::nul_string(out, self.plugin.as_ref().map_or("", Plugin::name).as_bytes());
        }
        if has(Capabilities::CONNECT_ATTRS) {
            self.attributes.encode(out);
        }
        if has(Capabilities::ZSTD_COMPRESSION_ALGORITHM) {
            out.put_u8(self.zstd_level);
        }
    }

    /// The head alone, to be sent before the change to TLS.
    #[must_use]
    pub fn ssl_request(&self) -> SslRequest {
        let Self { capabilities, max_packet, collation, .. } = *self;
        SslRequest { capabilities, max_packet, collation }
    }

    /// The plugin that the client has used: where it names none, the one before there were plugins.
    #[must_use]
    pub fn plugin(&self) -> &Plugin {
        match &self.plugin {
            Some(Plugin::Other(name)) if name.is_empty() => &Plugin::NativePassword,
            Some(plugin) => plugin,
            None => &Plugin::NativePassword,
        }
    }
}

/// Without the auth response and the attributes' values.
impl std::fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginRequest")
            .field("capabilities", &self.capabilities)
            .field("max_packet", &self.max_packet)
            .field("collation", &self.collation)
            .field("user", &self.user.escape_ascii().to_string())
            .field("schema", &self.schema.escape_ascii().to_string())
            .field("plugin", &self.plugin)
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}

fn auth_response<'a>(r: &mut Reader<'a>, caps: Capabilities) -> Result<&'a [u8], DecodeError> {
    const WHAT: &str = "auth response";
    if r.is_empty() {
        Ok(&[])
    } else if caps.contains(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA) {
        r.string(WHAT)
    } else if caps.contains(Capabilities::SECURE_CONNECTION) {
        let len = r.u8(WHAT)?;
        r.bytes(len.into(), WHAT)
    } else {
        Ok(r.until_nul())
    }
}
