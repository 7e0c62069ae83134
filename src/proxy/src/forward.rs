//! Sessions that have left the chain: bytes both ways, for good.
//!
//! ```text
//! client ─▶ pipe ─▶ server      no chain, no rules, no pool
//! client ◀─ pipe ◀─ server
//! ```
//!
//! One task moves both directions. What is read goes out from the worker thread's buffer before
//! anything is kept; what the other side does not take waits, and nothing more is read until it has
//! gone. An idle session holds no buffer.

mod pipe;
mod translate;

use crate::{
    backend::dedicated::Dedicated, metrics::Forwarded, session::Client, signal::Signal,
    stream::Stream,
};
use bytes::{Bytes, BytesMut};
use chain::{Handover, facts::StatementIds};
use pipe::{Flow, Pipe};
use std::{
    future::poll_fn,
    io,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};
use translate::Translate;

/// What a session leaves the chain with.
pub(crate) struct Parting {
    pub(crate) handover: Handover,
    /// What the server calls the statements that the session prepared before.
    pub(crate) statements: StatementIds,
}

/// How long, after the server has closed, a client may take to read what it has sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grace(pub(crate) Duration);

/// Why forwarding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both sides have closed, or the client has gone.
    Closed,
    /// The client has not read in time what the server had sent before it closed.
    Late,
    /// The server must not be used any more.
    Offline,
}

/// Forwards until a session that has left its chain is over.
pub(crate) async fn forward(
    client: &mut Client,
    parting: Parting,
    grace: Grace,
    metrics: &Forwarded,
) -> io::Result<Ended> {
    let Parting { handover, statements: StatementIds(ids) } = parting;
    match handover.into_parts::<Dedicated>() {
        Ok((mut dedicated, first)) => {
            let offline = dedicated.offline();
            let start = Start { first, ids };
            join(client, dedicated.io(), start, &offline, grace, metrics).await
        }
        // A filter has made a stream of its own.
        Err(handover) => {
            let ahead = client.read.split();
            let (up, down) = handover.forward(&mut client.io, &ahead).await?;
            metrics.moved(up, down);
            Ok(Ended::Closed)
        }
    }
}

/// What a session begins with on its connection.
#[derive(Default)]
pub(crate) struct Start {
    /// Goes to the server first.
    first: Bytes,
    /// Statements that the client has, and the server's ids for them.
    ids: Vec<(u32, u32)>,
}

/// Begins as `start` says; then whatever either side says goes to the other.
pub(crate) async fn join(
    client: &mut Client,
    server: &mut Stream,
    start: Start,
    offline: &Signal,
    grace: Grace,
    metrics: &Forwarded,
) -> io::Result<Ended> {
    let ahead = client.read.split();
    client.read = BytesMut::new();
    let mut lines = Lines::new(&mut client.io, server, start, ahead, metrics);
    let mut offline = pin!(offline.given());
    let mut late = pin!(None);
    let ended = poll_fn(|cx| {
        if offline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(Ended::Offline));
        }
        if lines.poll(cx)?.is_ready() {
            return Poll::Ready(Ok(Ended::Closed));
        }
        if lines.server_has_closed() {
            if late.is_none() {
                late.set(Some(tokio::time::sleep(grace.0)));
            }
            let time = late.as_mut().as_pin_mut().map(|late| late.poll(cx));
            if time.is_some_and(|time| time.is_ready()) {
                return Poll::Ready(Ok(lines.ended_late()));
            }
        }
        Poll::Pending
    });
    ended.await
}

/// Both directions of one session.
struct Lines<'a> {
    client: &'a mut Stream,
    server: &'a mut Stream,
    up: Pipe,
    down: Pipe,
    metrics: &'a Forwarded,
}

impl<'a> Lines<'a> {
    fn new(
        client: &'a mut Stream,
        server: &'a mut Stream,
        Start { first, ids }: Start,
        mut ahead: BytesMut,
        metrics: &'a Forwarded,
    ) -> Self {
        let mut translate = (!ids.is_empty()).then(|| Box::new(Translate::new(&ids)));
        if let Some(translate) = &mut translate {
            ahead = translate.pass(&ahead);
        }
        let first = match ahead.is_empty() {
            true => first,
            false => [&first[..], &ahead].concat().into(),
        };
        Self {
            client,
            server,
            up: Pipe::beginning_with(first, translate),
            down: Pipe::default(),
            metrics,
        }
    }

    /// Moves what can be moved. Ready when nothing will come any more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = (self.up.moved, self.down.moved);
        let up = self.up.poll(self.client, self.server, cx);
        let down = self.down.poll(self.server, self.client, cx);
        self.metrics.moved(self.up.moved - before.0, self.down.moved - before.1);
        match (up, down) {
            (_, Flow::Broken(error)) => Poll::Ready(Err(error)),
            // A server that has closed may have said why: that is delivered first.
            (Flow::Broken(_), Flow::Over) | (Flow::Over, Flow::Over) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }

    /// How it ends when the grace is over: with bytes that the client has not taken, or only with a
    /// client that has not closed.
    fn ended_late(&self) -> Ended {
        let lost = self.down.waiting();
        self.metrics.lost.inc_by(lost as u64);
        if lost > 0 { Ended::Late } else { Ended::Closed }
    }

    /// The server sends nothing more: what it has sent has been read.
    fn server_has_closed(&self) -> bool {
        self.down.source_is_over()
    }
}
