//! The ids of frames and packets, as each end of a connection counts them.

mod client;
mod server;

use super::{CompressError, End};
use crate::{
    CommandCode,
    packet::{HEADER_LEN, Header},
};
use client::Client;
use server::Server;
use std::collections::VecDeque;

/// The ids of one connection.
pub(super) enum Ids {
    Client(Box<Client>),
    Server(Box<Server>),
}

/// What the packets at work in one direction are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A command's, the last one that waits.
    Command,
    /// Those of a command that has no reply.
    Silent,
    /// Whatever goes on with an exchange: a reply, a client's file, a change of user.
    More,
}

/// Commands whose replies have not begun.
#[derive(Default)]
struct Turns {
    waiting: VecDeque<Turn>,
    /// No reply was at work, as far as is known, since those were sent that wait: it is their turn.
    alone: bool,
}

/// The ids with which a command's reply begins.
#[derive(Clone, Copy, Default)]
struct Turn {
    code: Option<CommandCode>,
    frame: u8,
    packet: u8,
    /// How many frames the command has.
    frames: u32,
}

/// Commands remembered that wait for their replies. A connection with more of them is one whose
/// peer does not answer.
const MAX_TURNS: usize = 1 << 16;
/// Memory for so many is kept.
const FEW_TURNS: usize = 16;

impl Ids {
    pub(super) fn new(end: End) -> Self {
        match end {
            End::Client(caps) => Self::Client(Box::new(Client::new(caps))),
            End::Server(caps) => Self::Server(Box::new(Server::new(caps))),
        }
    }

    /// Whether a frame may have this id: the next one, or the first of a command or of a reply.
    /// `between`: the frame does not go on with a message.
    pub(super) fn check(&self, seq: u8, between: bool) -> Result<(), CompressError> {
        match self {
            Self::Client(ids) => ids.check(seq, between),
            Self::Server(ids) => ids.check(seq, between),
        }
    }

    /// A frame has come whose id is good.
    pub(super) fn receives_frame(&mut self, seq: u8, between: bool, plain: &[u8]) {
        match self {
            Self::Client(ids) => ids.receives_frame(seq, between, plain),
            Self::Server(ids) => ids.receives_frame(seq, between, plain),
        }
    }

    /// The id of the next packet that has come, with this header and first byte of its payload.
    pub(super) fn receives(&mut self, header: Header, first: Option<u8>) -> u8 {
        match self {
            Self::Client(ids) => ids.receives(header),
            Self::Server(ids) => ids.receives(first.map(CommandCode)),
        }
    }

    /// These whole packets have come, and perhaps a part of one, with the ids of a plain connection.
    pub(super) fn has_received(&mut self, plain: &[u8]) {
        if let Self::Client(ids) = self {
            ids.has_received(plain);
        }
    }

    /// Whether a message that is about to be sent has to begin with a frame of its own.
    pub(super) fn begins(&self, header: Header) -> bool {
        match self {
            Self::Client(ids) => ids.begins(header),
            Self::Server(ids) => ids.begins(header),
        }
    }

    /// Whether the message that is about to be sent goes on with an exchange in a frame of its own:
    /// what was sent before is complete, or the other side has had its turn.
    pub(super) fn stand_apart(&self) -> bool {
        matches!(self, Self::Server(ids) if ids.stands_apart())
    }

    /// That message does begin, with this byte.
    pub(super) fn begin(&mut self, first: Option<&u8>) {
        match self {
            Self::Client(ids) => ids.begin(first.copied().map(CommandCode)),
            Self::Server(ids) => ids.begin(),
        }
    }

    /// A packet is about to be sent; `first` is there if it begins a message, and then its payload's
    /// first byte.
    pub(super) fn sends(&mut self, header: Header, first: Option<Option<&u8>>) {
        match self {
            Self::Client(ids) => ids.sends(header, first.is_some()),
            Self::Server(ids) => ids.sends(header, first.map(Option::<&u8>::copied)),
        }
    }

    /// These bytes of that packet, its header included, are sent next.
    pub(super) fn passes(&mut self, bytes: &[u8]) {
        if let Self::Server(ids) = self {
            ids.passes(bytes);
        }
    }

    /// Whole packets, and perhaps the beginning of one, with the ids that they have in frames;
    /// `None` if those are the ones that they have.
    pub(super) fn renumbered(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let Self::Server(ids) = self else { return None };
        let ahead = ids.ahead().filter(|_| !plain.is_empty())?;
        let (mut plain, mut at) = (plain.to_vec(), 0);
        while let Some(header) = plain.get(at..).and_then(Header::parse) {
            plain[at + HEADER_LEN - 1] = header.seq.wrapping_add(ahead);
            at += HEADER_LEN + header.len;
        }
        Some(plain)
    }

    /// The id of the next frame that is sent; `between`: no message that comes is cut here.
    pub(super) fn sends_frame(&mut self, between: bool) -> u8 {
        match self {
            Self::Client(ids) => ids.sends_frame(),
            Self::Server(ids) => ids.sends_frame(between),
        }
    }
}

impl Turns {
    /// A command begins; gives what its packets are.
    fn push(&mut self, code: Option<CommandCode>) -> Part {
        if code.is_some_and(|code| !code.has_reply()) {
            return Part::Silent;
        }
        self.alone |= self.waiting.is_empty();
        if self.waiting.len() == MAX_TURNS {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Turn { code, ..Turn::default() });
        Part::Command
    }

    /// The last command has one more frame, the one before `next`.
    fn frame(&mut self, next: u8) {
        if let Some(turn) = self.waiting.back_mut() {
            turn.frame = next;
            turn.frames = turn.frames.saturating_add(1);
        }
    }

    /// What the last command is, if that was not known when its first frame came.
    fn name(&mut self, code: Option<CommandCode>) {
        if let Some(turn) = self.waiting.back_mut() {
            turn.code = turn.code.or(code);
        }
    }

    /// The last command has one more packet, the one before `next`.
    fn packet(&mut self, next: u8) {
        if let Some(turn) = self.waiting.back_mut() {
            turn.packet = next;
        }
    }

    /// The command whose reply may begin with this frame. It is the first one, but for turns that
    /// were not seen to be taken.
    fn at(&self, seq: u8) -> Option<(usize, Turn)> {
        let found = self.waiting.iter().position(|turn| turn.may_begin_at(seq))?;
        Some((found, self.waiting[found]))
    }

    /// The reply to this command begins.
    fn take(&mut self, at: usize) {
        self.waiting.drain(..=at);
        self.waiting.shrink_to(FEW_TURNS);
    }
}

impl Turn {
    /// Whether a reply may begin with this frame: the one after the command's last, or an earlier
    /// one where a server refuses a command before it has read all of it.
    fn may_begin_at(&self, seq: u8) -> bool {
        seq == self.frame || seq != 0 && u32::from(seq) < self.frames
    }
}
