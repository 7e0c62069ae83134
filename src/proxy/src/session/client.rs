//! The client's connection: messages in, packets out, and its end.

use super::{
    Context,
    budget::{Budget, Share},
};
use crate::{buffer, live::Live, stream::Stream};
use bytes::{Bytes, BytesMut};
use chain::{Error, Session};
use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::io::AsyncWriteExt;
use wire::{
    err::ErrPacket,
    packet::{Message, missing, put_packet, take_message},
};

/// The client's connection, and what has been read from it.
pub(crate) struct Client {
    pub(crate) io: Stream,
    /// Read ahead of the command at work: pipelined commands wait here, in order.
    pub(crate) read: BytesMut,
    /// The TCP address that it connected to.
    pub(crate) destination: Option<SocketAddr>,
    /// The client says nothing more: what it has said is in `read`.
    pub(super) closed: bool,
    /// What others see of its session, once it is logged in.
    pub(crate) live: Option<Arc<Live>>,
    /// Bytes of the reply under way that have gone out.
    pub(super) sent: u64,
    /// What the command at work takes of the memory for large ones.
    pub(super) share: Share,
}

/// How long, and for how many bytes, a connection that is closed waits for its client to close too.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES: usize = 1 << 20;

impl Client {
    /// A client that has said nothing yet.
    pub(crate) fn new(io: Stream, budget: &Budget) -> Self {
        let (read, share) = (BytesMut::new(), budget.share());
        Self { destination: io.local(), io, read, closed: false, live: None, sent: 0, share }
    }

    /// Tells others who it is and where its session is.
    pub(super) fn describe(&self, session: &Session, context: &Context) {
        if let Some(live) = &self.live {
            live.describe(session, context.shared.chain.name());
        }
    }

    /// Tells others that a command begins.
    pub(super) fn begins(&self, now: Instant) {
        if let Some(live) = &self.live {
            live.begins(now);
        }
    }

    /// Tells others that the command is over.
    pub(super) fn rests(&self) {
        if let Some(live) = &self.live {
            live.rests(Instant::now());
        }
    }

    /// The next message; `None` if the client has closed between two messages. Cancelling it loses
    /// nothing.
    pub(crate) async fn message(&mut self, limit: usize) -> Result<Option<Message>, Error> {
        // The command before has been answered.
        self.share.give_back();
        loop {
            if let Some(message) = take_message(&mut self.read, limit).map_err(Error::client)? {
                if self.read.is_empty() {
                    // An idle session holds no buffer.
                    self.read = BytesMut::new();
                }
                return Ok(Some(message));
            }
            let missing = missing(&self.read).min(1 << 20);
            self.share.cover(self.read.len() + missing).map_err(Error::client)?;
            if missing > buffer::BUFFER {
                self.read.reserve(missing);
            }
            if self.fill().await? == 0 {
                return match self.read.is_empty() {
                    true => Ok(None),
                    false => Err(Error::client("the client closed in the middle of a packet")),
                };
            }
        }
    }

    /// Reads once; 0 is the end of the stream.
    pub(super) async fn fill(&mut self) -> Result<usize, Error> {
        buffer::append(&mut self.io, &mut self.read).await.map_err(Error::client)
    }

    /// Sends one message from sequence id `sequence` on; returns the one that comes next.
    pub(crate) async fn send(&mut self, sequence: u8, payload: &[u8]) -> Result<u8, Error> {
        let mut packets = BytesMut::with_capacity(payload.len() + 8);
        let next = put_packet(&mut packets, sequence, payload);
        self.write(packets.freeze()).await?;
        Ok(next)
    }

    /// Refuses a client before its login.
    pub(crate) async fn turn_away(&mut self, refusal: &ErrPacket) {
        let mut payload = BytesMut::new();
        refusal.encode_before_login(&mut payload);
        // That it may not hear it changes nothing.
        let _ = self.send(0, &payload).await;
        self.close().await;
    }

    /// Closes the connection so that what was sent last arrives: a socket that is closed with bytes
    /// unread takes back what its peer has not read.
    pub(crate) async fn close(&mut self) {
        let linger = async {
            self.io.shutdown().await?;
            let mut left = LINGER_BYTES;
            while left > 0 {
                self.read.clear();
                match buffer::append(&mut self.io, &mut self.read).await? {
                    0 => break,
                    read => left = left.saturating_sub(read),
                }
            }
            io::Result::Ok(())
        };
        // It is closed in any event.
        let _ = tokio::time::timeout(LINGER, linger).await;
    }

    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        let mut frames = buffer::Frames::from_elem(bytes, 1);
        buffer::write_frames(&mut self.io, &mut frames).await.map_err(Error::client)
    }
}
