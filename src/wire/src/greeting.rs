//! The server's first packet.

use crate::{
    Capabilities, ErrPacket, Status,
    auth::{NONCE_LEN, Nonce, Plugin},
    err, put,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};
use thiserror::Error;

/// `HandshakeV10`.
///
/// Source: MySQL Internals, "Protocol::HandshakeV10"; MariaDB Knowledge Base, "Connection",
/// "Initial Handshake Packet".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The server's version, such as `8.4.3` or `11.4.2-MariaDB`.
    pub server_version: Vec<u8>,
    /// The connection's id.
    pub thread_id: u32,
    /// What passwords are scrambled with.
    pub nonce: Nonce,
    /// What the server can do. MariaDB's extended flags are on the wire only where
    /// [`Capabilities::LONG_PASSWORD`] is off.
    pub capabilities: Capabilities,
    /// The low byte of the server's default collation id.
    pub collation: u8,
    /// Server status.
    pub status: Status,
    /// The plugin that the server tries first.
    pub plugin: Plugin,
}

/// Why there is no greeting.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GreetingError {
    /// The server does not want this connection: too many, host blocked, shutting down.
    #[error("the server refuses connections: error {}", .0.code)]
    Refused(ErrPacket),
    /// Not the protocol of MySQL 4.1 or later.
    #[error("the server speaks protocol version {0}, not 10")]
    Version(u8),
    /// The packet is malformed.
    #[error("malformed greeting: {0}")]
    Malformed(#[from] DecodeError),
}

const PROTOCOL_VERSION: u8 = 10;

/// The nonce's first part has 8 bytes; the second at least 13, with a closing NUL.
const NONCE_HEAD: usize = 8;

/// MariaDB writes this before its version, for replicas that take 10 for older than 5.
const VERSION_PREFIX: &[u8] = b"5.5.5-";

impl Greeting {
    /// Decodes a payload.
    ///
    /// # Errors
    ///
    /// [`GreetingError::Refused`] if it is an ERR packet instead.
    pub fn decode(payload: &[u8]) -> Result<Self, GreetingError> {
        let mut r = Reader::new(payload);
        match r.u8("protocol version")? {
            PROTOCOL_VERSION => {}
            err::HEADER => return Err(GreetingError::Refused(ErrPacket::decode(payload)?)),
            other => return Err(GreetingError::Version(other)),
        }
        Ok(Self::decode_v10(r)?)
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        let low = self.capabilities.mysql_bits();
        out.put_u8(PROTOCOL_VERSION);
        put::nul_string(out, &self.server_version);
        out.put_u32_le(self.thread_id);
        out.put_slice(&self.nonce[..NONCE_HEAD]);
        out.put_u8(0);
        out.put_u16_le((low & 0xFFFF) as u16);
        out.put_u8(self.collation);
        out.put_u16_le(self.status.0);
        out.put_u16_le((low >> 16) as u16);
        let plugins = self.capabilities.contains(Capabilities::PLUGIN_AUTH);
        out.put_u8(if plugins { NONCE_LEN as u8 + 1 } else { 0 });
        out.put_bytes(0, 6);
        let mysql = self.capabilities.contains(Capabilities::LONG_PASSWORD);
        out.put_u32_le(if mysql { 0 } else { self.capabilities.mariadb_bits() });
        out.put_slice(&self.nonce[NONCE_HEAD..]);
        out.put_u8(0);
        if plugins {
            put::nul_string(out, self.plugin.name().as_bytes());
        }
    }

    /// The version as text, without the `5.5.5-` that MariaDB puts before it.
    #[must_use]
    pub fn version(&self) -> String {
        let version = &self.server_version[..];
        let version = match version.strip_prefix(VERSION_PREFIX) {
            Some(rest) if rest.first().is_some_and(u8::is_ascii_digit) => rest,
            _ => version,
        };
        String::from_utf8_lossy(version).into_owned()
    }

    /// Whether the server is a MariaDB: it says so in its version, or has extended flags.
    #[must_use]
    pub fn is_mariadb(&self) -> bool {
        memchr::memmem::find(&self.server_version, b"MariaDB").is_some()
            || self.capabilities.intersects(Capabilities::MARIADB)
    }

    fn decode_v10(mut r: Reader<'_>) -> Result<Self, DecodeError> {
        let server_version = r.until_nul().to_vec();
        let thread_id = r.u32("connection id")?;
        let mut nonce = [0; NONCE_LEN];
        nonce[..NONCE_HEAD].copy_from_slice(r.bytes(NONCE_HEAD, "nonce")?);
        r.bytes(1, "filler")?;
        let low = r.u16("capabilities")?;
        let collation = r.u8("collation")?;
        let status = Status(r.u16("status flags")?);
        let high = r.u16("capabilities")?;
        let mut capabilities = Capabilities(u64::from(low) | u64::from(high) << 16);
        let nonce_len = usize::from(r.u8("nonce length")?);
        r.bytes(6, "filler")?;
        let extended = r.u32("extended capabilities")?;
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities = capabilities | Capabilities(u64::from(extended) << 32);
        }
        let tail = r.bytes(NONCE_LEN - NONCE_HEAD, "nonce")?;
        nonce[NONCE_HEAD..].copy_from_slice(tail);
        // The closing NUL, and what a longer nonce would have.
        r.skip_up_to(nonce_len.max(NONCE_LEN + 1) - NONCE_LEN);
        let plugins = capabilities.contains(Capabilities::PLUGIN_AUTH);
        let plugin =
            if plugins { Plugin::from_name(r.until_nul()) } else { Plugin::NativePassword };
        Ok(Self { server_version, thread_id, nonce, capabilities, collation, status, plugin })
    }
}
