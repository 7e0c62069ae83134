//! What is told of the commands of observed sessions: digests for the table, spans for the collector.
//!
//! ```text
//! bytes ─▶ observer ─▶ Noting ──▶ at most 1024 wait ──▶ one task ──▶ digests, spans
//!                                 (one more is lost, and counted)
//! ```
//!
//! Bytes wait for none of it: texts are only copied before they go on, and read by the task.

#[cfg(test)]
mod tests;

use crate::{
    digests::Digests,
    session::watch::{Ended, Seen},
    telemetry::{Traced, Tracing, Via},
};
use bytes::Bytes;
use chain::{
    Session,
    facts::{Statement, Target},
};
use sql::{Charset, Dialect, Verb};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wire::{
    capability::Capabilities,
    command::{ChangeUser, CommandCode, Query},
    observe::{Answer, Asked},
    status::Status,
};

/// How much of a text is kept, in bytes. Of a longer one there is the digest of its beginning.
pub(super) const TEXT: usize = 16 << 10;

/// Commands that wait for the task.
const ROOM: usize = 1024;

/// Where commands that are over go.
#[derive(Clone)]
pub(crate) struct Notes(mpsc::Sender<Noted>);

/// Where they are taken out.
pub(crate) struct Inbox(mpsc::Receiver<Noted>);

/// Who is told.
#[derive(Clone)]
pub(crate) struct Readers {
    pub(crate) digests: Option<Arc<Digests>>,
    pub(crate) tracing: Option<Arc<Tracing>>,
}

/// What one session notes of its commands.
pub(crate) struct Noting {
    notes: Notes,
    readers: Readers,
    session: Session,
    place: Arc<Place>,
    /// The span of the command that it left its chain with.
    trigger: Option<Traced>,
    /// Whose the commands are cannot be said any more.
    lost: bool,
}

/// Where a session's commands go.
#[derive(Default)]
struct Place {
    target: Option<Target>,
    via: Option<Via>,
}

/// One command that is over.
struct Noted {
    readers: Readers,
    /// As it was when the command was read.
    session: Session,
    place: Arc<Place>,
    asked: Asked<Instant>,
    /// `None`: nobody waited for it.
    answer: Option<Answer<Instant>>,
    over: Instant,
    trigger: Option<Traced>,
}

impl Notes {
    /// Both ends of the queue.
    pub(crate) fn new() -> (Self, Inbox) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self(sender), Inbox(receiver))
    }
}

impl Inbox {
    /// Tells of commands until `stop` is cancelled and none waits any more.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let noted = tokio::select! {
                biased;
                noted = self.0.recv() => noted,
                () = stop.cancelled(), if !self.0.is_closed() => {
                    self.0.close();
                    continue;
                }
            };
            let Some(noted) = noted else { return };
            // One that cannot be told of is no reason not to tell of those behind it.
            let _ = catch_unwind(AssertUnwindSafe(|| noted.tell()));
        }
    }
}

impl Noting {
    /// For a session that leaves its chain; `trigger` is the span that is under way. `None` if
    /// nobody wants to know.
    pub(crate) fn of(
        notes: &Notes,
        readers: Readers,
        session: &Session,
        target: Option<Target>,
        trigger: Option<Traced>,
    ) -> Option<Box<Self>> {
        if readers.digests.is_none() && readers.tracing.is_none() {
            return None;
        }
        let place = Arc::new(Place { target, via: None });
        let (notes, session) = (notes.clone(), session.clone());
        Some(Box::new(Self { notes, readers, session, place, trigger, lost: false }))
    }

    /// Says on which connection it is.
    pub(super) fn on(&mut self, via: Via) {
        let target = self.place.target.clone();
        self.place = Arc::new(Place { target, via: Some(via) });
    }

