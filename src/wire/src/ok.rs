//! The OK packet, also as it stands in for EOF.
//!
//! Source: MySQL Internals, "Protocol::OK_Packet"; MariaDB Knowledge Base, "OK_Packet".

use crate::{
    Capabilities, Status, eof, put,
    read::{DecodeError, Reader},
    session_state::Tracker,
};
use bytes::{BufMut, BytesMut};

/// The first byte of OK packets that do not stand in for EOF.
pub const HEADER: u8 = 0x00;

/// `OK_Packet` of the 4.1 protocol.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OkPacket {
    /// Rows changed, or found with `CLIENT_FOUND_ROWS`.
    pub affected_rows: u64,
    /// The first value that AUTO_INCREMENT gave, or 0.
    pub last_insert_id: u64,
    /// Server status.
    pub status: Status,
    /// Number of warnings.
    pub warnings: u16,
    /// What a person reads, such as `Records: 3  Duplicates: 0  Warnings: 0`.
    pub info: Vec<u8>,
    /// Changes of session state; on the wire only with `CLIENT_SESSION_TRACK` and
    /// [`Status::SESSION_STATE_CHANGED`].
    pub trackers: Vec<Tracker>,
}

/// The parts of an OK packet that need no allocation.
pub(crate) struct OkParts<'a> {
    pub(crate) affected_rows: u64,
    pub(crate) last_insert_id: u64,
    pub(crate) status: Status,
    pub(crate) warnings: u16,
    pub(crate) info: &'a [u8],
    /// The session-state blocks, not yet decoded.
    pub(crate) state: &'a [u8],
}

impl OkPacket {
    /// The affected rows and the last insert id, of a payload that begins with its header byte.
    /// `None` if it is no OK.
    #[must_use]
    pub fn numbers(payload: &[u8]) -> Option<(u64, u64)> {
        let parts = OkParts::decode_numbers(payload).ok()?;
        Some((parts.affected_rows, parts.last_insert_id))
    }

    /// Decodes a payload, its header byte (0x00 or 0xFE) included.
    ///
    /// # Errors
    ///
    /// Another header, or a payload that ends within a field.
    pub fn decode(payload: &[u8], caps: Capabilities) -> Result<Self, DecodeError> {
        let parts = OkParts::decode(payload, caps)?;
        Ok(Self {
            affected_rows: parts.affected_rows,
            last_insert_id: parts.last_insert_id,
            status: parts.status,
            warnings: parts.warnings,
            info: parts.info.to_vec(),
            trackers: Tracker::decode_all(parts.state)?,
        })
    }

    /// Appends the payload with header 0x00.
    pub fn encode(&self, out: &mut BytesMut, caps: Capabilities) {
        self.encode_with(HEADER, out, caps);
    }

    /// Appends the payload with header 0xFE: the end of rows under `CLIENT_DEPRECATE_EOF`.
    pub fn encode_as_eof(&self, out: &mut BytesMut, caps: Capabilities) {
        self.encode_with(eof::HEADER, out, caps);
    }

    fn encode_with(&self, header: u8, out: &mut BytesMut, caps: Capabilities) {
        out.put_u8(header);
        put::int(out, self.affected_rows);
        put::int(out, self.last_insert_id);
        out.put_u16_le(self.status.0);
        out.put_u16_le(self.warnings);
        if !caps.contains(Capabilities::SESSION_TRACK) {
            out.put_slice(&self.info);
            return;
        }
        let changed = self.status.contains(Status::SESSION_STATE_CHANGED);
        if changed || !self.info.is_empty() {
            put::string(out, &self.info);
        }
        if changed {
            let mut state = BytesMut::new();
            self.trackers.iter().for_each(|tracker| tracker.encode(&mut state));
            put::string(out, &state);
        }
    }
}

/// Without the trackers' values.
impl std::fmt::Debug for OkPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OkPacket")
            .field("affected_rows", &self.affected_rows)
            .field("last_insert_id", &self.last_insert_id)
            .field("status", &self.status)
            .field("warnings", &self.warnings)
            .field("info", &self.info.escape_ascii().to_string())
            .field("trackers", &self.trackers)
            .finish()
    }
}

impl<'a> OkParts<'a> {
    pub(crate) fn decode(payload: &'a [u8], caps: Capabilities) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        let mut parts = Self::numbers(&mut r)?;
        if !caps.contains(Capabilities::SESSION_TRACK) {
            parts.info = r.rest();
        } else if !r.is_empty() {
            // Servers leave both strings out when there is nothing to say.
            parts.info = r.string("info")?;
            if parts.status.contains(Status::SESSION_STATE_CHANGED) && !r.is_empty() {
                parts.state = r.string("session state")?;
            }
        }
        Ok(parts)
    }

    /// Decodes what stands before the strings, from the beginning of a payload.
    pub(crate) fn decode_numbers(payload: &'a [u8]) -> Result<Self, DecodeError> {
        Self::numbers(&mut Reader::new(payload))
    }

    fn numbers(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if !matches!(r.u8("OK header")?, HEADER | eof::HEADER) {
            return Err(DecodeError::Invalid("OK header"));
        }
        Ok(Self {
            affected_rows: r.int("affected rows")?,
            last_insert_id: r.int("last insert id")?,
            status: Status(r.u16("status flags")?),
            warnings: r.u16("warning count")?,
            info: &[],
            state: &[],
        })
    }
}
