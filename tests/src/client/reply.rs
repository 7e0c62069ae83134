//! One whole reply.

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use std::fmt;
use wire::{
    Capabilities, ErrPacket, ReplyEnd,
    command::statement::PrepareOk,
    packet,
    row::{self, Value},
};

/// A reply as it came.
#[derive(Clone, Debug)]
pub struct Reply {
    /// All bytes, headers included.
    pub raw: Vec<u8>,
    /// How it ended.
    pub end: ReplyEnd,
    pub(super) prepared: Option<PrepareOk>,
}

/// An ERR packet for a person to read.
#[derive(Debug)]
pub struct ServerError(ErrPacket);

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = String::from_utf8_lossy(&self.0.sqlstate);
        write!(f, "ERR {} ({state}): {}", self.0.code, self.0.message_lossy())
    }
}

impl Reply {
    /// The number of the error that ended it.
    pub fn error_code(&self) -> Option<u16> {
        self.end.error.map(|error| error.code)
    }

    /// The error that ended it.
    pub fn error(&self) -> Option<ServerError> {
        self.end.error?;
        let last = self.packets().pop()?;
        ErrPacket::decode(&last).ok().map(ServerError)
    }

    /// The payloads of its messages.
    pub fn packets(&self) -> Vec<Bytes> {
        let mut rest = BytesMut::from(&self.raw[..]);
        let mut found = Vec::new();
        while let Ok(Some(message)) = packet::take_message(&mut rest, usize::MAX) {
            found.push(message.payload());
        }
        found
    }

    /// The rows of the first result, as text; none where the reply is an OK packet.
    pub fn rows(&self, capabilities: Capabilities) -> Result<Vec<Vec<Option<String>>>> {
        let packets = self.packets();
        let first = packets.first().and_then(|packet| packet.first());
        let columns = usize::from(*first.context("empty reply")?);
        if columns == 0 {
            return Ok(Vec::new());
        }
        let ends = usize::from(!capabilities.contains(Capabilities::DEPRECATE_EOF));
        let rows = packets.iter().skip(1 + columns + ends);
        rows.take_while(|packet| {
            !(packet.first() == Some(&0xFE) && packet.len() < packet::MAX_PAYLOAD)
        })
        .map(|packet| Ok(row::decode_text(packet, columns)?.iter().map(text).collect()))
        .collect()
    }
}

fn text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
