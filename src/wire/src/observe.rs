//! What a client asked and how the server answered, from copies of both directions' bytes.
//!
//! ```text
//! client's bytes ─▶ heads of packets ─▶ commands that wait for their replies
//! server's bytes ─▶ reply scanner    ─▶ the oldest of them is answered
//! ```
//!
//! Looks at headers and first bytes, and keeps no payload: some kilobytes whatever passes. Bytes must
//! be plain: those of compressed frames and of TLS are no packets. Where it cannot follow (packets out
//! of order, a reply to nothing, more pipelined commands than it remembers) it falls silent for good.
//!
//! Source: MySQL Internals, "Command Phase".

mod heads;

pub(crate) use heads::Commands;

use crate::{
    Capabilities, CommandCode, ReplyScanner, Scan, err, ok,
    reply::{ErrHead, ReplyEnd},
};
use heads::Heads;
use std::collections::VecDeque;

/// Follows one connection from between two commands on. `M` is a mark of the caller's with each
/// command, a time for instance, that comes back with the answer.
#[derive(Debug)]
pub struct Observer<M> {
    requests: Heads,
    commands: Commands,
    /// Commands whose replies have not ended, oldest first.
    waiting: VecDeque<Asked<M>>,
    reply: ReplyScanner,
    /// The conversation of a COM_CHANGE_USER, if it is that which is answered.
    login: Login,
    /// A binary log is streamed: what the client says meanwhile are acknowledgements.
    dumping: bool,
    silent: bool,
}

/// What has been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// A command begins.
    Asked(CommandCode),
    /// The server asks for a file (LOCAL INFILE): what the client sends next is one.
    FileAsked,
    /// The reply to a command has ended. Commands without a reply give no such event.
    Answered {
        /// The command.
        command: CommandCode,
        /// What the caller said with the bytes that the command began in.
        mark: M,
        /// The error that the reply ended with, if it did.
        error: Option<ErrHead>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Asked<M> {
    command: CommandCode,
    /// A cursor was asked for.
    cursor: bool,
    mark: M,
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
            reply: ReplyScanner::new(CommandCode::SLEEP, caps).keeping_numbers(),
            login: Login::default(),
            dumping: false,
            silent: false,
        }
    }

    /// Whether it says nothing any more, because it could not follow.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Takes bytes that the client has sent. They must be given before what the server says to
    /// them.
    pub fn client(&mut self, mut bytes: &[u8], mark: M, mut tell: impl FnMut(Event<M>)) {
        while !self.silent
            && let Some(head) = self.requests.next(&mut bytes)
        {
            if !self.commands.begin_with(head.header) || self.dumping {
                continue;
            }
            match CommandCode::of(head.payload()) {
                Some(command) => {
                    tell(Event::Asked(command));
                    let flags = head.payload().get(5).copied().unwrap_or_default();
                    let cursor = command == CommandCode::STMT_EXECUTE && flags & 0b111 != 0;
                    self.ask(Asked { command, cursor, mark });
                }
                None => self.fall_silent(),
            }
        }
    }

    /// Takes bytes that the server has sent.
    pub fn server(&mut self, mut bytes: &[u8], mut tell: impl FnMut(Event<M>)) {
        while !self.silent && !bytes.is_empty() {
            let Some(asked) = self.waiting.front() else { return self.fall_silent() };
            if asked.command == CommandCode::CHANGE_USER {
                if let Some(error) = self.login.end(&mut bytes) {
                    self.answered(error, &mut tell);
                }
                continue;
            }
            match self.reply.scan(bytes) {
                Ok(Scan::More) => return,
                Ok(Scan::Upload { at }) => {
                    bytes = &bytes[at..];
                    self.commands.expect_file();
                    tell(Event::FileAsked);
                }
                Ok(Scan::End { at, end: ReplyEnd { error, .. } }) => {
                    bytes = &bytes[at..];
                    self.answered(error, &mut tell);
                }
                Err(_) => self.fall_silent(),
            }
        }
    }

    fn ask(&mut self, asked: Asked<M>) {
        if !asked.command.has_reply() {
            return;
        }
        if self.waiting.len() == Self::WAITING {
            return self.fall_silent();
        }
        self.dumping =
            matches!(asked.command, CommandCode::BINLOG_DUMP | CommandCode::BINLOG_DUMP_GTID);
        self.waiting.push_back(asked);
        if self.waiting.len() == 1 {
            self.begin_reply();
        }
    }

    fn answered(&mut self, error: Option<ErrHead>, tell: &mut impl FnMut(Event<M>)) {
        let Some(Asked { command, mark, .. }) = self.waiting.pop_front() else { return };
        // None can have come behind one that streams a log.
        self.dumping &= !self.waiting.is_empty();
        tell(Event::Answered { command, mark, error });
        self.begin_reply();
    }

    /// Makes ready for the reply to the oldest command.
    fn begin_reply(&mut self) {
        let Some(asked) = self.waiting.front() else { return };
        self.login = Login::default();
        self.reply.restart(asked.command);
        self.reply.expect_cursor(asked.cursor);
    }

    fn fall_silent(&mut self) {
        self.silent = true;
        self.waiting = VecDeque::new();
    }
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
