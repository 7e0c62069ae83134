//! One end of a connection, whatever it is made of.

mod compressed;

use crate::session::budget::Share;
use bytes::{Bytes, BytesMut};
use compressed::Compressed;
use futures_util::FutureExt;
use pin_project_lite::pin_project;
use socket2::SockRef;
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsStream;
use wire::{
    auth::Channel,
    compress::{End, Method},
};

pin_project! {
    /// A byte stream to a client or a server. An enum and not a trait object: reads and writes on
    /// the main path are direct calls.
    #[project = Projected]
    pub(crate) enum Stream {
        Tcp { #[pin] io: TcpStream },
        Unix { #[pin] io: UnixStream },
        // What was read too far comes first: a client may send its TLS hello behind the request.
        Ahead { ahead: Bytes, #[pin] io: Box<Stream> },
        // Nothing any more: what it was is being made into something else.
        Closed,
        // Boxed: rustls keeps about a kilobyte of state, and most streams have none.
        Tls { #[pin] io: Box<TlsStream<Stream>> },
        Compressed { #[pin] io: Box<Compressed> },
    }
}

impl Stream {
    /// Whether what is written here cannot be read on the way: TLS, or a unix socket.
    pub(crate) fn is_secure(&self) -> bool {
        self.channel().is_secure()
    }

    /// What it lets others see.
    pub(crate) fn channel(&self) -> Channel {
        match self {
            Self::Compressed { io } => io.below().channel(),
            Self::Unix { .. } => Channel::Socket,
            Self::Tls { .. } => Channel::Tls,
            Self::Tcp { .. } | Self::Ahead { .. } | Self::Closed => Channel::Open,
        }
    }

    /// The address of this end, of TCP without anything on top.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        let Self::Tcp { io } = self else { return None };
        let address = io.local_addr().ok()?;
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    /// The address of the other end, of TCP with whatever on top.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { io } => io.peer_addr().ok(),
            Self::Ahead { io, .. } => io.peer(),
            Self::Tls { io } => io.get_ref().0.peer(),
            Self::Compressed { io } => io.below().peer(),
            Self::Unix { .. } | Self::Closed => None,
        }
    }

    /// Whether it is a unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        match self {
            Self::Compressed { io } => io.below().is_unix(),
            _ => matches!(self, Self::Unix { .. }),
        }
    }

    /// Whether the other side has shown a certificate; if so, it was found good.
    pub(crate) fn peer_certificate(&self) -> bool {
        match self {
            Self::Compressed { io } => io.below().peer_certificate(),
            Self::Tls { io } => io.get_ref().1.peer_certificates().is_some(),
            _ => false,
        }
    }

    /// Goes on with compression, which begins behind a login: `ahead` are the frames that were read
    /// with its end.
    pub(crate) fn compress(&mut self, method: Method, end: End, ahead: BytesMut) {
        self.compress_within(method, end, ahead, None);
    }

    /// The same, where frames that wait take their memory out of `share`.
    pub(crate) fn compress_within(
        &mut self,
        method: Method,
        end: End,
        ahead: BytesMut,
        share: Option<Share>,
    ) {
        let below = std::mem::replace(self, Self::Closed);
        let made = Compressed::new(below, method, end, ahead, share);
        *self = Self::Compressed { io: Box::new(made) };
    }

    /// The same stream, with bytes put back that were read from it.
    pub(crate) fn put_back(self, ahead: Bytes) -> Self {
        if ahead.is_empty() { self } else { Self::Ahead { ahead, io: Box::new(self) } }
    }

    /// Ready when there may be something to read, or the peer has closed; cheaper than a read that
    /// finds nothing.
    pub(crate) fn poll_news(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tcp { io } => io.poll_read_ready(cx).map(drop),
            Self::Unix { io } => io.poll_read_ready(cx).map(drop),
            Self::Tls { io } => io.get_ref().0.poll_news(cx),
            _ => Poll::Ready(()),
        }
    }

    /// Whether there is something to read, or the peer has closed. Asks the system; reads nothing.
    pub(crate) fn has_news(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let peeked = match self {
            Self::Tcp { io } => SockRef::from(io).peek(&mut byte),
            Self::Unix { io } => SockRef::from(io).peek(&mut byte),
            Self::Tls { io } => return io.get_ref().0.has_news(),
            Self::Ahead { ahead, io } => return !ahead.is_empty() || io.has_news(),
            Self::Compressed { io } => return io.has_news(),
            Self::Closed => return true,
        };
        !matches!(peeked, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the peer has closed, as far as is known here: also with bytes before it that nobody
    /// has read. Asks nobody.
    pub(crate) fn has_closed(&self) -> bool {
        let ready = match self {
            Self::Tcp { io } => io.ready(Interest::READABLE).now_or_never(),
            Self::Unix { io } => io.ready(Interest::READABLE).now_or_never(),
            Self::Tls { io } => return io.get_ref().0.has_closed(),
            Self::Ahead { io, .. } => return io.has_closed(),
            Self::Compressed { io } => return io.below().has_closed(),
            Self::Closed => return true,
        };
        ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
    }
}

impl From<TcpStream> for Stream {
    fn from(io: TcpStream) -> Self {
        Self::Tcp { io }
    }
}

impl From<UnixStream> for Stream {
    fn from(io: UnixStream) -> Self {
        Self::Unix { io }
    }
}

impl From<TlsStream<Stream>> for Stream {
    fn from(io: TlsStream<Stream>) -> Self {
        Self::Tls { io: Box::new(io) }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.project() {
            Projected::Tcp { io } => io.poll_read(cx, buf),
            Projected::Unix { io } => io.poll_read(cx, buf),
            Projected::Tls { io } => closed_is_the_end(io.poll_read(cx, buf)),
            Projected::Compressed { io } => io.poll_read(cx, buf),
            Projected::Ahead { ahead, io } if ahead.is_empty() => io.poll_read(cx, buf),
            Projected::Ahead { ahead, .. } => {
                buf.put_slice(&ahead.split_to(ahead.len().min(buf.remaining())));
                Poll::Ready(Ok(()))
            }
            Projected::Closed => Poll::Ready(Ok(())),
        }
    }
}

/// A peer that closes without close_notify has closed: MySQL's servers and clients do so.
fn closed_is_the_end(read: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
    match read {
        Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
        read => read,
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.project() {
            Projected::Tcp { io } => io.poll_write(cx, buf),
            Projected::Unix { io } => io.poll_write(cx, buf),
            Projected::Tls { io } => io.poll_write(cx, buf),
            Projected::Ahead { io, .. } => io.poll_write(cx, buf),
            Projected::Compressed { io } => io.poll_write(cx, buf),
            Projected::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.project() {
            Projected::Tcp { io } => io.poll_write_vectored(cx, bufs),
            Projected::Unix { io } => io.poll_write_vectored(cx, bufs),
            Projected::Tls { io } => io.poll_write_vectored(cx, bufs),
            Projected::Ahead { io, .. } => io.poll_write_vectored(cx, bufs),
            Projected::Compressed { io } => io.poll_write_vectored(cx, bufs),
            Projected::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.project() {
            Projected::Tcp { io } => io.poll_flush(cx),
            Projected::Unix { io } => io.poll_flush(cx),
            Projected::Tls { io } => io.poll_flush(cx),
            Projected::Ahead { io, .. } => io.poll_flush(cx),
            Projected::Compressed { io } => io.poll_flush(cx),
            Projected::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.project() {
            Projected::Tcp { io } => io.poll_shutdown(cx),
            Projected::Unix { io } => io.poll_shutdown(cx),
            Projected::Tls { io } => io.poll_shutdown(cx),
            Projected::Ahead { io, .. } => io.poll_shutdown(cx),
            Projected::Compressed { io } => io.poll_shutdown(cx),
            Projected::Closed => Poll::Ready(Ok(())),
        }
    }
}
