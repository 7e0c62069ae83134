//! A stream that is compressed frames below and plain packets above.

use super::Stream;
use crate::{buffer, session::budget::Share};
use bytes::BytesMut;
use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::compress::{Codec, Contexts, End, Method};

/// The most bytes of plain packets that one frame takes: what is buffered towards a peer that does
/// not read, and how long a worker thread compresses without a pause.
const CHUNK: usize = 128 * 1024;

thread_local! {
    /// An idle connection needs none of its own.
    static CONTEXTS: RefCell<Contexts> = RefCell::new(Contexts::new());
}

/// Buffers are there only while something is in them.
pub(crate) struct Compressed {
    below: Stream,
    codec: Codec,
    /// Frames that have been read and not been decoded.
    frames: BytesMut,
    /// What has been decoded; up to `given`, it has been read from above.
    plain: Vec<u8>,
    given: usize,
    /// Frames on their way out; up to `gone`, they are below.
    out: Vec<u8>,
    gone: usize,
    /// What a frame takes that waits for the rest of its packet.
    share: Option<Share>,
}

impl Compressed {
    pub(super) fn new(
        below: Stream,
        method: Method,
        end: End,
        frames: BytesMut,
        share: Option<Share>,
    ) -> Self {
        let codec = Codec::new(method, end);
        let (plain, out) = (Vec::new(), Vec::new());
        Self { below, codec, frames, plain, given: 0, out, gone: 0, share }
    }

    pub(super) fn below(&self) -> &Stream {
        &self.below
    }

    pub(super) fn has_news(&self) -> bool {
        !self.plain.is_empty() || !self.frames.is_empty() || self.below.has_news()
    }

    /// Has something in `plain`, or the stream has ended. Decodes no frame before the one ahead of
    /// it has been read: a client's next command begins when the reply to the last one has gone out.
    fn poll_plain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.plain.is_empty() {
            let Self { codec, frames, .. } = self;
            let decoded = CONTEXTS.with_borrow_mut(|contexts| codec.decode(contexts, frames));
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            if let Some(plain) = decoded.map_err(invalid)? {
                self.plain = plain;
                if self.frames.is_empty() {
                    self.frames = BytesMut::new();
                }
                continue;
            }
            let missing = Codec::missing(&self.frames);
            if missing > buffer::BUFFER {
                self.frames.reserve(missing);
            }
            if ready!(buffer::poll_append(&mut self.below, cx, &mut self.frames))? == 0 {
                let cut = !self.frames.is_empty() || !self.codec.is_between_messages();
                return Poll::Ready(match cut {
                    true => Err(io::ErrorKind::UnexpectedEof.into()),
                    false => Ok(()),
                });
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Hands down what is on its way out.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.out.get(self.gone..) {
            match ready!(Pin::new(&mut self.below).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.gone += written,
            }
        }
        (self.out, self.gone) = (Vec::new(), 0);
        if !self.codec.is_waiting() {
            self.share.iter_mut().for_each(Share::give_back);
        }
        Poll::Ready(Ok(()))
    }

    /// Takes bytes once those before have gone out.
    fn poll_take(&mut self, cx: &mut Context<'_>, plain: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(cx))?;
        let plain = &plain[..plain.len().min(CHUNK)];
        let Self { codec, out, share, .. } = self;
        let room = |bytes| share.as_mut().is_none_or(|share| share.cover(bytes).is_ok());
        let encoded =
            CONTEXTS.with_borrow_mut(|contexts| codec.encode_within(contexts, plain, out, room));
        encoded.map_err(io::Error::other)?;
        match self.poll_drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // They are taken: the next write, or the flush, waits for the rest.
            _ => Poll::Ready(Ok(plain.len())),
        }
    }
}

