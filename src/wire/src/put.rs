//! Writes the protocol's basic types.

use bytes::{BufMut, BytesMut};

/// `int<lenenc>`.
pub(crate) fn int(out: &mut BytesMut, value: u64) {
    let bytes = value.to_le_bytes();
    match int_len(value) {
        1 => out.put_u8(bytes[0]),
        3 => {
            out.put_u8(0xFC);
            out.put_slice(&bytes[..2]);
        }
        4 => {
            out.put_u8(0xFD);
            out.put_slice(&bytes[..3]);
        }
        _ => {
            out.put_u8(0xFE);
            out.put_slice(&bytes);
        }
    }
}

/// How many bytes `int` writes.
pub(crate) fn int_len(value: u64) -> usize {
    match value {
        0..=0xFA => 1,
        0xFB..=0xFFFF => 3,
        0x1_0000..=0xFF_FFFF => 4,
        _ => 9,
    }
}

/// `string<lenenc>`.
pub(crate) fn string(out: &mut BytesMut, bytes: &[u8]) {
    int(out, bytes.len() as u64);
    out.put_slice(bytes);
}

/// How many bytes `string` writes.
pub(crate) fn string_len(bytes: &[u8]) -> usize {
    int_len(bytes.len() as u64) + bytes.len()
}

/// `string<NUL>`; ends at the first NUL of `bytes`, because the reader would.
pub(crate) fn nul_string(out: &mut BytesMut, bytes: &[u8]) {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    out.put_slice(&bytes[..end]);
    out.put_u8(0);
}
