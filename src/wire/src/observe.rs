//! What a client asked and how the server answered, from copies of both directions' bytes.
//!
//! ```text
//! client's bytes ─▶ heads of packets ─▶ commands that wait for their replies
//! server's bytes ─▶ reply scanner    ─▶ the oldest of them is answered
//! ```
//!
//! Looks at headers and first bytes, and keeps no payload unless it is asked to keep the beginnings of
//! texts: some kilobytes whatever passes. Bytes must be plain: those of compressed frames and of TLS
//! are no packets. Where it cannot follow (packets out of order, a reply to nothing, more pipelined
//! commands than it remembers) it falls silent for good.
//!
//! Source: MySQL Internals, "Command Phase".

mod heads;
mod texts;

pub(crate) use heads::Commands;
pub use texts::{KEPT_PREPARED, KEPT_WAITING, Text};

use crate::{
    Capabilities, CommandCode, ReplyScanner, Scan, Status,
    command::statement::statement_id,
    err, ok,
    reply::{ErrHead, ReplyEnd},
};
use heads::{Head, Heads};
use std::collections::VecDeque;
use texts::Texts;

/// Follows one connection from between two commands on. `M` is a mark of the caller's with all bytes,
/// a time for instance, that comes back with what was seen in them.
#[derive(Debug)]
pub struct Observer<M> {
    requests: Heads,
    commands: Commands,
    /// Commands whose replies have not ended, oldest first.
    waiting: VecDeque<Waiting<M>>,
    texts: Texts,
    reply: ReplyScanner,
    /// The conversation of a COM_CHANGE_USER, if it is that which is answered.
    login: Login,
    /// When the reply under way began, and how many bytes of it have passed.
    begun: Option<M>,
    bytes: u64,
    /// A binary log is streamed: what the client says meanwhile are acknowledgements.
    dumping: bool,
    silent: bool,
}

/// What has been seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// A command begins.
    Asked(CommandCode),
    /// The server asks for a file (LOCAL INFILE): what the client sends next is one.
    FileAsked,
    /// The reply to a command has ended. Commands without a reply give no such event.
    Answered(Asked<M>, Answer<M>),
    /// The connection is over, or cannot be followed any more, and the reply to this command had not
    /// ended.
    Unanswered(Asked<M>),
}

/// A command that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked<M> {
    /// The command.
    pub command: CommandCode,
    /// What the caller said with the bytes that the command began in.
    pub mark: M,
    /// The text that it brings or names, if texts are kept and there was room for this one.
    pub text: Option<Text>,
}

/// How it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<M> {
    /// What the caller said with the first bytes of the reply.
    pub begun: M,
    /// Bytes of the reply, its packets' headers included.
    pub bytes: u64,
    /// The error that the reply ended with, if it did.
    pub error: Option<ErrHead>,
    /// The session's status, where the reply says it.
    pub status: Option<Status>,
}

#[derive(Debug)]
struct Waiting<M> {
    asked: Asked<M>,
    /// A cursor was asked for.
    cursor: bool,
    /// The statement that it names, where the text of that is not known yet.
    names: Option<u32>,
}

/// How far a login is.
#[derive(Clone, Debug, Default)]
struct Login {
    packets: Heads,
    /// It has been decided; the packet that says so has not ended.
    decided: Option<Option<ErrHead>>,
}

impl<M: Copy> Observer<M> {
    /// How many commands may wait for their replies.
    pub const WAITING: usize = 1024;

    /// For a connection with these negotiated capabilities, on which nothing is under way.
    #[must_use]
    pub fn new(caps: Capabilities) -> Self {
        Self {
            requests: Heads::default(),
            commands: Commands::default(),
            waiting: VecDeque::new(),
            texts: Texts::default(),
            reply: ReplyScanner::new(CommandCode::SLEEP, caps).keeping_numbers(),
            login: Login::default(),
            begun: None,
            bytes: 0,
            dumping: false,
            silent: false,
        }
    }

    /// Keeps the first `limit` bytes of what commands with a text bring, the command byte included,
    /// until they are answered, and of statements that are prepared until they are closed. There is
    /// a bound for all of them together: [`KEPT_WAITING`], [`KEPT_PREPARED`].
    #[must_use]
    pub fn keeping_texts(mut self, limit: usize) -> Self {
        self.texts = Texts::up_to(limit);
        self
    }

    /// Whether it says nothing any more, because it could not follow.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Takes bytes that the client has sent. They must be given before what the server says to
    /// them.
    pub fn client(&mut self, mut bytes: &[u8], mark: M, mut tell: impl FnMut(Event<M>)) {
        while !self.silent {
            self.texts.collect(&mut self.requests, &mut bytes);
            let Some(head) = self.requests.next(&mut bytes) else { return };
            if !self.commands.begin_with(head.header) || self.dumping {
                continue;
            }
            match CommandCode::of(head.payload()) {
                Some(command) => {
                    tell(Event::Asked(command));
                    self.ask(command, mark, &head, &mut tell);
                }
                None => self.fall_silent(&mut tell),
            }
        }
    }

