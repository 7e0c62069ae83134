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

mod closing;
pub(crate) mod notes;
mod pipe;
mod watch;

#[cfg(test)]
mod tests;

use crate::{
    backend::dedicated::Dedicated, buffer::poll_chunk, metrics::Forwarded, session::Client,
    signal::Signal, stream::Stream,
};
use bytes::{Bytes, BytesMut};
use chain::{
    Handover,
    facts::{Forwarding, StatementIds},
};
use closing::Closing;
use notes::Noting;
use pipe::{Flow, Pipe};
use std::{
    future::poll_fn,
    io,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};
use watch::Watch;
use wire::{capability::Capabilities, translate::Translate};

/// What a session leaves the chain with.
pub(crate) struct Parting {
    pub(crate) handover: Handover,
    pub(crate) how: Forwarding,
    /// What the server calls the statements that the session prepared before.
    pub(crate) ids: StatementIds,
    /// What both sides agreed on when they logged in.
    pub(crate) capabilities: Capabilities,
    /// What is told of its commands, if somebody wants to know.
    pub(crate) noting: Option<Box<Noting>>,
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
    let Parting { handover, how, ids, capabilities, mut noting } = parting;
    match handover.into_parts::<Dedicated>() {
        Ok((mut dedicated, first)) => {
            let ids = if how.raw_ids { Vec::new() } else { ids.0 };
            let offline = dedicated.offline();
            noting.iter_mut().for_each(|noting| noting.on(dedicated.via()));
            let start = Start { first, ids, capabilities, observe: how.observe, noting };
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
    capabilities: Capabilities,
    /// What passes is counted.
    observe: bool,
    /// And told of.
    noting: Option<Box<Noting>>,
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
    let mut closing = Closing::new(grace);
    let ended = poll_fn(|cx| {
        if offline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(Ended::Offline));
        }
        if lines.poll(cx)?.is_ready() {
            return Poll::Ready(Ok(Ended::Closed));
        }
        if closing.poll(&lines, cx).is_ready() {
            return Poll::Ready(Ok(lines.ended_late(cx)));
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
    watch: Watch<'a>,
    metrics: &'a Forwarded,
}

impl<'a> Lines<'a> {
    fn new(
        client: &'a mut Stream,
        server: &'a mut Stream,
        start: Start,
        mut ahead: BytesMut,
        metrics: &'a Forwarded,
    ) -> Self {
        let Start { first, ids, capabilities, observe, noting } = start;
        let mut watch = Watch::new(observe, noting, capabilities, &metrics.observed);
        watch.client(&first);
        watch.client(&ahead);
        let mut translate = (!ids.is_empty()).then(|| Box::new(Translate::new(&ids, capabilities)));
        if let Some(translate) = &mut translate {
            translate.sent(&first);
            ahead = translate.client(&ahead);
        }
        let first = match ahead.is_empty() {
            true => first,
            false => [&first[..], &ahead].concat().into(),
        };
        let up = Pipe::beginning_with(first, translate);
        Self { client, server, up, down: Pipe::default(), watch, metrics }
    }

    /// Moves what can be moved. Ready when nothing will come any more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = (self.up.moved, self.down.moved);
        let Self { client, server, up, down, watch, .. } = self;
        let flow_up = up.poll(client, server, cx, |bytes| watch.client(bytes));
        let flow_down = down.poll(server, client, cx, |bytes| {
            watch.server(bytes);
            if let Some(translate) = &mut up.translate {
                translate.server(bytes);
            }
        });
        self.metrics.moved(self.up.moved - before.0, self.down.moved - before.1);
        match (flow_up, flow_down) {
            (_, Flow::Broken(error)) => Poll::Ready(Err(error)),
            // A server that has closed may have said why: that is delivered first.
            (Flow::Broken(_), Flow::Over) | (Flow::Over, Flow::Over) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }

    /// How it ends when the grace is over: with bytes that the client has not taken, or only with a
    /// client that has not closed.
    fn ended_late(&mut self, cx: &mut Context<'_>) -> Ended {
        let mut lost = self.down.waiting();
        // What has arrived from a server that has closed is not without end.
        while self.server.has_closed()
            && let Poll::Ready(Ok(Some(unread))) = poll_chunk(self.server, cx)
        {
            lost += unread.len();
        }
        self.metrics.lost.inc_by(lost as u64);
        if lost > 0 { Ended::Late } else { Ended::Closed }
    }
}
