//! Where a reply ends: the one state machine for it.
//!
//! ```text
//!            ┌─────────────────── MORE_RESULTS ──────────────────┐
//!            ▼                                                   │
//! QUERY ▶ response ─ count ▶ column definitions ▶ (EOF) ▶ rows ▶ OK, EOF, ERR ▶ end
//!         │  ▲   └─ OK, ERR ▶ end or next response      ▲
//!         ▼  │                                          └─ FETCH, FIELD_LIST begin here
//!        LOCAL INFILE
//! PREPARE ▶ counts ▶ parameter definitions ▶ (EOF) ▶ column definitions ▶ (EOF) ▶ end
//! others  ▶ one OK, EOF or ERR ▶ end
//! ```
//!
//! The scanner looks at each packet's header and first byte, and keeps only packets with a meaning
//! for the end. Source: MySQL Internals, "Command Phase"; MariaDB Knowledge Base, "Result Set
//! Packets".

mod end;
mod expect;
mod kept;
mod scan;

pub use end::{ErrHead, ReplyEnd};
pub use scan::{ReplyError, Scan};

use crate::{
    Capabilities, CommandCode,
    command::statement::PrepareOk,
    packet::{HEADER_LEN, Header, MAX_PAYLOAD},
};
use expect::{Expect, Part};
use kept::Kept;

/// Finds the end of one reply in the bytes that a server sends.
#[derive(Clone)]
pub struct ReplyScanner {
    command: CommandCode,
    caps: Capabilities,
    expect: Expect,
    at: At,
    /// The packet under way.
    header: Header,
    /// What the message under way is, if it is kept.
    part: Option<Part>,
    /// The packet under way, or the next, continues the message of the one before.
    continues: bool,
    /// Wire length of the message under way, so far.
    message_len: usize,
    next_seq: Option<u8>,
    /// A cursor was asked for: with one, no rows follow the column definitions.
    cursor: bool,
    /// Another result follows these rows, whatever the packet behind them says.
    more_promised: bool,
    kept: Kept,
    session_state: Kept,
    prepared: Option<PrepareOk>,
    /// Rows of the last result.
    rows: u64,
    end: ReplyEnd,
}

/// Where the scanner is within a packet.
#[derive(Clone, Copy)]
enum At {
    /// In the header, of which `have` bytes are in `bytes`.
    Header { bytes: [u8; HEADER_LEN], have: usize },
    /// Behind the header, before the payload's first byte.
    First,
    /// In the payload.
    Payload { left: usize },
}

const NEXT_PACKET: At = At::Header { bytes: [0; HEADER_LEN], have: 0 };

impl ReplyScanner {
    /// How much is kept of a payload, and of all session-state blocks of a reply, in bytes.
    pub const KEPT: usize = 64 * 1024;

    /// What is kept of a payload for who only counts: all numbers of an OK, which may take 23 bytes.
    const NUMBERS: usize = 32;

    /// A scanner for the reply to `command`, on a connection with these negotiated capabilities.
    ///
    /// COM_CHANGE_USER is not for this scanner: its reply is a conversation, see [`crate::auth`].
    #[must_use]
    pub fn new(command: CommandCode, caps: Capabilities) -> Self {
        Self {
            command,
            caps,
            expect: Expect::first(command),
            at: NEXT_PACKET,
            header: Header { len: 0, seq: 0 },
            part: None,
            continues: false,
            message_len: 0,
            next_seq: None,
            cursor: false,
            more_promised: false,
            kept: Kept::default(),
            session_state: Kept::default(),
            prepared: None,
            rows: 0,
            end: ReplyEnd::default(),
        }
    }

    /// Whether the command, COM_STMT_EXECUTE, asks for a cursor. Only then does `CURSOR_EXISTS` mean
    /// that one was opened: a procedure's own cursors set it too, and rows follow.
    #[must_use]
    pub fn with_cursor(mut self, asked: bool) -> Self {
        self.cursor = asked;
        self
    }

    /// Keeps of each payload no more than its numbers: [`ReplyScanner::last_packet`] is cut, and
    /// session state is not kept at all.
    #[must_use]
    pub(crate) fn keeping_numbers(mut self) -> Self {
        (self.kept, self.session_state) = (Kept::up_to(Self::NUMBERS), Kept::up_to(0));
        self
    }

