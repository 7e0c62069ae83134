//! What is noted of a command that is traced, while it runs.

use crate::backend::{connect::Vendor, link::Link};
use bytes::Bytes;
use chain::{
    Command, Origin, Reply, Session,
    command::Asker,
    facts::{
        Affinity, FastForward, Lag, Pin, Predicted, RuleVerdict, ServedBy, SessionCommand,
        Statement, StickyMode, Target,
    },
};
use smallvec::SmallVec;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use wire::command::CommandCode;

/// The trail of one command of a client's; see [`Command::trailing`]. Its lock is taken by the tasks
/// that work for that command, one after the other.
pub(crate) struct Trail(Mutex<Option<Record>>);

/// What is known of it. Texts in it may hold secrets, so it has no `Debug`.
pub(super) struct Record {
    pub(super) session: Session,
    pub(super) code: CommandCode,
    /// The text of a query, as it came.
    pub(super) text: Option<Bytes>,
    /// What `parse` says it is.
    pub(super) statement: Option<Statement>,
    /// When it arrived, by both clocks.
    pub(super) began: (SystemTime, Instant),
    pub(super) over: Option<Instant>,
    pub(super) rules: SmallVec<[u32; 4]>,
    pub(super) target: Option<Target>,
    pub(super) sticky: Option<StickyMode>,
    pub(super) pin: Option<&'static str>,
    /// The session leaves its chain with it.
    pub(super) fast_forward: bool,
    /// The session had left its chain.
    pub(super) forwarded: bool,
    /// It was answered from memory.
    pub(super) predicted: bool,
    pub(super) session_command: Option<SessionCommand>,
    pub(super) checkouts: Vec<Checkout>,
    pub(super) exchanges: Vec<Exchange>,
    /// Exchanges beyond [`MOST`].
    pub(super) left_out: u64,
    pub(super) ended: Option<Ended>,
}

/// How it has ended. Until then nobody has waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The reply has gone out: an ERR with this code, or no error.
    Reply { error: Option<u16>, bytes: u64 },
    /// The proxy's own error.
    Failed { origin: Origin, code: u16 },
}

/// A connection was looked for, since the session had none.
pub(super) struct Checkout {
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// The server that was found.
    pub(super) server: Option<Arc<str>>,
}

/// Something was sent to a server.
pub(super) struct Exchange {
    pub(super) asker: Asker,
    pub(super) code: CommandCode,
    pub(super) server: Arc<str>,
    /// Host and port as configured.
    pub(super) address: (String, Option<u16>),
    pub(super) peer: Option<SocketAddr>,
    pub(super) vendor: Vendor,
    pub(super) began: Instant,
    /// The first bytes of the reply have come.
    pub(super) first: Option<Instant>,
    /// The reply's last bytes have come. Until then it was lost, or nobody wanted it any more.
    pub(super) ended: Option<Instant>,
    pub(super) error: Option<u16>,
    /// Of the connection, where this is the first that it lacked.
    pub(super) lag: Option<Lag>,
    /// Length of a command of a filter's, in bytes.
    pub(super) bytes: usize,
}

/// Exchanges that are noted one by one. Catching up takes many.
const MOST: usize = 512;

/// An exchange under way.
pub(crate) struct Leg {
    trail: Arc<Trail>,
    at: usize,
    begun: bool,
}

impl Trail {
    pub(super) fn new(command: &Command, started: Instant) -> Self {
        let began = SystemTime::now().checked_sub(started.elapsed());
        Self(Mutex::new(Some(Record {
            session: command.session().clone(),
            code: command.code(),
            text: if command.reply_seq() == 1 { command.sql() } else { None },
            statement: None,
            began: (began.unwrap_or(SystemTime::UNIX_EPOCH), started),
            over: None,
            rules: SmallVec::new(),
            target: None,
            sticky: None,
            pin: None,
            fast_forward: false,
            forwarded: false,
            predicted: false,
            session_command: None,
            checkouts: Vec::new(),
            exchanges: Vec::new(),
            left_out: 0,
            ended: None,
        })))
    }

