//! What is remembered of a reply, within bounds.

use super::ReplyScanner;

/// An OK, EOF or ERR packet seldom has more bytes.
const USUAL: usize = 128;

/// A bounded copy of payloads.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    /// There was more than fits.
    pub(super) cut: bool,
    limit: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self::up_to(ReplyScanner::KEPT)
    }
}

impl Kept {
    /// Nothing yet, and never more than `limit` bytes.
    pub(super) fn up_to(limit: usize) -> Self {
        Self { bytes: Vec::new(), cut: false, limit }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.cut = false;
    }

    pub(super) fn add(&mut self, more: &[u8]) {
        let room = self.limit - self.bytes.len();
        self.cut |= more.len() > room;
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(USUAL.min(self.limit));
        }
        self.bytes.extend_from_slice(&more[..more.len().min(room)]);
    }
}
