//! Spans of commands that were seen as they passed, without a chain.

use super::{
    Traced, Tracing, Trail, parent,
    sampling::Decision,
    spans,
    trail::{Ended, Exchange, Record},
};
use crate::backend::{connect::Vendor, link::Link};
use bytes::Bytes;
use chain::{
    Command, Session,
    command::Asker,
    facts::{Statement, Target},
};
use std::{net::SocketAddr, sync::Arc, time::Instant};
use wire::command::CommandCode;

/// The connection that they passed over.
pub(crate) struct Via {
    server: Arc<str>,
    address: (String, Option<u16>),
    peer: Option<SocketAddr>,
    vendor: Vendor,
}

/// What was seen of a command.
pub(crate) struct Observed<'a> {
    pub(crate) session: &'a Session,
    pub(crate) code: CommandCode,
    /// The beginning of its payload, or of that of the command which prepared what it names.
    pub(crate) payload: Option<&'a Bytes>,
    pub(crate) statement: Option<Statement>,
    pub(crate) target: Option<&'a Target>,
    pub(crate) via: Option<&'a Via>,
    pub(crate) began: Instant,
    /// When its reply began.
    pub(crate) first: Option<Instant>,
    pub(crate) over: Instant,
    /// How its reply ended, and how many bytes it had; `None` if it did not end.
    pub(crate) ended: Option<(Option<u16>, u64)>,
}

impl Via {
    pub(crate) fn of(link: &Link) -> Self {
        Self {
            server: link.backend.server.name.clone(),
            address: link.backend.address(),
            peer: link.io.peer(),
            vendor: link.vendor,
        }
    }
}

impl Tracing {
    /// Tells of a command that is over, if it is one of those that are traced.
    pub(crate) fn observed(&self, observed: &Observed<'_>) {
        let command = observed.command();
        let parent = parent::of(&command, self.attributes, self.comments);
        let decision = self.decide(parent.as_ref(), fastrand::f64);
        if decision == Decision::Never {
            return;
        }
        let trail = Trail::new(&command, observed.began);
        let Some(mut record) = trail.take() else { return };
        record.statement.clone_from(&observed.statement);
        record.target = observed.target.cloned();
        record.forwarded = true;
        observed.note(&mut record);
        if decision == Decision::Now || self.is_slow(&record) || record.has_failed() {
            spans::tell(self, &record, parent.as_ref(), None);
        }
    }
}

impl Traced {
    /// Tells of the command that the session left its chain with, as it was seen to end.
    pub(crate) fn observed(self, observed: &Observed<'_>) {
        self.trail().note(|record| observed.note(record));
    }
}

impl Observed<'_> {
    /// As it would come to a chain, as far as it is known.
    fn command(&self) -> Command {
        let own = self.payload.filter(|payload| payload.first() == Some(&self.code.0));
        let body = own.map_or(&[][..], |payload| &payload[1..]);
        Command::new(self.session.clone(), self.code, body)
    }

    /// Notes what happened between client and server.
    fn note(&self, record: &mut Record) {
        record.over = Some(self.over);
        record.ended = self.ended.map(|(error, bytes)| Ended::Reply { error, bytes });
        let Some(via) = self.via else { return };
        record.exchanges.push(Exchange {
            asker: Asker::Client,
            code: self.code,
            server: via.server.clone(),
            address: via.address.clone(),
            peer: via.peer,
            vendor: via.vendor,
            began: self.began.max(record.began.1),
            first: self.first,
            ended: self.ended.map(|_| self.over),
            error: self.ended.and_then(|(error, _)| error),
            lag: None,
            bytes: 0,
        });
    }
}
