//! A connection that has left the chain with its session, for good.

use super::link::Link;
use crate::{signal::Signal, stream::Stream, telemetry::Via};
use bytes::Bytes;
use chain::{Handover, topology::InUse};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// It goes to no pool afterwards; it holds its place among the server's connections until then.
pub(crate) struct Dedicated {
    link: Box<Link>,
    _attached: InUse,
}

impl Dedicated {
    /// Gives `link` away together with the command that it is for.
    pub(super) fn hand_over(link: Box<Link>, first: Bytes) -> Handover {
        let _attached = InUse::connection(link.backend.server.clone());
        Handover::new(Self { link, _attached }, first)
    }

    /// What is given when nothing may go on there any more.
    pub(crate) fn offline(&self) -> Arc<Signal> {
        self.link.leash.forwarded()
    }

    /// What traces say of it.
    pub(crate) fn via(&self) -> Via {
        Via::of(&self.link)
    }

    /// The connection itself.
    pub(crate) fn io(&mut self) -> &mut Stream {
        &mut self.link.io
    }
}

impl AsyncRead for Dedicated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.io()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Dedicated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.io()).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.io()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.io()).poll_shutdown(cx)
    }
}