    /// [`ReplyScanner::with_cursor`] for the command that [`ReplyScanner::restart`] has named.
    pub(crate) fn expect_cursor(&mut self, asked: bool) {
        self.cursor = asked;
    }

    /// Starts over for the reply to the next command, keeping the memory.
    pub fn restart(&mut self, command: CommandCode) {
        let (mut kept, mut session_state) =
            (std::mem::take(&mut self.kept), std::mem::take(&mut self.session_state));
        kept.clear();
        session_state.clear();
        *self = Self { kept, session_state, ..Self::new(command, self.caps) };
    }

    /// Takes the next bytes that the server sent: any run, from where the one before ended.
    ///
    /// A command without a reply ends at 0 of any chunk, and so does every chunk after the end.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]; the scanner is of no more use then.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Scan, ReplyError> {
        let mut at = 0;
        loop {
            if self.expect == Expect::Nothing {
                return Ok(Scan::End { at, end: self.end });
            }
            match self.at {
                At::Header { have: 0, .. } if self.in_rows() => {
                    at = self.pass_rows(bytes, at);
                    if !self.take_header(bytes, &mut at) {
                        return Ok(Scan::More);
                    }
                }
                At::Header { .. } => {
                    if !self.take_header(bytes, &mut at) {
                        return Ok(Scan::More);
                    }
                }
                At::First => {
                    if self.header.len > 0 && at == bytes.len() {
                        return Ok(Scan::More);
                    }
                    let first = (self.header.len > 0).then(|| bytes[at]);
                    self.begin_payload(first)?;
                }
                At::Payload { left } => {
                    let taken = &bytes[at..bytes.len().min(at.saturating_add(left))];
                    at += taken.len();
                    if self.part.is_some() {
                        self.kept.add(taken);
                    }
                    if taken.len() < left {
                        self.at = At::Payload { left: left - taken.len() };
                        return Ok(Scan::More);
                    }
                    if self.end_packet()? {
                        return Ok(Scan::Upload { at });
                    }
                }
            }
        }
    }

    /// The command that the reply is for.
    #[must_use]
    pub fn command(&self) -> CommandCode {
        self.command
    }

    /// The sequence id of the packet that comes next; `None` before the first.
    ///
    /// Whoever must end a broken reply with an ERR of their own needs it.
    #[must_use]
    pub fn next_seq(&self) -> Option<u8> {
        self.next_seq
    }

    /// Whether all bytes so far are whole packets: an ERR may be put behind them.
    #[must_use]
    pub fn between_packets(&self) -> bool {
        !self.continues && matches!(self.at, At::Header { have: 0, .. })
    }

    /// How many of the bytes scanned last belong to a message that is not complete and may turn out
    /// to end the reply. Whoever needs the terminator in one piece holds them back.
    #[must_use]
    pub fn undecided(&self) -> usize {
        match (self.at, self.part) {
            _ if self.continues => 0,
            (At::Header { have, .. }, _) => have,
            (At::First, _) => HEADER_LEN,
            (At::Payload { left }, Some(Part::Ok | Part::Eof | Part::Err | Part::Text)) => {
                HEADER_LEN + self.header.len - left
            }
            (At::Payload { .. }, _) => 0,
        }
    }

    /// The payload of the OK, EOF or ERR packet that ended the reply, or of the LOCAL INFILE
    /// request after [`Scan::Upload`]; at most its first [`ReplyScanner::KEPT`] bytes.
    ///
    /// Empty where something else ended it: a column definition, or nothing.
    #[must_use]
    pub fn last_packet(&self) -> &[u8] {
        &self.kept.bytes
    }

    /// The session-state blocks of all OK packets in the reply, one after the other, for
    /// [`Tracker::decode_all`](crate::session_state::Tracker::decode_all). `None` if they took more
    /// than [`ReplyScanner::KEPT`] bytes: then anything may have changed.
    #[must_use]
    pub fn session_state(&self) -> Option<&[u8]> {
        (!self.session_state.cut).then_some(&self.session_state.bytes)
    }

    /// Whether the next message defines a parameter or a column, unless it is an ERR.
    #[must_use]
    pub fn at_definition(&self) -> bool {
        matches!(self.expect, Expect::Columns(_) | Expect::Definitions(..))
    }

    /// Whether the next message begins one more result, behind another that is complete.
    pub(crate) fn at_next_result(&self) -> bool {
        self.expect == Expect::Response && self.between_packets() && self.next_seq.is_some()
    }

    /// What COM_STMT_PREPARE gave.
    #[must_use]
    pub fn prepared(&self) -> Option<PrepareOk> {
        self.prepared
    }

    /// How many rows the last result has had so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn in_rows(&self) -> bool {
        self.expect == Expect::Rows && !self.continues
    }

    /// Passes the rows that lie whole in `bytes` behind `at`, as long as nothing is special about
    /// them. All that large results cost is here.
    fn pass_rows(&mut self, bytes: &[u8], mut at: usize) -> usize {
        let Some(mut seq) = self.next_seq else { return at };
        while let Some(&[a, b, c, got, first]) = bytes[at..].first_chunk() {
            let len = u32::from_le_bytes([a, b, c, 0]) as usize;
            let end = at + HEADER_LEN + len;
            if first >= 0xFE || got != seq || len == 0 || len == MAX_PAYLOAD || end > bytes.len() {
                break;
            }
            (at, seq) = (end, seq.wrapping_add(1));
            self.rows += 1;
        }
        self.next_seq = Some(seq);
        at
    }

    /// Takes what there is of a header; true when it is whole.
    fn take_header(&mut self, bytes: &[u8], at: &mut usize) -> bool {
        let At::Header { bytes: mut head, have } = self.at else { return true };
        let taken = (HEADER_LEN - have).min(bytes.len() - *at);
        head[have..have + taken].copy_from_slice(&bytes[*at..*at + taken]);
        *at += taken;
        self.at = match Header::parse(&head) {
            Some(header) if have + taken == HEADER_LEN => {
                self.header = header;
                At::First
            }
            _ => At::Header { bytes: head, have: have + taken },
        };
        matches!(self.at, At::First)
    }

    /// Decides by the payload's first byte whether the packet is kept.
    fn begin_payload(&mut self, first: Option<u8>) -> Result<(), ReplyError> {
        let Header { len, seq } = self.header;
        match self.next_seq {
            // Servers that give up a connection count from anywhere in their last ERR.
            Some(expected) if expected != seq && (first != Some(0xFF) || self.continues) => {
                return Err(ReplyError::OutOfOrder { expected, got: seq });
            }
            _ => self.next_seq = Some(seq.wrapping_add(1)),
        }
        if !self.continues {
            self.message_len = 0;
            self.part = self
                .expect
                .part(first, len, self.caps)
                .map_err(|what| ReplyError::Unexpected { command: self.command, what })?;
            self.kept.clear();
        }
        self.message_len = self.message_len.saturating_add(HEADER_LEN + len);
        self.at = At::Payload { left: len };
        Ok(())
    }

    /// The packet under way has ended; true if it asks for an upload.
    fn end_packet(&mut self) -> Result<bool, ReplyError> {
        self.at = NEXT_PACKET;
        self.continues = self.header.len == MAX_PAYLOAD;
        if self.continues {
            return Ok(false);
        }
        match self.part {
            None => self.passed(),
            Some(Part::Upload) => {
                self.next_seq = None;
                return Ok(true);
            }
            Some(part) => self.finish(part)?,
        }
        Ok(false)
    }

    /// A packet without meaning of its own has passed: a row, a column definition.
    fn passed(&mut self) {
        self.rows += u64::from(self.expect == Expect::Rows);
        self.expect = self.expect.passed(self.caps);
        if self.expect == Expect::Nothing {
            self.end.terminator = self.message_len;
        }
    }
}

/// Without what is kept.
impl std::fmt::Debug for ReplyScanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplyScanner")
            .field("command", &self.command)
            .field("expect", &self.expect)
            .field("next_seq", &self.next_seq)
            .finish_non_exhaustive()
    }
}
