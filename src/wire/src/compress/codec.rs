//! One connection's frames, both ways.

use super::{
    CompressError, Contexts, HEADER_LEN, Header, MAX_FRAME, MIN_COMPRESS, Method,
    ids::Ids,
    packets::{Next, Walk},
};
use crate::packet;
use bytes::{Buf, BytesMut};

/// Which end of the connection this is. Either may go ahead: commands may be sent, and received,
/// before the replies to those ahead of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It sends commands.
    Client,
    /// It receives commands.
    Server,
}

/// Makes frames of plain packets and plain packets of frames, from the first command on.
pub struct Codec {
    method: Method,
    incoming: Walk,
    outgoing: Walk,
    ids: Ids,
}

impl Codec {
    /// For a connection on which the login has just succeeded.
    #[must_use]
    pub fn new(method: Method, end: End) -> Self {
        let (incoming, outgoing) = (Walk::default(), Walk::default());
        Self { method, incoming, outgoing, ids: Ids::new(end) }
    }

    /// Appends the frames of `plain`, which is cut anywhere: each of at most [`MAX_FRAME`] bytes,
    /// and a new one for every command or reply. Up to four bytes of a packet of which no more is
    /// known wait for the next call.
    pub fn encode(&mut self, contexts: &mut Contexts, plain: &[u8], out: &mut Vec<u8>) {
        let joined = self.outgoing.rejoin(plain);
        let plain = joined.as_deref().unwrap_or(plain);
        // A frame's worth of bytes from `from` to `at` has been looked at.
        let (mut from, mut at) = (0, 0);
        while at < plain.len() {
            let Some(next) = self.outgoing.next(&plain[at..]) else { break };
            if let Next::Packet(header, first) = next {
                let first = self.outgoing.begins_message().then_some(first);
                if first.is_some() && self.ids.begins(header) {
                    self.put(contexts, &plain[from..at], out);
                    from = at;
                    self.ids.begin(first.flatten());
                }
                self.ids.sends(header, first);
                self.outgoing.enter(header);
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
        let between = self.incoming.is_between_messages();
        self.ids.check(header.seq, between)?;
        if input.len() < HEADER_LEN + header.len {
            return Ok(None);
        }
        input.advance(HEADER_LEN);
        let body = input.split_to(header.len);
        let plain = match header.plain_len {
            0 => body.to_vec(),
            len => contexts.uncompress(self.method, &body, len)?,
        };
        self.ids.receives_frame(header.seq, between, &plain);
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

    /// Appends frames of the exchange at work.
    fn put(&mut self, contexts: &mut Contexts, plain: &[u8], out: &mut Vec<u8>) {
        for plain in plain.chunks(MAX_FRAME) {
            let long = plain.len() >= MIN_COMPRESS;
            let compressed = long.then(|| contexts.compress(self.method, plain)).flatten();
            let plain_len = compressed.map_or(0, |_| plain.len());
            let body = compressed.unwrap_or(plain);
            let seq = self.ids.sends_frame(self.incoming.is_between_messages());
            out.extend(Header { len: body.len(), seq, plain_len }.to_bytes());
            out.extend_from_slice(body);
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
                plain[at + packet::HEADER_LEN - 1] = self.ids.receives();
            }
            at += self.incoming.pass(plain.len() - at);
        }
        self.incoming.hold(&plain[at..]);
        plain.truncate(at);
    }
}
