//! What bytes meant, or why they mean nothing.

use super::ReplyEnd;
use crate::{CommandCode, DecodeError};
use thiserror::Error;

/// What a chunk of bytes meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// All of the chunk belongs to the reply, which goes on.
    More,
    /// The first `at` bytes end with a request for the client's file (LOCAL INFILE). Data packets
    /// from the client must follow, the last of them empty; then the reply goes on.
    Upload {
        /// Bytes of this chunk up to the end of the request.
        at: usize,
    },
    /// The reply ends with the first `at` bytes of this chunk.
    End {
        /// Bytes of this chunk that belong to the reply.
        at: usize,
        /// How it ended.
        end: ReplyEnd,
    },
}

impl Scan {
    /// Bytes of the chunk up to the request or the end; 0 if the reply goes on.
    #[must_use]
    pub const fn at(&self) -> usize {
        match self {
            Self::More => 0,
            Self::Upload { at } | Self::End { at, .. } => *at,
        }
    }
}

/// Why bytes are no reply to the command. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReplyError {
    /// A packet that cannot come here.
    #[error("unexpected packet in the reply to {command}: {what}")]
    Unexpected {
        /// The command that the reply is for.
        command: CommandCode,
        /// What was awaited.
        what: &'static str,
    },
    /// A packet has the wrong sequence id.
    #[error("reply packets out of order: sequence id {got} instead of {expected}")]
    OutOfOrder {
        /// The id that was due.
        expected: u8,
        /// The id that came.
        got: u8,
    },
    /// A packet that matters for the end is malformed.
    #[error("malformed packet in a reply: {0}")]
    Malformed(#[from] DecodeError),
}
