//! Clients that go away while their command is at work.

use super::Client;
use crate::{buffer, config};
use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// How long work goes on for a client that has gone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// To its end: nobody looks.
    Endless,
    /// For as long as this.
    Grace(Duration),
}

/// The client has closed its connection while its command was at work.
#[derive(Debug, thiserror::Error)]
#[error("the client has gone, its statement is abandoned")]
pub(super) struct Gone;

/// What is read of pipelined commands, in bytes, to find the end of the stream behind them.
const AHEAD: usize = 64 * 1024;

impl Patience {
    pub(super) fn of(settings: &config::Backend) -> Self {
        match settings.kill_abandoned {
            true => Self::Grace(settings.abandoned_grace),
            false => Self::Endless,
        }
    }
}

impl Client {
    /// Works for the client; `None` if it has gone and the grace is over. A client that has closed
    /// only its sending side gets whatever comes within the grace.
    pub(super) async fn attended<W: Future>(
        &mut self,
        patience: Patience,
        work: W,
    ) -> Option<W::Output> {
        let mut work = pin!(work);
        let Patience::Grace(grace) = patience else { return Some(work.await) };
        let done = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        });
        match done.await {
            Some(done) => Some(done),
            None => tokio::time::timeout(grace, work).await.ok(),
        }
    }

    /// Ready once the client has closed and has asked for nothing more: commands that it has sent
    /// before are done as a server does them.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.closed {
            if self.read.len() >= AHEAD {
                return Poll::Pending;
            }
            ready!(self.io.poll_news(cx));
            // A broken connection is an end too.
            let read = ready!(buffer::poll_append(&mut self.io, cx, &mut self.read));
            self.closed = !read.is_ok_and(|read| read > 0);
        }
        if self.read.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}
