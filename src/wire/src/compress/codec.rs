//! One connection's frames, both ways.

use super::{
    CompressError, Contexts, HEADER_LEN, Header, MAX_FRAME, MIN_COMPRESS, Method,
    packets::{Next, Walk},
};
use crate::{CommandCode, packet};
use bytes::{Buf, BytesMut};
use std::collections::VecDeque;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It sends commands, any number of them ahead of their replies.
    Client,
    /// It receives commands and answers each before it decodes the next.
    Server,
}

/// Makes frames of plain packets and plain packets of frames, from the first command on.
pub struct Codec {
    method: Method,
    end: End,
    /// The id that the next frame has when it goes on with the exchange at work.
    incoming_frame: u8,
    outgoing_frame: u8,
    /// The id of the next packet that is decoded.
    packet: u8,
    incoming: Walk,
    outgoing: Walk,
    sending: Sending,
    /// The packet that was sent last, if no frame has been decoded since.
    sent: Option<packet::Header>,
    /// Of the client's end: commands that were sent and whose replies have not begun.
    turns: VecDeque<Turn>,
    /// Nothing has come since the commands were sent that wait, so it is their turn.
    alone: bool,
}

/// What was sent last.
#[derive(Clone, Copy)]
enum Sending {
    /// A command, the last one in `turns`.
    Command,
    /// A command without a reply.
    Silent,
    /// Whatever goes on with an exchange: a reply, a client's file, a change of user.
    More,
}

/// The ids with which a command's reply begins.
#[derive(Default)]
struct Turn {
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

impl Codec {
    /// For a connection on which the login has just succeeded.
    #[must_use]
    pub fn new(method: Method, end: End) -> Self {
        Self {
            method,
            end,
            incoming_frame: 0,
            outgoing_frame: 0,
            packet: 0,
            incoming: Walk::default(),
            outgoing: Walk::default(),
            sending: Sending::More,
            sent: None,
            turns: VecDeque::new(),
            alone: false,
        }
    }

    /// Appends the frames of `plain`, which is cut anywhere: each of at most [`MAX_FRAME`] bytes,
    /// and from the client's end a new one for every command. Up to four bytes of a packet of which
    /// no more is known wait for the next call.
    pub fn encode(&mut self, contexts: &mut Contexts, plain: &[u8], out: &mut Vec<u8>) {
        let joined = self.outgoing.rejoin(plain);
        let plain = joined.as_deref().unwrap_or(plain);
        // A frame's worth of bytes from `from` to `at` has been looked at.
        let (mut from, mut at) = (0, 0);
        while at < plain.len() {
            let Some(next) = self.outgoing.next(&plain[at..]) else { break };
            if let Next::Packet(header, first) = next {
                if self.begins_command(header) {
                    self.put(contexts, &plain[from..at], out);
                    from = at;
                    self.begin_command(first.copied().map(CommandCode));
                } else if self.end == End::Client && self.outgoing.begins_message() {
                    self.sending = Sending::More;
                    self.outgoing_frame = self.incoming_frame;
                }
                self.enter(header);
            }
            at += self.outgoing.pass(plain.len() - at);
        }
        self.put(contexts, &plain[from..at], out);
        self.outgoing.hold(&plain[at..]);
    }

    /// Takes the next frame off `input` and gives its plain packets, which are cut anywhere; `None`
    /// if more bytes are needed. Up to four bytes of a packet of which no more is known wait for
    /// the next frame.
    ///
    /// # Errors
    ///
    /// A frame out of order, or one that is not what its header says. `input` is left in the middle
    /// of it, and the connection is beyond use.
    pub fn decode(
        &mut self,
        contexts: &mut Contexts,
        input: &mut BytesMut,
    ) -> Result<Option<Vec<u8>>, CompressError> {
        let Some(header) = Header::parse(input) else { return Ok(None) };
        self.check(header.seq)?;
        if input.len() < HEADER_LEN + header.len {
            return Ok(None);
        }
        input.advance(HEADER_LEN);
        let body = input.split_to(header.len);
        let plain = match header.plain_len {
            0 => body.to_vec(),
            len => contexts.uncompress(self.method, &body, len)?,
        };
        if self.incoming.is_between_messages() {
            self.begin_exchange(header.seq, &plain);
        }
        self.incoming_frame = header.seq.wrapping_add(1);
        if self.end == End::Server {
            self.outgoing_frame = self.incoming_frame;
        }
        (self.sent, self.alone) = (None, false);
        let mut plain = self.incoming.rejoin(&plain).unwrap_or(plain);
        self.renumber(&mut plain);
        Ok(Some(plain))
    }

    /// How many more bytes than those of `input` the frame at its front needs; 0 if it is whole.
    #[must_use]
    pub fn missing(input: &[u8]) -> usize {
        let whole = Header::parse(input).map_or(HEADER_LEN, |header| HEADER_LEN + header.len);
        whole.saturating_sub(input.len())
    }

    /// Whether the peer may close here without having left anything unfinished: every message that
    /// began in a decoded frame has ended.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.incoming.is_between_messages()
    }

