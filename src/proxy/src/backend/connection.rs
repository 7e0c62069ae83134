//! The bottom of the backend stack: one connection to a server.

use super::{Backend, connect::Vendor, dedicated::Dedicated, link::Link, schema, tally::Change};
use crate::buffer::{poll_chunk, poll_write_all};
use bytes::{Bytes, BytesMut};
use chain::{
    Body, Command, End, Error, Frame, Origin, Reply, Result, Stack, Upload,
    error::{LastWords, code},
    facts::FastForward,
    lend::{Lend, Loan},
    topology::InUse,
};
use futures_core::Stream;
use std::{
    future::{poll_fn, ready},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{io::AsyncWriteExt, sync::mpsc};
use tower::Service;
use wire::{
    capability::Capabilities,
    command::{CommandCode, Execute},
    err::{ErrPacket, ErrorCode},
    packet::{HEADER_LEN, put_packet},
    reply::{ReplyEnd, ReplyScanner, Scan},
    upload::UploadScanner,
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
        Box::pin(exchange(wire, command))
    }
}

/// Sends the command. Resolves with the first packets of the reply.
async fn exchange(mut wire: Loan<Wire>, command: Command) -> Result<Reply> {
    wire.state = State::Busy;
    let link = wire.link()?;
    link.backend.metrics.commands.inc();
    let in_use = InUse::command(link.backend.server.clone());
    let capabilities = command.session().capabilities;
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
    link.lasting.follow(&command);
    let change = Change::by(&command);
    let answer = answered(&command, link.vendor);
    if !answer.has_reply() {
        link.counts(change, &End::default());
        wire.state = if sent.is_ok() { State::Clean } else { State::Broken };
        sent.map_err(lost)?;
        return Ok(Reply::new(Body::end(End::default())));
    }
    // A server that refuses a command may say why and close before it has read all of it: what it
    // said is the reply.
    let scanner = ReplyScanner::new(answer, capabilities).with_cursor(asks_for_cursor(&command));
    let mut stream = ReplyStream {
        wire,
        scanner,
        capabilities,
        names_schema: schema::may_change(&command),
        change,
        held: BytesMut::new(),
        next: None,
        upload: None,
        ended: false,
        _in_use: in_use,
    };
    let first = poll_fn(|cx| stream.poll_frame(cx)).await;
    let first = match (first, sent) {
        (Ok(frame), _) => frame,
        (Err(_), Err(error)) => return Err(lost(error)),
        (Err(error), Ok(())) => return Err(error),
    };
    Ok(Reply::new(match (first, stream.next.take()) {
        (Frame::End(end), _) => Body::end(end),
        (Frame::Packets(packets), Some(Frame::End(end))) => Body::whole(packets, end),
        (first, second) => {
            stream.next = second;
            Body::stream(Resumed { first: Some(first), stream })
        }
    }))
}

/// Which command's reply follows: the command's own, but that MySQL refuses what is too short for
/// its fields also where it has no reply otherwise (MariaDB has none even then).
fn answered(command: &Command, vendor: Vendor) -> CommandCode {
    let fields = match command.code() {
        CommandCode::STMT_CLOSE => 4,
        CommandCode::STMT_SEND_LONG_DATA => 6,
        other => return other,
    };
    let refused = vendor == Vendor::MySql && command.payload().len() < fields;
    // one OK or ERR
    if refused { CommandCode::PING } else { command.code() }
}

fn asks_for_cursor(command: &Command) -> bool {
    command.code() == CommandCode::STMT_EXECUTE
        && Execute::decode(command.whole()).is_ok_and(|execute| execute.wants_cursor())
}

/// A reply that is still arriving.
struct ReplyStream {
    wire: Loan<Wire>,
    scanner: ReplyScanner,
    capabilities: Capabilities,
    /// The command may have changed the default schema, where the server does not say so.
    names_schema: bool,
    /// What it does to the connection's prepared statements.
    change: Change,
    /// The beginning of a packet that has to be given in one piece.
    held: BytesMut,
    /// What comes after the frame given last, where both arrived at once.
    next: Option<Frame>,
    upload: Option<Uploading>,
    ended: bool,
    _in_use: InUse,
}

/// The client's file on its way.
struct Uploading {
    data: mpsc::Receiver<Bytes>,
    writing: Bytes,
    scanner: UploadScanner,
    ended: bool,
}

