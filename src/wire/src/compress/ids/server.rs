//! The end that receives commands.

use super::{Part, Turns};
use crate::{
    Capabilities, CommandCode,
    compress::CompressError,
    packet::{HEADER_LEN, Header},
    reply::{ReplyScanner, Scan},
};

pub(crate) struct Server {
    /// The id that the next frame has when it goes on with the exchange at work.
    incoming_frame: u8,
    outgoing_frame: u8,
    /// The id of the next packet that comes.
    packet: u8,
    /// The id that the next packet that is sent has when it goes on with the reply at work.
    next: u8,
    receiving: Part,
    /// The message that was sent last may end a reply of several.
    ended: bool,
    /// A frame has come last, and not been sent.
    quiet: bool,
    turns: Turns,
    caps: Capabilities,
    /// Finds the results of the reply at work.
    results: Option<ReplyScanner>,
    /// The next message that is sent begins with a frame, and its ids at that one's.
    apart: bool,
    /// How much larger the ids of packets are in the frame at work than on a plain connection.
    ahead: u8,
}

impl Server {
    pub(super) fn new(caps: Capabilities) -> Self {
        Self {
            incoming_frame: 0,
            outgoing_frame: 0,
            packet: 0,
            next: 0,
            receiving: Part::Silent,
            ended: false,
            quiet: false,
            turns: Turns::default(),
            caps,
            results: None,
            apart: false,
            ahead: 0,
        }
    }

    pub(super) fn check(&self, got: u8, between: bool) -> Result<(), CompressError> {
        let expected = self.incoming_frame;
        if got == expected || got == 0 && between {
            return Ok(());
        }
        Err(CompressError::OutOfOrder { expected, got })
    }

    pub(super) fn receives_frame(&mut self, seq: u8, between: bool, plain: &[u8]) {
        if between {
            // A client's file may be so long that its frames come to 0 again.
            let goes_on = seq == self.incoming_frame && self.quiet;
            if seq == 0 && !(goes_on && self.receiving == Part::More) {
                self.receiving = self.turns.push(plain.get(HEADER_LEN).copied().map(CommandCode));
                self.packet = 0;
            } else {
                self.receiving = Part::More;
                self.packet = self.next;
            }
        }
        self.incoming_frame = seq.wrapping_add(1);
        match self.receiving {
            Part::Command => self.turns.frame(self.incoming_frame),
            Part::Silent => {}
            Part::More => {
                self.outgoing_frame = self.incoming_frame;
                self.apart = true;
            }
        }
        self.quiet = true;
    }

    pub(super) fn receives(&mut self, first: Option<CommandCode>) -> u8 {
        let id = self.packet;
        if self.receiving == Part::Command && id == 0 {
            self.turns.name(first);
        }
        self.packet = id.wrapping_add(1);
        match self.receiving {
            Part::Command => self.turns.packet(self.packet),
            Part::Silent => {}
            Part::More => self.next = self.packet,
        }
        id
    }

    /// The packets of a reply count on. One that does not begins the next reply; and where both
    /// would have the same id, the one behind an end does.
    pub(super) fn begins(&self, header: Header) -> bool {
        let Some(turn) = self.turns.waiting.front() else { return false };
        let may_begin = header.seq == turn.packet && (self.turns.alone || self.ended);
        header.seq != self.next || may_begin
    }

    pub(super) fn begin(&mut self) {
        if let Some(turn) = self.turns.waiting.front() {
            self.outgoing_frame = turn.frame;
            // A change of user is answered by a conversation.
            let code = turn.code.filter(|code| *code != CommandCode::CHANGE_USER);
            self.results = code.map(|code| ReplyScanner::new(code, self.caps));
            self.apart = true;
            self.turns.take(0);
        }
    }

    pub(super) fn stands_apart(&self) -> bool {
        self.apart
    }

    pub(super) fn sends(&mut self, header: Header, first: Option<Option<u8>>) {
        self.next = header.seq.wrapping_add(1);
        if let Some(first) = first {
            self.ended = matches!(first, Some(0xFE | 0xFF));
        }
        if std::mem::take(&mut self.apart) {
            self.ahead = self.outgoing_frame.wrapping_sub(header.seq);
        }
    }

    pub(super) fn passes(&mut self, bytes: &[u8]) {
        let Some(results) = &mut self.results else { return };
        match results.scan(bytes) {
            Ok(Scan::More | Scan::Upload { .. }) => self.apart |= results.at_next_result(),
            // Nothing of it is kept between two commands, nor of what is no reply.
            Ok(Scan::End { .. }) | Err(_) => self.results = None,
        }
    }

    pub(super) fn ahead(&self) -> Option<u8> {
        Some(self.ahead).filter(|ahead| *ahead > 0)
    }

    pub(super) fn sends_frame(&mut self, between: bool) -> u8 {
        let id = self.outgoing_frame;
        self.outgoing_frame = id.wrapping_add(1);
        if between {
            self.incoming_frame = self.outgoing_frame;
        }
        (self.quiet, self.turns.alone) = (false, false);
        id
    }
}
