//! One connection's frames, both ways.

use super::{
    CompressError, Contexts, Header, MAX_FRAME, MIN_COMPRESS, Method, WHOLE,
    ids::Ids,
    packets::{Next, Walk},
    rest::Rest,
};
use crate::{Capabilities, packet::HEADER_LEN};
use bytes::{Buf, BytesMut};

/// Which end of the connection this is. Either may go ahead: commands may be sent, and received,
/// before the replies to those ahead of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It sends commands. The replies have the form of a connection with these capabilities.
    Client(Capabilities),
    /// It receives commands, and the replies have that form.
    Server(Capabilities),
}

/// Makes frames of plain packets and plain packets of frames, from the first command on.
pub struct Codec {
    method: Method,
    /// Frames end where packets end: see [`WHOLE`].
    whole: bool,
    incoming: Walk,
    outgoing: Walk,
    /// The second frame of a packet that takes two, if it is at work.
    rest: Option<Rest>,
    ids: Ids,
}

impl Codec {
    /// For a connection on which the login has just succeeded.
    #[must_use]
    pub fn new(method: Method, end: End) -> Self {
        let (incoming, outgoing) = (Walk::default(), Walk::default());
        let whole = matches!(end, End::Server(_));
        Self { method, whole, incoming, outgoing, rest: None, ids: Ids::new(end) }
    }

    /// Appends the frames of `plain`, which is cut anywhere: each of at most [`MAX_FRAME`] bytes,
    /// and a new one for every command or reply.
    ///
    /// Up to four bytes of a packet of which no more is known wait for the next call; at a server's
    /// end up to [`WHOLE`] bytes, and the second frame of a packet that takes two waits for all of
    /// it, unless the beginning of the packet does not compress.
    ///
    /// # Errors
    ///
    /// [`CompressError::Failed`]; the connection is beyond use.
    pub fn encode(
        &mut self,
        contexts: &mut Contexts,
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CompressError> {
        self.encode_within(contexts, plain, out, |_| true)
    }

    /// [`Codec::encode`], where memory is not to be had for the asking: `room` is asked for so many
    /// bytes before a second frame of a packet waits for all of it. Where there is none that frame
    /// is stored. The room is needed until [`Codec::is_waiting`] says no and the frame has gone out.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn encode_within(
        &mut self,
        contexts: &mut Contexts,
        plain: &[u8],
        out: &mut Vec<u8>,
        mut room: impl FnMut(usize) -> bool,
    ) -> Result<(), CompressError> {
        let joined = self.outgoing.rejoin(plain);
        let plain = joined.as_deref().unwrap_or(plain);
        // A frame's worth of bytes from `from` to `at` has been looked at.
        let (mut from, mut at) = (0, 0);
        while at < plain.len() {
            let available = plain.len() - at;
            let Some(next) = self.outgoing.next(&plain[at..]) else { break };
            if let Next::Packet(header, first) = next {
                let len = HEADER_LEN + header.len;
                if self.whole && available < len.min(WHOLE) {
                    break;
                }
                let first = self.outgoing.begins_message().then_some(first);
                let begins = first.is_some() && self.ids.begins(header);
                if begins || self.whole && (at - from + len > WHOLE || self.ids.stand_apart()) {
                    self.put(contexts, &plain[from..at], out);
                    from = at;
                }
                if begins {
                    self.ids.begin(first.flatten());
                }
                self.ids.sends(header, first);
                self.outgoing.enter(header);
                if self.whole && len > WHOLE {
                    let head = &plain[at..at + self.outgoing.pass(WHOLE)];
                    self.ids.passes(head);
                    let compresses = self.put(contexts, head, out) && room(len - WHOLE);
                    self.rest = Some(self.begin_rest(contexts, len - WHOLE, compresses, out)?);
                    at += head.len();
                    from = at;
                    continue;
                }
            }
            let piece = &plain[at..at + self.outgoing.pass(available)];
            self.ids.passes(piece);
            at += piece.len();
            if let Some(rest) = &mut self.rest {
                if rest.add(contexts, piece, out)? {
                    self.rest = None;
                }
                from = at;
            }
        }
        self.put(contexts, &plain[from..at], out);
        match joined {
            Some(joined) => self.outgoing.hold_rest(joined, at),
            None => self.outgoing.hold(&plain[at..]),
        }
        Ok(())
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
        let between = self.incoming.is_between_messages();
        self.ids.check(header.seq, between)?;
        if input.len() < super::HEADER_LEN + header.len {
            return Ok(None);
        }
        input.advance(super::HEADER_LEN);
        let body = input.split_to(header.len);
        let plain = match header.plain_len {
            0 => body.to_vec(),
            len => contexts.uncompress(self.method, &body, len)?,
        };
        self.ids.receives_frame(header.seq, between, &plain);
        let mut plain = self.incoming.rejoin(&plain).unwrap_or(plain);
        self.renumber(&mut plain);
        self.ids.has_received(&plain);
        Ok(Some(plain))
    }

