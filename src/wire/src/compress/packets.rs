//! Following plain packets through pieces that are cut anywhere.

use crate::packet::{HEADER_LEN, Header, MAX_PAYLOAD};

/// Where in a stream of packets a direction is.
#[derive(Default)]
pub(super) struct Walk {
    /// Bytes of the packet at work that have not passed yet.
    left: usize,
    /// The packet is continued by the next one: both are one message.
    continued: bool,
    /// The beginning of a packet of which too little is known yet.
    held: Vec<u8>,
}

impl Walk {
    /// Nothing of a message has passed that has not passed whole.
    pub(super) fn is_between_messages(&self) -> bool {
        self.left == 0 && !self.continued && self.held.is_empty()
    }

    /// The next packet begins a message.
    pub(super) fn begins_message(&self) -> bool {
        self.left == 0 && !self.continued
    }

    /// What was held back, with `piece` behind it; `None` if that is `piece` alone.
    pub(super) fn rejoin(&mut self, piece: &[u8]) -> Option<Vec<u8>> {
        if self.held.is_empty() {
            return None;
        }
        let mut joined = std::mem::take(&mut self.held);
        joined.extend_from_slice(piece);
        Some(joined)
    }

    /// Keeps bytes until more come.
    pub(super) fn hold(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Keeps what [`Walk::rejoin`] gave from `at` on until more come.
    pub(super) fn hold_rest(&mut self, mut joined: Vec<u8>, at: usize) {
        if at < joined.len() {
            joined.drain(..at);
            self.held = joined;
        }
    }

    /// A packet begins if none is at work. `None` if it does and `bytes` are too few to tell.
    pub(super) fn next<'a>(&self, bytes: &'a [u8]) -> Option<Next<'a>> {
        if self.left > 0 {
            return Some(Next::Rest);
        }
        let header = Header::parse(bytes)?;
        if header.len == 0 {
            return Some(Next::Packet(header, None));
        }
        let first = bytes.get(HEADER_LEN)?;
        Some(Next::Packet(header, Some(first)))
    }

    /// Enters the packet.
    pub(super) fn enter(&mut self, header: Header) {
        self.left = HEADER_LEN + header.len;
        self.continued = header.len == MAX_PAYLOAD;
    }

    /// Passes up to `available` bytes of the packet at work; gives how many.
    pub(super) fn pass(&mut self, available: usize) -> usize {
        let passed = available.min(self.left);
        self.left -= passed;
        passed
    }
}

/// What comes next in a direction.
pub(super) enum Next<'a> {
    /// The rest of the packet at work.
    Rest,
    /// A packet, with the first byte of its payload if there is one.
    Packet(Header, Option<&'a u8>),
}
