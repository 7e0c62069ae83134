//! A reply on its way to the client: frames of whole packets, then an end that means something.

use crate::{
    error::{Error, Result},
    reply::Answer,
};
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use pin_project_lite::pin_project;
use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::sync::mpsc;
use wire::{session_state::Tracker, status::Status};

/// A piece of a streaming reply.
#[derive(Debug)]
pub enum Frame {
    /// A run of whole packets, or of parts of them, as they came off the wire. Rows are not
    /// decoded.
    Packets(Bytes),
    /// The server wants a file from the client (`LOAD DATA LOCAL`): pass the request on, then the
    /// client's packets into it, then go on reading frames.
    Upload(Upload),
    /// The last frame; nothing follows.
    End(End),
}

/// How a reply ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The terminating packet, header included, as it came off the wire: OK, EOF, ERR, or the text
    /// of COM_STATISTICS. Empty where a reply ends without one (COM_STMT_PREPARE, no reply at all).
    pub packet: Bytes,
    /// Server status flags; `None` where no packet of the reply has any. Behind an ERR that ends a text
    /// of several statements, those of the last result before it.
    pub status: Option<Status>,
    /// The error code, if the server answered `ERR`.
    pub error: Option<u16>,
    /// Whether an OK packet of the reply says that session state has changed.
    pub tracked: bool,
    /// The session-state blocks of all OK packets of the reply, one after the other, undecoded.
    /// Empty although `tracked` if there were too many to keep.
    pub session_state: Bytes,
}

/// The way for a client's file to a server that has asked for it.
pub struct Upload {
    /// The request packet, header included (0xFB and the file's name).
    pub request: Bytes,
    /// Takes the client's packets, headers included, in runs of any length, up to and including
    /// the empty packet that ends the file. Closed early, it breaks the connection to the server.
    pub data: mpsc::Sender<Bytes>,
}

/// How a reply's journey ended, as seen by [`Body::on_end`].
#[derive(Debug)]
pub enum Ending<'a> {
    /// The last frame passed.
    Done(&'a End),
    /// The stream broke.
    Failed(&'a Error),
    /// Somebody stopped listening.
    Abandoned,
}

/// A reply on its way to the client.
#[must_use = "a dropped body abandons its backend connection"]
pub struct Body(Kind);

enum Kind {
    /// A reply that is already here: no allocation, however many layers pass it on.
    Whole(Option<Bytes>, Option<End>),
    Stream(Pin<Box<dyn Stream<Item = Result<Frame>> + Send>>),
}

impl Body {
    /// A reply that is only its end.
    pub fn end(end: End) -> Self {
        Self(Kind::Whole(None, Some(end)))
    }

    /// A reply that is already here in full.
    pub fn whole(packets: impl Into<Bytes>, end: End) -> Self {
        let packets = packets.into();
        Self(Kind::Whole((!packets.is_empty()).then_some(packets), Some(end)))
    }

    /// A reply that is still arriving. The stream must finish with [`Frame::End`].
    pub fn stream(stream: impl Stream<Item = Result<Frame>> + Send + 'static) -> Self {
        Self(Kind::Stream(Box::pin(stream)))
    }

    /// Looks at, or changes, every frame as it passes.
    pub fn map(self, map: impl FnMut(Frame) -> Frame + Send + 'static) -> Self {
        Self::stream(Mapped { inner: self, map })
    }

    /// Runs `act` once, when the reply is done, broken or abandoned.
    pub fn on_end(self, act: impl FnOnce(Ending<'_>) + Send + 'static) -> Self {
        Self::stream(Watched { inner: self, act: Some(act) })
    }

    /// Keeps `guard` alive for as long as the reply is: a permit, a span, a loan.
    pub fn hold(self, guard: impl Send + 'static) -> Self {
        self.on_end(move |_| drop(guard))
    }

    /// The next frame.
    pub async fn frame(&mut self) -> Option<Result<Frame>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Reads to the end. For replies known to be small: beyond `limit` bytes it is an error, and
    /// the rest is abandoned.
    pub async fn collect(mut self, limit: usize) -> Result<Answer> {
        let mut packets = BytesMut::new();
        while let Some(frame) = self.frame().await {
            match frame? {
                Frame::Packets(run) if packets.len() + run.len() > limit => {
                    return Err(Error::filter(format!("a reply of more than {limit} bytes")));
                }
                Frame::Packets(run) => packets.extend_from_slice(&run),
                Frame::Upload(_) => {
                    return Err(Error::filter("a command of the proxy's own asks for a file"));
                }
                Frame::End(end) => return Ok(Answer { packets: packets.freeze(), end }),
            }
        }
        Err(Error::backend("the reply stopped before its end"))
    }
}

impl End {
    /// What has changed in the session, as far as the server was asked to say. `None` if there was
    /// more than is kept: then anything may have changed.
    pub fn trackers(&self) -> Option<Vec<Tracker>> {
        match self.session_state.is_empty() {
            true => (!self.tracked).then(Vec::new),
            false => Tracker::decode_all(&self.session_state).ok(),
        }
    }
}

impl Stream for Body {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.0 {
            Kind::Whole(packets, end) => {
                let frame = packets.take().map(Frame::Packets);
                Poll::Ready(frame.or_else(|| end.take().map(Frame::End)).map(Ok))
            }
            Kind::Stream(stream) => stream.as_mut().poll_next(cx),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Whole(..) => "Body(whole)",
            Kind::Stream(_) => "Body(stream)",
        })
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upload")
    }
}

struct Mapped<M> {
    inner: Body,
    map: M,
}

impl<M: FnMut(Frame) -> Frame> Stream for Mapped<M> {
    type Item = Result<Frame>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.inner).poll_next(cx));
        Poll::Ready(frame.map(|frame| frame.map(&mut this.map)))
    }
}

impl<M> Unpin for Mapped<M> {}

pin_project! {
    struct Watched<A: FnOnce(Ending<'_>)> {
        inner: Body,
        act: Option<A>,
    }
    impl<A: FnOnce(Ending<'_>)> PinnedDrop for Watched<A> {
        fn drop(this: Pin<&mut Self>) {
            if let Some(act) = this.project().act.take() {
                act(Ending::Abandoned);
            }
        }
    }
}

impl<A: FnOnce(Ending<'_>)> Stream for Watched<A> {
    type Item = Result<Frame>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let frame = ready!(Pin::new(this.inner).poll_next(cx));
        let ending = match &frame {
            Some(Ok(Frame::End(end))) => Ending::Done(end),
            Some(Ok(_)) => return Poll::Ready(frame),
            Some(Err(error)) => Ending::Failed(error),
            None => Ending::Abandoned,
        };
        if let Some(act) = this.act.take() {
            act(ending);
        }
        Poll::Ready(frame)
    }
}