    /// Notes a command that is over at `over`. False if it could not be noted.
    pub(super) fn note(
        &mut self,
        asked: Asked<Instant>,
        answer: Option<Answer<Instant>>,
        over: Instant,
    ) -> bool {
        let before = self.session.clone();
        if answer.is_some_and(|answer| answer.error.is_none()) {
            self.follow(&asked);
        }
        if let Some(status) = answer.and_then(|answer| answer.status) {
            self.session.set_status(status);
        }
        let trigger = self.trigger.take();
        let brings_text = matches!(asked.command, CommandCode::QUERY | CommandCode::STMT_PREPARE);
        if self.lost || brings_text && asked.text.is_none() {
            return false;
        }
        if self.readers.tracing.is_none() && asked.text.is_none() {
            return true;
        }
        let (readers, place) = (self.readers.clone(), self.place.clone());
        let noted = Noted { readers, session: before, place, asked, answer, over, trigger };
        self.notes.0.try_send(noted).is_ok()
    }

    /// Takes in what a command has changed.
    fn follow(&mut self, asked: &Asked<Instant>) {
        let Some(payload) = asked.text.as_ref().map(|text| text.payload()) else {
            self.lost |= asked.command == CommandCode::CHANGE_USER;
            return;
        };
        match asked.command {
            CommandCode::INIT_DB => self.enter(payload.slice(1..)),
            CommandCode::QUERY => {
                let text = text_of(payload, self.session.capabilities).unwrap_or_default();
                if sql::peek(&text) == Verb::Use {
                    let named = sql::statement(&text, dialect(&self.session));
                    let named = named.new_schema(&text).map(|name| Bytes::copy_from_slice(&name));
                    named.into_iter().for_each(|name| self.enter(name));
                }
            }
            CommandCode::CHANGE_USER => {
                match ChangeUser::decode(payload, self.session.capabilities) {
                    Ok(change) => self.becomes(change),
                    Err(_) => self.lost = true,
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, schema: Bytes) {
        let schema = (!schema.is_empty()).then_some(schema);
        self.session.update(|view| view.current_schema = schema);
    }

    fn becomes(&mut self, change: ChangeUser) {
        self.session.update(|view| {
            view.user = String::from_utf8_lossy(&change.user).into();
            view.schema = (!change.schema.is_empty()).then(|| change.schema.into());
            view.attributes = change.attributes;
            if change.collation != 0 {
                view.collation = change.collation;
            }
        });
        self.session = self.session.clone().anew();
    }
}

impl Noted {
    fn tell(self) {
        let Self { readers, session, place, asked, answer, over, trigger } = self;
        let text = asked.text.as_ref().and_then(|text| {
            text_of(text.payload(), session.capabilities).filter(|text| !text.is_empty())
        });
        let statement = text.map(|text| Statement::new(text, dialect(&session)));
        let ended = answer.map(|answer| Ended {
            error: answer.error.map(|error| error.code),
            bytes: answer.bytes,
        });
        if let (Some(digests), Some(statement)) = (&readers.digests, &statement) {
            let took = over.saturating_duration_since(asked.mark);
            let target = place.target.as_ref();
            digests.saw(&Seen::of(&session, asked.command, target, took, ended, statement));
        }
        let observed = crate::telemetry::Observed {
            session: &session,
            code: asked.command,
            payload: asked.text.as_ref().map(|text| text.payload()),
            statement,
            target: place.target.as_ref(),
            via: place.via.as_ref(),
            began: asked.mark,
            first: answer.map(|answer| answer.begun),
            over,
            ended: ended.map(|ended| (ended.error, ended.bytes)),
        };
        match (trigger, &readers.tracing) {
            (Some(trigger), _) => trigger.observed(&observed),
            (None, Some(tracing)) => tracing.observed(&observed),
            (None, None) => {}
        }
    }
}

/// The statement in a COM_QUERY or COM_STMT_PREPARE.
fn text_of(payload: &Bytes, capabilities: Capabilities) -> Option<Bytes> {
    match CommandCode::of(payload)? {
        CommandCode::QUERY => {
            let query = Query::decode(payload, capabilities).ok()?;
            Some(payload.slice_ref(query.sql))
        }
        CommandCode::STMT_PREPARE => Some(payload.slice(1..)),
        _ => None,
    }
}

/// How the session's texts are read, as far as its replies say.
fn dialect(session: &Session) -> Dialect {
    let status = session.status();
    Dialect {
        ansi_quotes: status.contains(Status::ANSI_QUOTES),
        no_backslash_escapes: status.contains(Status::NO_BACKSLASH_ESCAPES),
        charset: Charset::of_collation(session.collation),
        ..Dialect::default()
    }
}
