//! A stream that is compressed frames below and plain packets above.

use super::Stream;
use crate::buffer;
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
}

impl Compressed {
    pub(super) fn new(below: Stream, method: Method, end: End, frames: BytesMut) -> Self {
        let codec = Codec::new(method, end);
        Self { below, codec, frames, plain: Vec::new(), given: 0, out: Vec::new(), gone: 0 }
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
        Poll::Ready(Ok(()))
    }

    /// Takes bytes once those before have gone out.
    fn poll_take(&mut self, cx: &mut Context<'_>, plain: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(cx))?;
        let plain = &plain[..plain.len().min(CHUNK)];
        let Self { codec, out, .. } = self;
        CONTEXTS.with_borrow_mut(|contexts| codec.encode(contexts, plain, out));
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
