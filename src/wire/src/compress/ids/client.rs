//! The end that sends commands.

use super::{Part, Turn, Turns};
use crate::{
    Capabilities, CommandCode,
    compress::CompressError,
    packet::Header,
    reply::{ReplyScanner, Scan},
};

pub(crate) struct Client {
    /// The id that the next frame has when it goes on with the exchange at work.
    incoming_frame: u8,
    outgoing_frame: u8,
    /// The id of the next packet that comes.
    packet: u8,
    /// The id that it has in its frame, if it counts on from the one before.
    counted: u8,
    sending: Part,
    /// The packet that was sent last, if no frame has come since.
    sent: Option<Header>,
    turns: Turns,
    caps: Capabilities,
    /// Finds the end of the reply at work: a query's.
    reply: Option<ReplyScanner>,
    /// That reply is over.
    over: bool,
}

impl Client {
    pub(super) fn new(caps: Capabilities) -> Self {
        Self {
            incoming_frame: 0,
            outgoing_frame: 0,
            packet: 0,
            counted: 0,
            sending: Part::More,
            sent: None,
            turns: Turns::default(),
            caps,
            reply: None,
            over: false,
        }
    }

    pub(super) fn check(&self, got: u8, between: bool) -> Result<(), CompressError> {
        let mut expected = self.incoming_frame;
        if between && got != expected {
            // 0 is what a server says unasked: why it closes.
            if got == 0 || self.turns.at(got).is_some() {
                return Ok(());
            }
            expected = self.turns.waiting.front().map_or(expected, |turn| turn.frame);
        }
        if got == expected { Ok(()) } else { Err(CompressError::OutOfOrder { expected, got }) }
    }

    pub(super) fn receives_frame(&mut self, seq: u8, between: bool, plain: &[u8]) {
        if between {
            self.begin_reply(seq, Header::parse(plain).map(|header| header.seq));
        }
        self.incoming_frame = seq.wrapping_add(1);
        (self.sent, self.turns.alone) = (None, false);
    }

    /// Finds out to which command a frame belongs that begins with a message, and with this packet.
    fn begin_reply(&mut self, seq: u8, first: Option<u8>) {
        let goes_on = seq == self.incoming_frame;
        match self.turns.at(seq) {
            Some((at, turn)) if !goes_on || self.is_next(seq, turn, first) => {
                self.packet = turn.packet;
                // Of the others few have several results.
                let query = turn.code.filter(|code| *code == CommandCode::QUERY);
                self.reply = query.map(|code| ReplyScanner::new(code, self.caps));
                self.over = false;
                self.turns.take(at);
            }
            _ if !goes_on => self.packet = first.unwrap_or(0),
            _ => {}
        }
    }

    /// Whether a frame whose id would go on with the reply at work begins the next command's. A
    /// reply may be so long, or have so many results, that its frames come to that command's turn.
    fn is_next(&self, seq: u8, turn: Turn, first: Option<u8>) -> bool {
        if self.turns.alone || self.over {
            return true;
        }
        if self.reply.is_some() {
            return false;
        }
        // Packets of the same result count on, those of a new reply begin anew at one of two ids.
        let begins = |id| id != self.counted && (id == seq || id == turn.packet);
        seq == turn.frame && first.is_some_and(begins)
    }

    /// Looks for the end of the reply at work.
    pub(super) fn has_received(&mut self, plain: &[u8]) {
        let Some(reply) = &mut self.reply else { return };
        match reply.scan(plain) {
            Ok(Scan::More | Scan::Upload { .. }) => {}
            Ok(Scan::End { .. }) => (self.reply, self.over) = (None, true),
            Err(_) => self.reply = None,
        }
    }

    pub(super) fn receives(&mut self, header: Header) -> u8 {
        self.counted = header.seq.wrapping_add(1);
        let id = self.packet;
        self.packet = id.wrapping_add(1);
        id
    }

    /// A command has id 0. So has, now and then, a packet of a client's file, which goes on without
    /// a word from the server; but the last one of a file is empty.
    pub(super) fn begins(&self, header: Header) -> bool {
        let goes_on = self.sent.is_some_and(|sent| sent.seq == u8::MAX && sent.len > 0);
        header.seq == 0 && !goes_on
    }

    pub(super) fn begin(&mut self, code: Option<CommandCode>) {
        self.outgoing_frame = 0;
        self.sending = self.turns.push(code);
        self.sent = None;
    }

    pub(super) fn sends(&mut self, header: Header, begins_message: bool) {
        if begins_message && !self.begins(header) {
            self.sending = Part::More;
            self.outgoing_frame = self.incoming_frame;
        }
        self.sent = Some(header);
        let next = header.seq.wrapping_add(1);
        match self.sending {
            Part::Command => self.turns.packet(next),
            Part::Silent => {}
            Part::More => self.packet = next,
        }
    }

    pub(super) fn sends_frame(&mut self) -> u8 {
        let id = self.outgoing_frame;
        self.outgoing_frame = id.wrapping_add(1);
        match self.sending {
            Part::Command => self.turns.frame(self.outgoing_frame),
            Part::Silent => {}
            Part::More => self.incoming_frame = self.outgoing_frame,
        }
        id
    }
}