    /// Whether a packet that is about to be sent begins a command. Id 0 says so, except where a
    /// client's file has come so far: its packets go on without a word from the server, and its
    /// last one is empty.
    fn begins_command(&self, header: packet::Header) -> bool {
        let goes_on = self.sent.is_some_and(|sent| sent.seq == u8::MAX && sent.len > 0);
        self.end == End::Client && self.outgoing.begins_message() && header.seq == 0 && !goes_on
    }

    fn begin_command(&mut self, code: Option<CommandCode>) {
        self.outgoing_frame = 0;
        if code.is_some_and(|code| !code.has_reply()) {
            self.sending = Sending::Silent;
            return;
        }
        self.sending = Sending::Command;
        self.alone |= self.turns.is_empty();
        if self.turns.len() == MAX_TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back(Turn::default());
    }

    /// Notes a packet that is about to be sent.
    fn enter(&mut self, header: packet::Header) {
        self.outgoing.enter(header);
        self.sent = Some(header);
        let next = header.seq.wrapping_add(1);
        match (self.sending, self.turns.back_mut()) {
            (Sending::Command, Some(turn)) => turn.packet = next,
            (Sending::More, _) => self.packet = next,
            _ => {}
        }
    }

    /// Appends frames of the exchange at work.
    fn put(&mut self, contexts: &mut Contexts, plain: &[u8], out: &mut Vec<u8>) {
        for plain in plain.chunks(MAX_FRAME) {
            let long = plain.len() >= MIN_COMPRESS;
            let compressed = long.then(|| contexts.compress(self.method, plain)).flatten();
            let plain_len = compressed.map_or(0, |_| plain.len());
            let body = compressed.unwrap_or(plain);
            let seq = self.outgoing_frame;
            out.extend(Header { len: body.len(), seq, plain_len }.to_bytes());
            out.extend_from_slice(body);
            self.outgoing_frame = seq.wrapping_add(1);
            match (self.sending, self.turns.back_mut()) {
                (Sending::Command, Some(turn)) => {
                    turn.frame = self.outgoing_frame;
                    turn.frames = turn.frames.saturating_add(1);
                }
                (Sending::More, _) => self.incoming_frame = self.outgoing_frame,
                _ => {}
            }
        }
    }

    /// Whether a frame may have this id: the next one, or the first of a command or of a reply.
    fn check(&self, got: u8) -> Result<(), CompressError> {
        let mut expected = self.incoming_frame;
        if self.incoming.is_between_messages() && got != expected {
            // From a server, 0 is what it says unasked: why it closes.
            if got == 0 || self.turn_at(got).is_some() {
                return Ok(());
            }
            expected = self.turns.front().map_or(expected, |turn| turn.frame);
        }
        if got == expected { Ok(()) } else { Err(CompressError::OutOfOrder { expected, got }) }
    }

    /// The command whose reply may begin with this frame. It is the first one, but for turns that
    /// were not seen to be taken.
    fn turn_at(&self, seq: u8) -> Option<usize> {
        self.turns.iter().position(|turn| turn.may_begin_at(seq))
    }

    /// Finds out to which exchange a frame belongs that begins with a message.
    fn begin_exchange(&mut self, seq: u8, plain: &[u8]) {
        let goes_on = seq == self.incoming_frame;
        if self.end == End::Server {
            // A client's file may be so long that its frames come to 0 again.
            if seq == 0 && !(goes_on && self.sent.is_none()) {
                self.packet = 0;
            }
            return;
        }
        let first = packet::Header::parse(plain).map(|header| header.seq);
        let turn = self.turn_at(seq).map(|at| (at, &self.turns[at]));
        // A reply may be so long that its frames come to a waiting command's turn. Then its packets
        // count on, where those of a new one begin anew, at one of two ids.
        let anew = |turn: &Turn| {
            first.is_some_and(|id| id != self.packet && (id == seq || id == turn.packet))
        };
        match turn {
            Some((at, turn)) if !goes_on || self.alone || anew(turn) => {
                self.packet = turn.packet;
                self.turns.drain(..=at);
                self.turns.shrink_to(FEW_TURNS);
            }
            _ if !goes_on => self.packet = first.unwrap_or(0),
            _ => {}
        }
    }

    /// Gives the packets in a decoded piece the ids that they have on a plain connection, and holds
    /// the beginning back of one whose header is cut.
    fn renumber(&mut self, plain: &mut Vec<u8>) {
        let mut at = 0;
        while at < plain.len() {
            let Some(next) = self.incoming.next(&plain[at..]) else { break };
            if let Next::Packet(header, _) = next {
                self.incoming.enter(header);
                plain[at + packet::HEADER_LEN - 1] = self.packet;
                self.packet = self.packet.wrapping_add(1);
            }
            at += self.incoming.pass(plain.len() - at);
        }
        self.incoming.hold(&plain[at..]);
        plain.truncate(at);
    }
}

impl Turn {
    /// Whether a reply may begin with this frame: the one after the command's last, or an earlier
    /// one where a server refuses a command before it has read all of it.
    fn may_begin_at(&self, seq: u8) -> bool {
        seq == self.frame || seq != 0 && u32::from(seq) < self.frames
    }
}
