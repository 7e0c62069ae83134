//! Packets by their heads: the header, and the first bytes of the payload. Nothing else is kept.

use crate::packet::{HEADER_LEN, Header, MAX_PAYLOAD};

/// What is seen of a payload: the code of a command, its statement's id and cursor flags; the code
/// of an ERR and its SQLSTATE.
const FIRST: usize = 9;

/// A walk over packets, whose bytes may come in any pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads {
    seen: [u8; HEADER_LEN + FIRST],
    have: usize,
    /// Bytes of the packet that are still to come and are of no interest.
    left: usize,
}

/// The beginning of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) header: Header,
    first: [u8; FIRST],
}

impl Heads {
    /// The next head that is whole, with `bytes` behind it; `None` when all bytes are used up.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Head> {
        self.left -= skip(bytes, self.left);
        loop {
            let header = Header::parse(&self.seen[..self.have.min(HEADER_LEN)]);
            let wanted = HEADER_LEN + header.map_or(0, |header| header.len.min(FIRST));
            if let Some(header) = header.filter(|_| self.have == wanted) {
                let mut first = [0; FIRST];
                first.copy_from_slice(&self.seen[HEADER_LEN..]);
                first[wanted - HEADER_LEN..].fill(0);
                (self.have, self.left) = (0, header.len - (wanted - HEADER_LEN));
                return Some(Head { header, first });
            }
            if bytes.is_empty() {
                return None;
            }
            let (taken, rest) = bytes.split_at(bytes.len().min(wanted - self.have));
            self.seen[self.have..self.have + taken.len()].copy_from_slice(taken);
            self.have += taken.len();
            *bytes = rest;
        }
    }

    /// The next bytes of the packet whose head was given last, at most so many.
    pub(super) fn take<'a>(&mut self, bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(most).min(self.left));
        self.left -= taken.len();
        *bytes = rest;
        taken
    }

    /// Passes what is left of the packet whose head was given last; whether that was all of it.
    pub(super) fn finish(&mut self, bytes: &mut &[u8]) -> bool {
        self.left -= skip(bytes, self.left);
        self.left == 0
    }
}

fn skip(bytes: &mut &[u8], most: usize) -> usize {
    let skipped = most.min(bytes.len());
    *bytes = &bytes[skipped..];
    skipped
}

impl Head {
    /// The bytes of the payload that were seen.
    pub(super) fn payload(&self) -> &[u8] {
        &self.first[..self.header.len.min(FIRST)]
    }
}

/// Tells packets that begin a command from those that go on with one, and from files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commands {
    before: Header,
    /// A file of the client's comes, up to an empty packet.
    file: bool,
}

impl Default for Commands {
    fn default() -> Self {
        Self { before: Header { len: 0, seq: 0 }, file: false }
    }
}

impl Commands {
    /// The server has asked for a file.
    pub(crate) fn expect_file(&mut self) {
        self.file = true;
    }

    /// Whether a command begins with this packet. To be asked about each, in order.
    ///
    /// Every command begins with sequence id 0. So may a packet of a file, or of an answer to an
    /// authentication plugin, when the ids begin anew.
    pub(crate) fn begin_with(&mut self, header: Header) -> bool {
        let before = std::mem::replace(&mut self.before, header);
        let continues = before.len == MAX_PAYLOAD;
        if self.file {
            self.file = header.len > 0 || continues;
            return false;
        }
        let goes_on = continues || (before.seq == u8::MAX && before.len > 0);
        header.seq == 0 && !goes_on
    }
}
