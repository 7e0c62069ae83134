//! The bottom of the backend stack: one connection to a server.

mod batch;
mod stream;

use super::{Backend, dedicated::Dedicated, link::Link, tally::Change};
use crate::{buffer::poll_chunk, telemetry::Trail};
use bytes::{Bytes, BytesMut};
use chain::{
    Command, End, Error, Reply, Result, Stack,
    error::{LastWords, code},
    facts::{FastForward, Preamble},
    lend::{Lend, Loan},
};
use std::{
    future::ready,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use stream::{ReplyStream, answered};
use tokio::io::AsyncWriteExt;
use tower::Service;
use wire::{
    err::{ErrPacket, ErrorCode},
    packet::put_packet,
};

/// Sends a command as it is and streams its reply.
pub(crate) struct Connection(Lend<Wire>);

/// The server has closed the connection.
#[derive(Debug, thiserror::Error)]
#[error("the server closed the connection before its reply ended")]
pub(crate) struct Closed;

/// The connection was lost in the middle of a command.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the server was lost")]
pub(crate) struct Interrupted;

/// The proxy has cut the connection.
#[derive(Debug, thiserror::Error)]
#[error("{0} is out of use, what the command did there is not known ({1})")]
pub(crate) struct Cut(Arc<str>, String);

struct Wire {
    /// Gone once the connection has been given back or closed.
    link: Option<Box<Link>>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is under way.
    Clean,
    /// A command was sent whose reply has not been read to its end.
    Busy,
    /// The server has closed the connection, or what it says makes no sense.
    Broken,
}

impl Connection {
    /// The stack of one connection.
    pub(crate) fn stack(link: Link) -> Stack {
        let wire = Wire { link: Some(Box::new(link)), state: State::Clean };
        Stack::new(Self(Lend::new(wire)))
    }
}

impl Service<Command> for Connection {
    type Response = Reply;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

    /// Fails once a reply was abandoned or broke, and once the server has closed the connection:
    /// nothing more can be said on it. Until then it wakes the task when the server says something
    /// by itself, which it does only to close.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let wire = std::task::ready!(self.0.poll_home(cx))?;
        if wire.state != State::Clean {
            return Poll::Ready(Err(Error::backend(Interrupted)));
        }
        let Wire { link: Some(link), .. } = wire else {
            return Poll::Ready(Err(Error::backend("the connection is closed")));
        };
        if link.leash.poll_cut(cx) {
            wire.state = State::Broken;
            return Poll::Ready(Err(Error::backend(LastWords(farewell(&link.backend)))));
        }
        if link.io.poll_news(cx).is_pending() {
            return Poll::Ready(Ok(()));
        }
        let Poll::Ready(said) = poll_chunk(&mut link.io, cx) else {
            return Poll::Ready(Ok(()));
        };
        wire.state = State::Broken;
        Poll::Ready(Err(match said {
            Ok(Some(bytes)) => Error::backend(LastWords(bytes)),
            Ok(None) => lost(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => lost(error),
        }))
    }

    fn call(&mut self, command: Command) -> Self::Future {
        let mut wire = self.0.lend();
        if command.fact::<FastForward>().is_some() {
            let given = wire.link.take().map(|link| Dedicated::hand_over(link, command.packets()));
            let given = given.ok_or_else(|| Error::backend("the connection is closed"));
            return Box::pin(ready(given.map(Reply::handover)));
        }
        match command.fact::<Preamble>() {
            None => Box::pin(exchange(wire, command)),
            Some(_) => Box::pin(batch::exchange(wire, command)),
        }
    }
}

/// Sends the command. Resolves with the first packets of the reply.
async fn exchange(mut wire: Loan<Wire>, command: Command) -> Result<Reply> {
    wire.state = State::Busy;
    let link = wire.link()?;
    link.backend.metrics.sends(&command);
    let packets = command.packets();
    let Link { io, leash, .. } = link;
    let sent = async {
        io.write_all(&packets).await?;
        io.flush().await
    };
    // A server that does not read must not hold up a cut. The reply's stream says what it was.
    let sent = tokio::select! {
        biased;
        () = leash.cut() => Ok(()),
        sent = sent => sent,
    };
    drop(packets);
    link.sends(&command);
    if !answered(&command, link.vendor).has_reply() {
        link.counts(Change::by(&command), &End::default());
        if let Some(trail) = command.trail::<Trail>() {
            trail.sent(&command, link).ended(None);
        }
        wire.state = if sent.is_ok() { State::Clean } else { State::Broken };
        sent.map_err(lost)?;
        return Ok(Reply::none());
    }
    let mut stream = ReplyStream::new(wire, &command)?;
    stream.begin(&command, false)?;
    // A server that refuses a command may say why and close before it has read all of it: what it
    // said is the reply.
    match (stream.first().await, sent) {
        (Ok(first), _) => Ok(stream.reply(first)),
        (Err(_), Err(error)) => Err(lost(error)),
        (Err(error), Ok(())) => Err(error),
    }
}

impl Wire {
    fn link(&mut self) -> Result<&mut Link> {
        self.link.as_deref_mut().ok_or_else(|| Error::backend("the connection is closed"))
    }
}

/// A clean connection goes back to its pool. One whose reply nobody waits for any more is closed,
/// and the server told to stop.
impl Drop for Wire {
    fn drop(&mut self) {
        match (self.link.take(), self.state) {
            (Some(link), State::Clean) => link.release(),
            (Some(link), State::Busy) => link.abandon(),
            _ => {}
        }
    }
}

/// What a client is told on a connection that is cut between two commands: the ERR packet that
/// answers its next one.
fn farewell(backend: &Backend) -> Bytes {
    let code = ErrorCode { code: code::BACKEND_LOST, sqlstate: *b"08S01" };
    let text = format!(
        "{} is out of use, what the session had there is lost ({})",
        backend.server.name,
        backend.describe()
    );
    let (mut payload, mut packet) = (BytesMut::new(), BytesMut::new());
    ErrPacket::new(code, text).encode(&mut payload);
    put_packet(&mut packet, 1, &payload);
    packet.freeze()
}

fn lost(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => Error::backend(Closed),
        _ => Error::backend(format!("lost connection to the server: {error}")),
    }
}
