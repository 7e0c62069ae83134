//! Compressed frames: what a connection is made of once its login has agreed on compression.
//!
//! ```text
//! 3 bytes  length of the body
//! 1 byte   sequence id of the frame
//! 3 bytes  length of the body once it is uncompressed; 0: it is stored as it is
//! n bytes  the body: a piece of the stream of plain packets
//! ```
//!
//! Frames and packets are cut independently: a packet may go on in the next frame, and a frame may
//! hold several packets. Frames have sequence ids of their own, which begin at 0 with every command
//! and count on through its reply. Hence a command never shares a frame with another.
//!
//! The ids of the packets inside are odd: servers begin them at the id of the frame with every
//! reply and with every result of a reply, and count on from one frame to the next in between.
//! Clients do what they like. As a plain connection does look, a [`Codec`] gives the packets that
//! come the ids that they would have there.
//!
//! # As servers cut
//!
//! Servers gather packets up to 16 KiB, wherever that cuts the last one, and send the rest of a
//! packet that does not fit in one piece. So no packet is in more than two frames, and there are
//! clients that take no others; one of 16 MiB can be in no fewer. At the end of each result they
//! send what there is. A server's end keeps to all that, and never cuts a packet that fits into
//! [`WHOLE`] bytes: a client that finds half a packet's header fails on some servers.
//!
//! Source: MySQL Internals, "Compression" and "Compressed Packet"; MariaDB Knowledge Base,
//! "0-packet", section "Compressed packet".

mod codec;
mod contexts;
mod flow;
mod ids;
mod packets;
mod rest;

pub use codec::{Codec, End};
pub use contexts::Contexts;

use crate::{Capabilities, packet::MAX_PAYLOAD};
use thiserror::Error;

/// Bytes before each frame's body.
pub const HEADER_LEN: usize = 7;

/// The most bytes of plain packets in one frame, 16 MiB - 1.
pub const MAX_FRAME: usize = MAX_PAYLOAD;

/// The most bytes of plain packets in a frame that a server's end begins: packets up to this long,
/// their headers included, are whole in one frame, and the rest of a longer one is in a second.
pub const WHOLE: usize = 128 * 1024;

/// Less than this is stored as it is, as servers do.
pub const MIN_COMPRESS: usize = 50;

/// How frames are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// zlib, which MySQL and MariaDB have.
    Zlib {
        /// 1 (fast) to 9 (small).
        level: u8,
    },
    /// zstd, which MySQL has.
    Zstd {
        /// 1 (fast) to 22 (small).
        level: u8,
    },
}

/// Why bytes are not compressed frames. None of these can be recovered from.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CompressError {
    /// A frame is neither the next one nor the first of a command.
    #[error("compressed frames out of order: sequence id {got} instead of {expected}")]
    OutOfOrder {
        /// The id that was due.
        expected: u8,
        /// The id that came.
        got: u8,
    },
    /// The body is not what the algorithm makes.
    #[error("a compressed frame cannot be uncompressed")]
    Corrupt,
    /// The body is longer, once it is uncompressed, than its header says, or it is cut; with zstd,
    /// or it is shorter.
    #[error("a compressed frame does not have the {promised} bytes that its header promises")]
    Length {
        /// What the header says, in bytes.
        promised: usize,
    },
    /// There is no memory for compressing.
    #[error("a frame cannot be compressed")]
    Failed,
}

/// A login names a level of zstd that there is not: MySQL's error 3923.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("invalid zstd compression level {0}")]
pub struct WrongLevel(pub u8);

impl Method {
    /// The level of zlib that servers use.
    pub const ZLIB: Self = Self::Zlib { level: 6 };
    /// The level of zstd that clients ask for unless they are told otherwise.
    pub const ZSTD: Self = Self::Zstd { level: 3 };

    /// What a login has agreed on, given the capabilities of both sides and the login's level of
    /// zstd. As MySQL does it, zlib wins where both are agreed on, and the level then means nothing.
    ///
    /// # Errors
    ///
    /// A level of zstd that is not 1 to 22.
    pub fn agreed(both: Capabilities, zstd_level: u8) -> Result<Option<Self>, WrongLevel> {
        if both.contains(Capabilities::COMPRESS) {
            return Ok(Some(Self::ZLIB));
        }
        if !both.contains(Capabilities::ZSTD_COMPRESSION_ALGORITHM) {
            return Ok(None);
        }
        match zstd_level {
            level @ 1..=22 => Ok(Some(Self::Zstd { level })),
            level => Err(WrongLevel(level)),
        }
    }

    /// The capability of a server or client that has it.
    #[must_use]
    pub const fn capability(self) -> Capabilities {
        match self {
            Self::Zlib { .. } => Capabilities::COMPRESS,
            Self::Zstd { .. } => Capabilities::ZSTD_COMPRESSION_ALGORITHM,
        }
    }

    /// 1 (fast) to 9 with zlib and to 22 with zstd (small).
    #[must_use]
    pub const fn level(self) -> u8 {
        match self {
            Self::Zlib { level } | Self::Zstd { level } => level,
        }
    }
}

/// One frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Bytes of the body.
    len: usize,
    seq: u8,
    /// Bytes of the body once it is uncompressed; 0 if it is stored as it is.
    plain_len: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, seq, d, e, f] = bytes.first_chunk::<HEADER_LEN>()?;
        let int = |bytes| u32::from_le_bytes(bytes) as usize;
        Some(Self { len: int([a, b, c, 0]), seq, plain_len: int([d, e, f, 0]) })
    }

    fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [a, b, c, ..] = self.len.to_le_bytes();
        let [d, e, f, ..] = self.plain_len.to_le_bytes();
        [a, b, c, self.seq, d, e, f]
    }
}