impl AsyncRead for Compressed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_plain(cx))?;
        let rest = &self.plain[self.given..];
        let taken = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..taken]);
        self.given += taken;
        if self.given == self.plain.len() {
            (self.plain, self.given) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Compressed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_take(cx, buf)
    }

    /// One frame for all slices, as far as they fit.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(cx))?;
        let mut gathered = Vec::new();
        for slice in bufs {
            let room = CHUNK - gathered.len();
            gathered.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        self.poll_take(cx, &gathered)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.below).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.below).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::budget::Budget;
    use bytes::Bytes;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
    };
    use wire::{
        Capabilities,
        packet::{Message, put_packet, take_message},
    };

    fn pair() -> (Stream, Stream) {
        let (client, server) = UnixStream::pair().expect("a pair of sockets");
        let (mut client, mut server) = (Stream::from(client), Stream::from(server));
        client.compress(Method::ZLIB, End::Client(Capabilities::EMPTY), BytesMut::new());
        server.compress(Method::ZLIB, End::Server(Capabilities::EMPTY), BytesMut::new());
        (client, server)
    }

    fn inner(stream: &Stream) -> &Compressed {
        match stream {
            Stream::Compressed { io } => io,
            _ => panic!("not compressed"),
        }
    }

    async fn message(io: &mut Stream) -> Message {
        let mut read = BytesMut::new();
        loop {
            if let Some(message) = take_message(&mut read, 1 << 30).expect("packets") {
                assert!(read.is_empty());
                return message;
            }
            assert_ne!(buffer::append(io, &mut read).await.expect("frames"), 0);
        }
    }

    /// Bytes that do not compress.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[tokio::test]
    async fn nothing_is_kept_when_nothing_happens() {
        let (mut client, mut server) = pair();
        for len in [10, 100_000, 3_000_000] {
            let mut packets = BytesMut::new();
            put_packet(&mut packets, 0, &noise(len));
            let (sent, got) = tokio::join!(
                async {
                    client.write_all(&packets).await?;
                    client.flush().await
                },
                message(&mut server)
            );
            sent.expect("it goes out");
            assert!(got.framed == packets);
        }
        let (client, server) = (inner(&client), inner(&server));
        assert_eq!((client.out.capacity(), client.plain.capacity()), (0, 0));
        assert_eq!((server.frames.capacity(), server.plain.capacity()), (0, 0));
    }

    /// A peer that does not read holds the writer up, with one frame in memory.
    #[tokio::test]
    async fn a_peer_that_does_not_read() {
        let (mut client, mut server) = pair();
        let mut packets = BytesMut::new();
        put_packet(&mut packets, 0, &noise(8 << 20));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut rest = &packets[..];
        while let Poll::Ready(written) = Pin::new(&mut client).poll_write(&mut cx, rest) {
            rest = &rest[written.expect("the peer is there")..];
            assert!(!rest.is_empty(), "a socket of 8 MiB");
        }
        assert!(inner(&client).out.capacity() <= 2 * CHUNK);
        assert!(Pin::new(&mut client).poll_flush(&mut cx).is_pending());
        let (sent, got) = tokio::join!(
            async {
                client.write_all(rest).await?;
                client.flush().await
            },
            message(&mut server)
        );
        sent.expect("it goes out");
        assert!(got.framed == packets);
    }

    /// A frame that waits for the rest of its packet takes its memory out of the budget; where that
    /// is used up none waits.
    #[tokio::test]
    async fn what_waits_is_paid_for() {
        let text: Vec<u8> = b"towpath, ".iter().copied().cycle().take(3 << 20).collect();
        let packet = Message::new(1, &text).framed;
        for used_up in [false, true] {
            let (below, peer) = UnixStream::pair().expect("a pair of sockets");
            let (mut server, mut client) = (Stream::from(below), Stream::from(peer));
            let budget = Budget::new(4 << 20);
            let mut others = budget.share();
            if used_up {
                others.cover(2 << 20).expect("there is room");
            }
            let caps = Capabilities::EMPTY;
            let share = Some(budget.share());
            server.compress_within(Method::ZLIB, End::Server(caps), BytesMut::new(), share);
            client.compress(Method::ZLIB, End::Client(caps), BytesMut::new());
            let query = Message::new(0, b"\x03SELECT 1").framed;
            client.write_all(&query).await.expect("it is taken");
            assert_eq!(message(&mut server).await.framed, query);
            let (head, rest) = packet.split_at(2 << 20);
            let mut probe = budget.share();
            let send = async {
                server.write_all(head).await.expect("it is taken");
                server.flush().await.expect("it is taken");
                drop(others);
                assert_eq!(probe.cover(3 << 20).is_err(), !used_up);
                probe.give_back();
                server.write_all(rest).await.expect("it is taken");
                server.flush().await.expect("it is taken");
            };
            let ((), got) = tokio::join!(send, message(&mut client));
            assert!(got.framed == packet);
            probe.cover(4 << 20).expect("all of it is given back");
        }
    }

    /// What was written goes out before the end; the end is one, and in the middle it is an error.
    #[tokio::test]
    async fn the_end() {
        for (cut, clean) in [(0, true), (3, false)] {
            let (mut client, mut server) = pair();
            let command = Message::new(0, b"\x03DO 1").framed;
            client.write_all(&command).await.expect("it is taken");
            client.write_all(&command[..cut * 2]).await.expect("it is taken");
            client.shutdown().await.expect("it ends");
            assert!(server.has_news());
            let mut read = Vec::new();
            let ended = server.read_to_end(&mut read).await;
            assert_eq!(ended.is_ok(), clean, "{cut}");
            assert!(read.starts_with(&command));
        }
    }

    /// A frame that has come with the one before is news, although the socket has none.
    #[tokio::test]
    async fn news() {
        let (mut client, mut server) = pair();
        assert!(!server.has_news());
        let command = Message::new(0, b"\x03DO 1").framed;
        let two: Bytes = [&command[..], &command].concat().into();
        client.write_all(&two).await.expect("it is taken");
        for _ in 0..2 {
            assert!(server.has_news());
            assert_eq!(message(&mut server).await.framed, command);
        }
        assert!(!server.has_news());
        client.write_all(&command).await.expect("it is taken");
        assert!(server.has_news());
    }

    /// What was read with the end of the login is the first frame.
    #[tokio::test]
    async fn frames_behind_the_login() {
        let (below, _peer) = UnixStream::pair().expect("a pair of sockets");
        let mut server = Stream::from(below);
        let ahead = BytesMut::from(&b"\x05\0\0\0\0\0\0\x01\0\0\0\x0E"[..]);
        server.compress(Method::ZSTD, End::Server(Capabilities::EMPTY), ahead);
        assert!(server.has_news());
        assert_eq!(message(&mut server).await, Message::new(0, b"\x0E"));
    }
}
