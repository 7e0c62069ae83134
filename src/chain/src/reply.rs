//! What comes back.

use crate::{
    body::{Body, End},
    command::Command,
    error::{Error, Result},
    facts::{Fact, Facts},
    handover::Handover,
};
use bytes::{Bytes, BytesMut};
use wire::{
    command::CommandCode,
    err::{ErrPacket, codes},
    ok::OkPacket,
    packet::put_packet,
    status::Status,
};

/// The answer to one command, and what filters have noted on it. A pointer: every layer moves it.
#[derive(Debug)]
#[must_use = "a dropped reply abandons its backend connection"]
pub struct Reply(Box<Inner>);

#[derive(Debug)]
struct Inner {
    outcome: Outcome,
    facts: Facts,
}

/// Either a reply to stream, or the end of the chain's work.
#[derive(Debug)]
pub enum Outcome {
    /// Stream this to the client, then take its next command.
    Body(Body),
    /// The session leaves the chain; filters pass this up untouched.
    Handover(Handover),
}

/// A whole reply, read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Everything before the end.
    pub packets: Bytes,
    /// How it ended.
    pub end: End,
}

/// What a filter reads of the answer to a command of its own, in bytes; see
/// [`Next::ask`](crate::Next::ask).
pub const ANSWER_LIMIT: usize = 1 << 20;

impl Reply {
    /// A reply streamed from `body`.
    pub fn new(body: Body) -> Self {
        Self::of(Outcome::Body(body))
    }

    /// An order to hand the session over.
    pub fn handover(handover: Handover) -> Self {
        Self::of(Outcome::Handover(handover))
    }

    fn of(outcome: Outcome) -> Self {
        Self(Box::new(Inner { outcome, facts: Facts::default() }))
    }

    /// An OK of the proxy's own in reply to `command`.
    pub fn ok(command: &Command, status: Status) -> Self {
        Self::ok_packet(command, &OkPacket { status, ..OkPacket::default() })
    }

    /// This OK in reply to `command`.
    pub fn ok_packet(command: &Command, ok: &OkPacket) -> Self {
        let mut payload = BytesMut::new();
        ok.encode(&mut payload, command.session().capabilities);
        Self::alone(command, &payload, End { status: Some(ok.status), ..End::default() })
    }

    /// An ERR of the proxy's own in reply to `command`. The session goes on.
    pub fn err(command: &Command, err: &ErrPacket) -> Self {
        let mut payload = BytesMut::new();
        err.encode(&mut payload);
        Self::alone(command, &payload, End { error: Some(err.code), ..End::default() })
    }

    /// What comes of a command that has no reply (COM_STMT_CLOSE, COM_STMT_SEND_LONG_DATA).
    pub fn none() -> Self {
        Self::new(Body::end(End::default()))
    }

    /// The ERR 1243 for a command about a prepared statement that is not there, as servers put it:
    /// MySQL's name one check for all of them, MariaDB's the command.
    pub fn unknown_statement(command: &Command, id: u32) -> Self {
        let groups = command.session().topology.hostgroups().iter();
        let mut servers = groups.flat_map(|group| &group.servers);
        let mariadb = servers.find_map(|server| server.profile.is_mariadb());
        let what = match command.code() {
            _ if mariadb == Some(false) => "mysql_stmt_precheck",
            CommandCode::STMT_FETCH => "mysqld_stmt_fetch",
            CommandCode::STMT_RESET => "mysqld_stmt_reset",
            _ => "mysqld_stmt_execute",
        };
        let text = format!("Unknown prepared statement handler ({id}) given to {what}");
        Self::err(command, &ErrPacket::new(codes::ER_UNKNOWN_STMT_HANDLER, text))
    }

    fn alone(command: &Command, payload: &[u8], end: End) -> Self {
        let mut packet = BytesMut::with_capacity(payload.len() + 4);
        put_packet(&mut packet, command.reply_seq(), payload);
        Self::new(Body::end(End { packet: packet.freeze(), ..end }))
    }

    /// Changes the body, if there is one.
    pub fn map_body(mut self, change: impl FnOnce(Body) -> Body) -> Self {
        let empty = Outcome::Body(Body::end(End::default()));
        self.0.outcome = match std::mem::replace(&mut self.0.outcome, empty) {
            Outcome::Body(body) => Outcome::Body(change(body)),
            handover @ Outcome::Handover(_) => handover,
        };
        self
    }

    /// Attaches a fact for the filters above.
    pub fn with<F: Fact>(mut self, fact: F) -> Self {
        self.0.facts.insert(fact);
        self
    }

    /// What a filter below has found out.
    pub fn fact<F: Fact>(&self) -> Option<&F> {
        self.0.facts.get()
    }

    /// Whether it is an order to hand the session over.
    pub fn is_handover(&self) -> bool {
        matches!(self.0.outcome, Outcome::Handover(_))
    }

    /// The reply itself.
    pub fn into_outcome(self) -> Outcome {
        self.0.outcome
    }

    /// Reads the reply to its end on behalf of a filter; at most [`ANSWER_LIMIT`] bytes.
    pub async fn collect(self) -> Result<Answer> {
        match self.0.outcome {
            Outcome::Body(body) => body.collect(ANSWER_LIMIT).await,
            Outcome::Handover(_) => Err(Error::filter("handed over a command of its own")),
        }
    }
}

impl From<Answer> for Reply {
    fn from(Answer { packets, end }: Answer) -> Self {
        Self::new(Body::whole(packets, end))
    }
}
