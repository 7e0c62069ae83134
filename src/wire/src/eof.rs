//! The EOF packet, where `CLIENT_DEPRECATE_EOF` is off.
//!
//! Source: MySQL Internals, "Protocol::EOF_Packet".

use crate::{
    Status,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

/// The first byte of EOF packets, and of OK packets that stand in for them.
pub const HEADER: u8 = 0xFE;

/// `EOF_Packet` of the 4.1 protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EofPacket {
    /// Number of warnings.
    pub warnings: u16,
    /// Server status.
    pub status: Status,
}

impl EofPacket {
    /// Decodes a payload, its header byte included.
    ///
    /// # Errors
    ///
    /// Another header, fewer than 5 bytes, or more than the 8 that tell it from a row.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        if r.u8("EOF header")? != HEADER || payload.len() > 8 {
            return Err(DecodeError::Invalid("EOF header"));
        }
        Ok(Self { warnings: r.u16("warning count")?, status: Status(r.u16("status flags")?) })
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u8(HEADER);
        out.put_u16_le(self.warnings);
        out.put_u16_le(self.status.0);
    }
}
