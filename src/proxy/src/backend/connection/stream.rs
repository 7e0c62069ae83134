//! A reply as it arrives.

use super::{Cut, State, Wire, lost};
use crate::{
    backend::{Backend, connect::Vendor, schema, tally::Change},
    buffer::{poll_chunk, poll_write_all},
    telemetry::{Leg, Trail},
};
use bytes::{Bytes, BytesMut};
use chain::{
    Body, Command, End, Error, Frame, Origin, Reply, Result, Upload, lend::Loan, topology::InUse,
};
use futures_core::Stream;
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;
use wire::{
    capability::Capabilities,
    command::{CommandCode, Execute},
    packet::HEADER_LEN,
    reply::{ReplyEnd, ReplyScanner, Scan},
    upload::UploadScanner,
};

/// A reply that is still arriving.
pub(super) struct ReplyStream {
    pub(super) wire: Loan<Wire>,
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
    /// What has not been written of the commands. They are written while replies are read: a server
    /// whose replies nobody takes reads no further command.
    pub(super) unsent: Option<Bytes>,
    /// What was read behind the end of the reply before.
    ahead: Bytes,
    /// The next reply is that of another command, which was sent already.
    more: bool,
    /// The command is traced.
    leg: Option<Leg>,
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
    /// A stream of replies to commands of `command`'s session; see [`Self::begin`].
    pub(super) fn new(mut wire: Loan<Wire>, command: &Command) -> Result<Self> {
        let link = wire.link()?;
        let in_use = InUse::command(link.backend.server.clone());
        let capabilities = command.session().capabilities;
        let scanner = ReplyScanner::new(command.code(), capabilities);
        Ok(Self {
            wire,
            scanner,
            capabilities,
            names_schema: false,
            change: Change::None,
            held: BytesMut::new(),
            next: None,
            upload: None,
            ended: false,
            unsent: None,
            ahead: Bytes::new(),
            more: false,
            leg: None,
            _in_use: in_use,
        })
    }

    /// What comes from here on is the reply to `command`. `more`: and then that to another one.
    /// False if it has none.
    pub(super) fn begin(&mut self, command: &Command, more: bool) -> Result<bool> {
        let answer = answered(command, self.wire.link()?.vendor);
        self.scanner =
            ReplyScanner::new(answer, self.capabilities).with_cursor(asks_for_cursor(command));
        self.names_schema = schema::may_change(command);
        self.change = Change::by(command);
        (self.ended, self.more) = (false, more);
        let (change, link) = (self.change, self.wire.link()?);
        self.leg = command.trail::<Trail>().map(|trail| trail.sent(command, link));
        if !answer.has_reply() {
            link.counts(change, &End::default());
            self.leg.take().into_iter().for_each(|leg| leg.ended(None));
        }
        Ok(answer.has_reply())
    }

    /// Resolves with the first packets of the reply.
    pub(super) async fn first(&mut self) -> Result<Frame> {
        poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// The reply that begins with them.
    pub(super) fn reply(mut self, first: Frame) -> Reply {
        Reply::new(match (first, self.next.take()) {
            (Frame::End(end), _) => Body::end(end),
            (Frame::Packets(packets), Some(Frame::End(end))) => Body::whole(packets, end),
            (first, second) => {
                self.next = second;
                Body::stream(Resumed { first: Some(first), stream: self })
            }
        })
    }

    /// Writes what is left of the commands, behind the last reply that was waited for.
    pub(super) fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(unsent) = &mut self.unsent {
            let sent = std::task::ready!(poll_write_all(&mut self.wire.link()?.io, cx, unsent));
            self.wire.state = if sent.is_ok() { State::Clean } else { State::Broken };
            sent.map_err(lost)?;
        }
        self.wire.state = State::Clean;
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame>> {
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
            // A server that takes no more says why, or closes: what is read says what it was.
            if let Some(unsent) = &mut self.unsent
                && poll_write_all(&mut link.io, cx, unsent).is_ready()
            {
                self.unsent = None;
            }
            let chunk = match std::mem::take(&mut self.ahead) {
                ahead if ahead.is_empty() => {
                    std::task::ready!(poll_chunk(&mut link.io, cx)).map_err(lost)?
                }
                ahead => Some(ahead),
            };
            let Some(chunk) = chunk else {
                return Poll::Ready(Err(lost(io::ErrorKind::UnexpectedEof.into())));
            };
            if let Some(leg) = &mut self.leg {
                leg.heard();
            }
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
        if self.more && scan != Scan::More && bytes.len() > held + scan.at() {
            self.ahead = bytes.split_off(held + scan.at());
        }
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
        if let Some(leg) = self.leg.take() {
            leg.ended(end.error);
        }
        self.wire.state = if self.more { State::Busy } else { State::Clean };
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

/// Which command's reply follows: the command's own, but that MySQL refuses what is too short for
/// its fields also where it has no reply otherwise (MariaDB has none even then).
pub(super) fn answered(command: &Command, vendor: Vendor) -> CommandCode {
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