    /// Changes the record; nothing happens once it has been told.
    pub(super) fn note(&self, change: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut *self.lock() {
            change(record);
        }
    }

    /// Notes what filters have decided about the client's command, which goes to `target`.
    pub(crate) fn dispatched(&self, command: &Command) {
        self.note(|record| {
            record.statement = command.fact::<Statement>().cloned();
            record.target = command.fact::<Target>().cloned();
            record.pin = command.fact::<Pin>().map(|pin| pin.cause);
            record.sticky = command.fact::<Affinity>().map(|affinity| affinity.mode);
            record.fast_forward = command.fact::<FastForward>().is_some();
            if let Some(verdict) = command.fact::<RuleVerdict>() {
                record.rules.clone_from(&verdict.rules);
            }
        });
    }

    /// Notes that a connection was looked for, and whose was found.
    pub(crate) fn checked_out(&self, began: Instant, server: Option<Arc<str>>) {
        let checkout = Checkout { began, ended: Instant::now(), server };
        self.note(|record| record.checkouts.push(checkout));
    }

    /// Notes that `command` is sent on a connection.
    pub(crate) fn sent(self: Arc<Self>, command: &Command, link: &Link) -> Leg {
        let asker = command.asker();
        let exchange = Exchange {
            asker,
            code: command.code(),
            server: link.backend.server.name.clone(),
            address: link.backend.address(),
            peer: link.io.peer(),
            vendor: link.vendor,
            began: Instant::now(),
            first: None,
            ended: None,
            error: None,
            lag: command.fact().copied(),
            // Those of clients may be in parts, which are not joined for this.
            bytes: if asker == Asker::Client { 0 } else { command.whole().len() },
        };
        let mut at = MOST;
        self.note(|record| {
            at = record.exchanges.len();
            if at < MOST {
                record.exchanges.push(exchange);
            } else {
                record.left_out += 1;
            }
        });
        Leg { trail: self, at, begun: false }
    }

    /// What was noted, once.
    pub(super) fn take(&self) -> Option<Record> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Record>> {
        // A panic while locked leaves a record that lacks a detail.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leg {
    /// Bytes of the reply have come.
    pub(crate) fn heard(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            let now = Instant::now();
            self.note(|exchange| exchange.first = Some(now));
        }
    }

    /// The reply has come to its end.
    pub(crate) fn ended(self, error: Option<u16>) {
        let now = Instant::now();
        self.note(|exchange| (exchange.ended, exchange.error) = (Some(now), error));
    }

    fn note(&self, change: impl FnOnce(&mut Exchange)) {
        self.trail.note(|record| {
            if let Some(exchange) = record.exchanges.get_mut(self.at) {
                change(exchange);
            }
        });
    }
}

impl Record {
    pub(super) fn answered(&mut self, reply: &Reply) {
        if let Some(ServedBy(target)) = reply.fact() {
            self.target = Some(target.clone());
        }
        self.predicted = reply.fact::<Predicted>().is_some();
        self.session_command = reply.fact().copied();
        // Rules have answered by themselves: what is below them was not asked.
        if let Some(verdict) = reply.fact::<RuleVerdict>() {
            self.rules.clone_from(&verdict.rules);
        }
    }

    /// How long it took.
    pub(super) fn took(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began.1)
    }

    /// Whether it came to no good end.
    pub(super) fn has_failed(&self) -> bool {
        match self.ended {
            Some(Ended::Reply { error, .. }) => error.is_some(),
            Some(Ended::Failed { .. }) => true,
            None => !self.fast_forward,
        }
    }

    /// An instant on the clock on the wall.
    pub(super) fn time(&self, at: Instant) -> SystemTime {
        let (wall, began) = self.began;
        wall.checked_add(at.saturating_duration_since(began)).unwrap_or(wall)
    }
}