    /// Whether a frame waits for more of what is in it.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.rest.as_ref().is_some_and(Rest::is_waiting)
    }

    /// How many more bytes than those of `input` the frame at its front needs; 0 if it is whole.
    #[must_use]
    pub fn missing(input: &[u8]) -> usize {
        let whole =
            Header::parse(input).map_or(super::HEADER_LEN, |header| super::HEADER_LEN + header.len);
        whole.saturating_sub(input.len())
    }

    /// Whether the peer may close here without having left anything unfinished: every message that
    /// began in a decoded frame has ended.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.incoming.is_between_messages()
    }

    /// Appends frames of the exchange at work; `plain` begins with a packet, at a server's end.
    /// Whether the last one has become shorter.
    fn put(&mut self, contexts: &mut Contexts, plain: &[u8], out: &mut Vec<u8>) -> bool {
        let renumbered = self.ids.renumbered(plain);
        let mut shorter = false;
        for plain in renumbered.as_deref().unwrap_or(plain).chunks(MAX_FRAME) {
            let long = plain.len() >= MIN_COMPRESS;
            let compressed = long.then(|| contexts.compress(self.method, plain)).flatten();
            shorter = compressed.is_some();
            let plain_len = compressed.map_or(0, |_| plain.len());
            let body = compressed.unwrap_or(plain);
            let seq = self.ids.sends_frame(self.incoming.is_between_messages());
            out.extend(Header { len: body.len(), seq, plain_len }.to_bytes());
            out.extend_from_slice(body);
        }
        shorter
    }

    /// Begins the second frame of a packet, of `len` bytes.
    fn begin_rest(
        &mut self,
        contexts: &mut Contexts,
        len: usize,
        compresses: bool,
        out: &mut Vec<u8>,
    ) -> Result<Rest, CompressError> {
        let seq = self.ids.sends_frame(self.incoming.is_between_messages());
        if compresses && len >= MIN_COMPRESS {
            Ok(Rest::compressed(contexts.lend(self.method, len)?, seq, len))
        } else {
            Ok(Rest::stored(seq, len, out))
        }
    }

    /// Gives the packets in a decoded piece the ids that they have on a plain connection, and holds
    /// the beginning back of one whose header is cut.
    fn renumber(&mut self, plain: &mut Vec<u8>) {
        let mut at = 0;
        while at < plain.len() {
            let Some(next) = self.incoming.next(&plain[at..]) else { break };
            if let Next::Packet(header, first) = next {
                let id = self.ids.receives(header, first.copied());
                self.incoming.enter(header);
                plain[at + HEADER_LEN - 1] = id;
            }
            at += self.incoming.pass(plain.len() - at);
        }
        self.incoming.hold(&plain[at..]);
        plain.truncate(at);
    }
}