    /// Takes bytes that the server has sent.
    pub fn server(&mut self, mut bytes: &[u8], mark: M, mut tell: impl FnMut(Event<M>)) {
        while !self.silent && !bytes.is_empty() {
            let Some(waiting) = self.waiting.front() else { return self.fall_silent(&mut tell) };
            self.begun.get_or_insert(mark);
            if waiting.asked.command == CommandCode::CHANGE_USER {
                let before = bytes.len();
                let ended = self.login.end(&mut bytes);
                self.bytes += (before - bytes.len()) as u64;
                if let Some(error) = ended {
                    self.answered(mark, ReplyEnd { error, ..ReplyEnd::default() }, &mut tell);
                }
                continue;
            }
            let (at, ended) = match self.reply.scan(bytes) {
                Ok(Scan::More) => (bytes.len(), None),
                Ok(Scan::Upload { at }) => {
                    self.commands.expect_file();
                    tell(Event::FileAsked);
                    (at, None)
                }
                Ok(Scan::End { at, end }) => (at, Some(end)),
                Err(_) => return self.fall_silent(&mut tell),
            };
            self.bytes += at as u64;
            bytes = &bytes[at..];
            if let Some(end) = ended {
                self.answered(mark, end, &mut tell);
            }
        }
    }

    /// Nothing more will come: gives the commands whose replies have not ended, and falls silent.
    pub fn end(&mut self, mut tell: impl FnMut(Event<M>)) {
        self.fall_silent(&mut tell);
    }

    fn ask(&mut self, command: CommandCode, mark: M, head: &Head, tell: &mut impl FnMut(Event<M>)) {
        if command == CommandCode::STMT_CLOSE {
            self.texts.close(statement_id(head.payload()));
        }
        if !command.has_reply() {
            return;
        }
        if self.waiting.len() == Self::WAITING {
            return self.fall_silent(tell);
        }
        self.dumping = matches!(command, CommandCode::BINLOG_DUMP | CommandCode::BINLOG_DUMP_GTID);
        let flags = head.payload().get(5).copied().unwrap_or_default();
        let cursor = command == CommandCode::STMT_EXECUTE && flags & 0b111 != 0;
        let mut waiting =
            Waiting { asked: Asked { command, mark, text: None }, cursor, names: None };
        if names_statement(command) {
            waiting.names = statement_id(head.payload());
            waiting.asked.text = self.texts.named(waiting.names);
        } else {
            self.texts.begin(command, head);
        }
        self.waiting.push_back(waiting);
        if self.waiting.len() == 1 {
            self.begin_reply();
        }
    }

    fn answered(&mut self, mark: M, end: ReplyEnd, tell: &mut impl FnMut(Event<M>)) {
        let Some(Waiting { mut asked, names, .. }) = self.waiting.pop_front() else { return };
        asked.text = self.texts.answered(asked.command, asked.text, names);
        match asked.command {
            CommandCode::STMT_PREPARE => {
                let id = self.reply.prepared().map(|prepared| prepared.id);
                self.texts.prepared(id.filter(|_| end.error.is_none()), asked.text.as_ref());
            }
            CommandCode::RESET_CONNECTION | CommandCode::CHANGE_USER if end.error.is_none() => {
                self.texts.close_all();
            }
            _ => {}
        }
        // None can have come behind one that streams a log.
        self.dumping &= !self.waiting.is_empty();
        let begun = self.begun.take().unwrap_or(mark);
        let bytes = std::mem::take(&mut self.bytes);
        let ReplyEnd { error, status, .. } = end;
        tell(Event::Answered(asked, Answer { begun, bytes, error, status }));
        self.begin_reply();
    }

    /// Makes ready for the reply to the oldest command.
    fn begin_reply(&mut self) {
        let Some(waiting) = self.waiting.front() else { return };
        self.login = Login::default();
        self.reply.restart(waiting.asked.command);
        self.reply.expect_cursor(waiting.cursor);
    }

    fn fall_silent(&mut self, tell: &mut impl FnMut(Event<M>)) {
        self.silent = true;
        for Waiting { mut asked, names, .. } in std::mem::take(&mut self.waiting) {
            asked.text = self.texts.answered(asked.command, asked.text, names);
            tell(Event::Unanswered(asked));
        }
        self.texts = Texts::default();
    }
}

/// Whether a command goes on with a statement that was prepared before it.
fn names_statement(command: CommandCode) -> bool {
    matches!(
        command,
        CommandCode::STMT_EXECUTE
            | CommandCode::STMT_BULK_EXECUTE
            | CommandCode::STMT_FETCH
            | CommandCode::STMT_RESET
    )
}

impl Login {
    /// Takes bytes up to the end of the packet that decides, and gives the error if that is one;
    /// `None` if all bytes belong to the conversation.
    fn end(&mut self, bytes: &mut &[u8]) -> Option<Option<ErrHead>> {
        while self.decided.is_none() {
            let head = self.packets.next(bytes)?;
            self.decided = match head.payload().first() {
                Some(&ok::HEADER) => Some(None),
                Some(&err::HEADER) => Some(Some(ErrHead::or_general(head.payload()))),
                _ => None,
            };
        }
        if self.packets.finish(bytes) { self.decided.take() } else { None }
    }
}
