//! Framing: three bytes of length, one of sequence, a payload; long payloads in several packets.
//!
//! Source: MySQL Internals, "MySQL Packets" and "Sending More Than 16Mb".

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

/// Bytes before each packet's payload.
pub const HEADER_LEN: usize = 4;

/// The largest payload of one packet, 16 MiB - 1. A packet of this length is continued by the next.
pub const MAX_PAYLOAD: usize = 0xFF_FFFF;

/// One packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload, at most [`MAX_PAYLOAD`].
    pub len: usize,
    /// The packet's number within the exchange, modulo 256.
    pub seq: u8,
}

/// One logical message: a packet, or several of which all but the last have [`MAX_PAYLOAD`] bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Sequence id of its first packet.
    pub seq: u8,
    /// The sequence id that comes next.
    pub next_seq: u8,
    /// The packets as they came, headers included.
    pub framed: Bytes,
}

/// Why a message cannot be taken.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PacketError {
    /// The message has more bytes of payload than allowed.
    #[error("a message is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit, in bytes of payload.
        limit: usize,
    },
    /// A continuation packet has the wrong sequence id.
    #[error("packets out of order: sequence id {got} instead of {expected}")]
    OutOfOrder {
        /// The id that was due.
        expected: u8,
        /// The id that came.
        got: u8,
    },
}

/// Frames `payload`, from sequence id `seq` on. Returns the sequence id that comes next.
///
/// A payload of [`MAX_PAYLOAD`] bytes or a multiple is followed by an empty packet.
pub fn put_packet(out: &mut BytesMut, seq: u8, payload: &[u8]) -> u8 {
    out.reserve(payload.len() + HEADER_LEN * packets_len(payload.len()));
    let (mut seq, mut rest) = (seq, payload);
    loop {
        let (chunk, after) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        Header { len: chunk.len(), seq }.put(out);
        out.put_slice(chunk);
        (seq, rest) = (seq.wrapping_add(1), after);
        if chunk.len() < MAX_PAYLOAD {
            return seq;
        }
    }
}

/// How many packets a payload of `payload_len` bytes takes.
#[must_use]
pub const fn packets_len(payload_len: usize) -> usize {
    payload_len / MAX_PAYLOAD + 1
}

/// Takes the first whole message off `buf`; `None` if more bytes are needed.
///
/// The first packet may have any sequence id, the others must count on from it.
///
/// # Errors
///
/// [`PacketError::TooLarge`] as soon as the headers at hand promise more than `limit` bytes of
/// payload, [`PacketError::OutOfOrder`]. `buf` is left as it was.
pub fn take_message(buf: &mut BytesMut, limit: usize) -> Result<Option<Message>, PacketError> {
    let mut walk = Walk::default();
    let Some(first) = Header::parse(buf) else { return Ok(None) };
    while let Some(header) = buf.get(walk.end..).and_then(Header::parse) {
        let expected = first.seq.wrapping_add(walk.packets);
        if header.seq != expected {
            return Err(PacketError::OutOfOrder { expected, got: header.seq });
        }
        let last = walk.step(header);
        if walk.payload > limit {
            return Err(PacketError::TooLarge { limit });
        }
        if last {
            let whole = walk.end <= buf.len();
            return Ok(whole.then(|| Message {
                seq: first.seq,
                next_seq: first.seq.wrapping_add(walk.packets),
                framed: buf.split_to(walk.end).freeze(),
            }));
        }
    }
    Ok(None)
}

/// How many more bytes the message at the front of `buf` is known to need; 0 if it is whole.
///
/// A hint for reserving: the last packets of a long message are not known before their headers.
#[must_use]
pub fn missing(buf: &[u8]) -> usize {
    let mut walk = Walk::default();
    loop {
        let Some(header) = buf.get(walk.end..).and_then(Header::parse) else {
            return (walk.end + HEADER_LEN).saturating_sub(buf.len());
        };
        if walk.step(header) {
            return walk.end.saturating_sub(buf.len());
        }
    }
}

impl Header {
    /// Reads a header; `None` if `bytes` has fewer than [`HEADER_LEN`] bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let word = u32::from_le_bytes(*bytes.first_chunk()?);
        Some(Self { len: (word & 0xFF_FFFF) as usize, seq: (word >> 24) as u8 })
    }

    /// The header's bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [a, b, c, ..] = self.len.to_le_bytes();
        [a, b, c, self.seq]
    }

    fn put(self, out: &mut BytesMut) {
        out.put_slice(&self.to_bytes());
    }
}

impl Message {
    /// The message that `payload` makes from sequence id `seq` on.
    #[must_use]
    pub fn new(seq: u8, payload: &[u8]) -> Self {
        let mut out = BytesMut::new();
        let next_seq = put_packet(&mut out, seq, payload);
        Self { seq, next_seq, framed: out.freeze() }
    }

    /// The payload without headers: a slice of the same memory for one packet, a copy for several.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        if self.framed.len() < HEADER_LEN + MAX_PAYLOAD {
            return self.framed.slice(HEADER_LEN.min(self.framed.len())..);
        }
        let mut joined = BytesMut::with_capacity(self.framed.len());
        let mut rest = &self.framed[..];
        while let Some(header) = Header::parse(rest) {
            rest.advance(HEADER_LEN);
            let chunk = &rest[..header.len.min(rest.len())];
            joined.put_slice(chunk);
            rest = &rest[chunk.len()..];
        }
        joined.freeze()
    }

    /// The payload's first byte: for a command, its code.
    #[must_use]
    pub fn first_byte(&self) -> Option<u8> {
        self.framed.get(HEADER_LEN).copied()
    }
}

/// Sizes only: a payload may hold a password or a statement.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message")
            .field("seq", &self.seq)
            .field("next_seq", &self.next_seq)
            .field("framed_len", &self.framed.len())
            .finish()
    }
}

/// A walk over the headers of one message.
#[derive(Default)]
struct Walk {
    /// Where the packet walked last ends.
    end: usize,
    payload: usize,
    packets: u8,
}

impl Walk {
    /// Passes one packet; true if it is the message's last.
    fn step(&mut self, header: Header) -> bool {
        self.end += HEADER_LEN + header.len;
        self.payload += header.len;
        self.packets = self.packets.wrapping_add(1);
        header.len < MAX_PAYLOAD
    }
}
