//! What the client asks for.

use crate::{
    Session,
    facts::{Fact, Facts},
};
use bytes::{BufMut, Bytes, BytesMut};
use sql::Verb;
use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};
use wire::{
    command::{CommandCode, Query},
    packet::{Message, put_packet},
};

/// One command, owned by whoever holds it. A pointer: every layer moves it.
pub struct Command(Box<Inner>);

struct Inner {
    code: CommandCode,
    form: Form,
    asker: Asker,
    session: Session,
    facts: Facts,
    verb: OnceLock<Verb>,
    trail: Option<Trail>,
    measured: bool,
}

/// What is noted of a client's command, by whoever does something for it.
type Trail = Arc<dyn Any + Send + Sync>;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The client; exactly one reply must reach it.
    Client,
    /// A filter, for its own ends; its reply goes no further than that filter.
    Filter(&'static str),
}

/// What is sent: the client's own packets, or a payload that somebody made. Payloads begin with the
/// command byte.
enum Form {
    AsCame { message: Message, payload: OnceLock<Bytes> },
    Made(Bytes),
}

impl Command {
    /// A command as it was read from the client. `None` if `message` is empty: a command has at
    /// least the byte that names it.
    pub fn read(session: Session, message: Message) -> Option<Self> {
        let code = CommandCode(message.first_byte()?);
        Some(Self::of(session, code, Form::AsCame { message, payload: OnceLock::new() }))
    }

    /// A command made of its byte and what follows it.
    pub fn new(session: Session, code: CommandCode, payload: impl AsRef<[u8]>) -> Self {
        Self::of(session, code, made(code, payload.as_ref()))
    }

    /// A text query. Where the session has negotiated query attributes, one without any.
    pub fn query(session: Session, sql: impl AsRef<[u8]>) -> Self {
        let mut payload = BytesMut::new();
        Query::new(sql.as_ref()).encode(&mut payload, session.capabilities);
        Self::of(session, CommandCode::QUERY, Form::Made(payload.freeze()))
    }

    /// A command of `filter`'s own, in the same session. Facts stay with the original. For a
    /// statement there is [`Self::aside_query`].
    pub fn aside(
        &self,
        filter: &'static str,
        code: CommandCode,
        payload: impl AsRef<[u8]>,
    ) -> Self {
        self.aside_of(Self::new(self.0.session.clone(), code, payload), filter)
    }

    /// A text query of `filter`'s own, in the same session. Facts stay with the original.
    pub fn aside_query(&self, filter: &'static str, sql: impl AsRef<[u8]>) -> Self {
        self.aside_of(Self::query(self.0.session.clone(), sql), filter)
    }

    fn aside_of(&self, mut made: Self, filter: &'static str) -> Self {
        made.0.trail = self.0.trail.clone();
        made.asked_by(Asker::Filter(filter))
    }

    /// The same bytes once more, asked by `filter` in `session`. Facts stay with the original.
    pub fn copy(&self, filter: &'static str, session: Session) -> Self {
        let form = match &self.0.form {
            Form::AsCame { message, .. } => {
                Form::AsCame { message: message.clone(), payload: OnceLock::new() }
            }
            Form::Made(payload) => Form::Made(payload.clone()),
        };
        Self::of(session, self.0.code, form).asked_by(Asker::Filter(filter))
    }

    fn of(session: Session, code: CommandCode, form: Form) -> Self {
        let facts = Facts::default();
        let verb = OnceLock::new();
        let (asker, trail, measured) = (Asker::Client, None, false);
        Self(Box::new(Inner { code, form, asker, session, facts, verb, trail, measured }))
    }

    /// Attaches a fact for the filters below, replacing one of the same type.
    pub fn with<F: Fact>(mut self, fact: F) -> Self {
        self.0.facts.insert(fact);
        self
    }

    /// Attaches a fact for the filters below, replacing one of the same type.
    pub fn note<F: Fact>(&mut self, fact: F) {
        self.0.facts.insert(fact);
    }

    /// What a filter above has found out.
    pub fn fact<F: Fact>(&self) -> Option<&F> {
        self.0.facts.get()
    }

    /// Leaves a trail: whoever does something for this command, or for one that a filter asks on
    /// its behalf ([`Self::aside`]), finds it there. A [`copy`](Self::copy) has none.
    #[must_use]
    pub fn trailing(mut self, trail: Arc<dyn Any + Send + Sync>) -> Self {
        self.0.trail = Some(trail);
        self
    }