impl ReplyStream {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame>> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(Ok(next));
        }
        let frame = std::task::ready!(self.poll_next_frame(cx));
        // What is cut in the middle of a command is abandoned there.
        if let Err(error) = &frame
            && error.origin() == Origin::Backend
            && error.cause::<Cut>().is_none()
        {
            self.wire.state = State::Broken;
            if let Some(link) = &self.wire.link {
                link.backend.suspect();
            }
        }
        Poll::Ready(frame)
    }

    fn poll_next_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame>> {
        loop {
            let link =
                self.wire.link.as_mut().expect("a connection keeps its link while a reply streams");
            if link.leash.poll_cut(cx) {
                let Backend { server, .. } = &*link.backend;
                let cut = Cut(server.name.clone(), link.backend.describe());
                return Poll::Ready(Err(Error::backend(cut)));
            }
            if self.upload.is_some() {
                std::task::ready!(self.poll_upload(cx))?;
                continue;
            }
            let chunk = std::task::ready!(poll_chunk(&mut link.io, cx)).map_err(lost)?;
            let Some(chunk) = chunk else {
                return Poll::Ready(Err(lost(io::ErrorKind::UnexpectedEof.into())));
            };
            if let Some(frame) = self.scan(chunk)? {
                return Poll::Ready(Ok(frame));
            }
        }
    }

    /// What a chunk of the reply means. `None` if more bytes are needed to say.
    fn scan(&mut self, chunk: Bytes) -> Result<Option<Frame>> {
        let scan = self.scanner.scan(&chunk).map_err(|error| Error::backend(error.to_string()))?;
        let held = self.held.len();
        let mut bytes = match held {
            0 => chunk,
            _ => {
                self.held.extend_from_slice(&chunk);
                self.held.split().freeze()
            }
        };
        match scan {
            Scan::More => {
                let undecided = self.scanner.undecided().min(bytes.len());
                self.held.extend_from_slice(&bytes.split_off(bytes.len() - undecided));
                Ok((!bytes.is_empty()).then_some(Frame::Packets(bytes)))
            }
            _ if bytes.len() > held + scan.at() => {
                Err(Error::backend("the server sent more than a reply"))
            }
            Scan::Upload { .. } => {
                let request = HEADER_LEN + self.scanner.last_packet().len();
                let request = bytes.split_off(bytes.len().saturating_sub(request));
                let (sender, data) = mpsc::channel(1);
                let scanner = UploadScanner::default();
                let writing = Bytes::new();
                self.upload = Some(Uploading { data, writing, scanner, ended: false });
                Ok(Some(self.give(bytes, Frame::Upload(Upload { request, data: sender }))))
            }
            Scan::End { end, .. } => {
                let packet = match self.scanner.last_packet() {
                    [] => Bytes::new(),
                    _ => bytes.split_off(bytes.len().saturating_sub(end.terminator)),
                };
                let end = self.finish(packet, &end);
                Ok(Some(self.give(bytes, Frame::End(end))))
            }
        }
    }

    /// Gives `packets` now and `then` afterwards, or `then` at once.
    fn give(&mut self, packets: Bytes, then: Frame) -> Frame {
        if packets.is_empty() {
            return then;
        }
        self.next = Some(then);
        Frame::Packets(packets)
    }

    fn finish(&mut self, packet: Bytes, end: &ReplyEnd) -> End {
        let state = self.scanner.session_state().filter(|_| end.tracked).unwrap_or_default();
        let warnings = end.warnings;
        let end = End {
            packet,
            status: end.status,
            error: end.error.map(|error| error.code),
            tracked: end.tracked,
            session_state: Bytes::copy_from_slice(state),
        };
        self.ended = true;
        self.wire.state = State::Clean;
        if let Some(link) = &mut self.wire.link {
            link.schema.follow(&end, self.capabilities, self.names_schema);
            link.counts(self.change, &end);
            if link.seat.is_shared() {
                link.seat.note(&link.schema, &link.lasting);
                link.seat.ended(&end, warnings, self.scanner.rows());
            }
        }
        end
    }

    /// Writes the client's packets to the server until the one that ends the file has gone out.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(upload) = &mut self.upload else { return Poll::Ready(Ok(())) };
        let link = self.wire.link.as_mut().expect("a connection keeps its link in an upload");
        loop {
            std::task::ready!(poll_write_all(&mut link.io, cx, &mut upload.writing))
                .map_err(lost)?;
            if upload.ended {
                self.upload = None;
                return Poll::Ready(Ok(()));
            }
            let Some(data) = std::task::ready!(upload.data.poll_recv(cx)) else {
                return Poll::Ready(Err(Error::client("the client's file stopped before its end")));
            };
            upload.ended = upload.scanner.scan(&data).is_some();
            upload.writing = data;
        }
    }
}

/// A reply stream behind the frame that was taken off it.
struct Resumed {
    first: Option<Frame>,
    stream: ReplyStream,
}

impl Stream for Resumed {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if self.stream.ended && self.stream.next.is_none() {
            return Poll::Ready(None);
        }
        self.stream.poll_frame(cx).map(Some)
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