    /// The trail that it leaves, if it is a `T`. `None` for most commands.
    pub fn trail<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::downcast(self.0.trail.clone()?).ok()
    }

    /// Takes a fact off again, for whoever it was meant for.
    pub fn take<F: Fact>(&mut self) -> Option<F> {
        self.0.facts.take()
    }

    /// The command byte.
    pub fn code(&self) -> CommandCode {
        self.0.code
    }

    /// Everything after the command byte, untouched unless a filter rewrote it. Free for a command
    /// of one packet; the parts of one over 16 MiB are joined at the first call.
    pub fn payload(&self) -> &[u8] {
        &self.whole()[1..]
    }

    /// The statement's text, if the command carries one (COM_QUERY behind its attributes,
    /// COM_STMT_PREPARE). `None` also when the attributes are malformed: the server will say so.
    pub fn sql(&self) -> Option<Bytes> {
        self.text().map(|text| self.whole().slice_ref(text))
    }

    /// [`Self::sql`] for who only looks at it.
    pub fn text(&self) -> Option<&[u8]> {
        let whole = self.whole();
        match self.0.code {
            CommandCode::QUERY => {
                Query::decode(whole, self.0.session.capabilities).ok().map(|query| query.sql)
            }
            CommandCode::STMT_PREPARE => whole.get(1..),
            _ => None,
        }
    }

    /// The first word of its text, looked at once. [`Verb::Unknown`] without a text, and for one of
    /// several packets: it would have to be joined to be looked at.
    pub fn verb(&self) -> Verb {
        *self.0.verb.get_or_init(|| match self.reply_seq() {
            1 => self.text().map_or(Verb::Unknown, sql::peek),
            _ => Verb::Unknown,
        })
    }

    /// Replaces everything after the command byte.
    pub fn rewrite(&mut self, payload: impl AsRef<[u8]>) {
        self.0.form = made(self.0.code, payload.as_ref());
        self.0.verb = OnceLock::new();
    }

    /// Replaces the statement's text and keeps what stands before it (query attributes). Does
    /// nothing to a command that has no text.
    pub fn rewrite_sql(&mut self, sql: impl AsRef<[u8]>) {
        let Some(old) = self.sql() else { return };
        let (whole, sql) = (self.whole(), sql.as_ref());
        let before = whole.len() - old.len();
        let mut payload = BytesMut::with_capacity(before + sql.len());
        payload.put_slice(&whole[..before]);
        payload.put_slice(sql);
        self.0.form = Form::Made(payload.freeze());
        self.0.verb = OnceLock::new();
    }

    /// The packets to send, headers included: the client's own bytes unless a filter rewrote them.
    pub fn packets(&self) -> Bytes {
        match &self.0.form {
            Form::AsCame { message, .. } => message.framed.clone(),
            Form::Made(payload) => {
                let mut out = BytesMut::with_capacity(payload.len() + 16);
                put_packet(&mut out, 0, payload);
                out.freeze()
            }
        }
    }

    /// The sequence id that the client expects its reply to begin with. A server counts on from
    /// what it was sent, which may be fewer packets, or more, where a filter rewrote a command of
    /// 16 MiB.
    pub fn reply_seq(&self) -> u8 {
        match &self.0.form {
            Form::AsCame { message, .. } => message.next_seq,
            Form::Made(_) => 1,
        }
    }

    /// The same command, asked by somebody else.
    #[must_use]
    pub fn asked_by(mut self, asker: Asker) -> Self {
        self.0.asker = asker;
        self
    }

    /// What filters take of it is measured.
    pub(crate) fn measure(&mut self) {
        self.0.measured = true;
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.0.measured
    }

    /// Who asks.
    pub fn asker(&self) -> Asker {
        self.0.asker
    }

    /// The session it came from.
    pub fn session(&self) -> &Session {
        &self.0.session
    }

    /// The command byte and everything after it, as the decoders of [`wire::command`] take it.
    pub fn whole(&self) -> &Bytes {
        match &self.0.form {
            Form::Made(payload) => payload,
            Form::AsCame { message, payload } => payload.get_or_init(|| message.payload()),
        }
    }
}

fn made(code: CommandCode, payload: &[u8]) -> Form {
    let mut whole = BytesMut::with_capacity(payload.len() + 1);
    whole.put_u8(code.0);
    whole.put_slice(payload);
    Form::Made(whole.freeze())
}

/// Names the command and its size. A statement may hold secrets, so its text is not shown.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, {:?})", self.0.code.name(), self.payload().len(), self.0.asker)
    }
}
