//! One session's filter.

use crate::{
    log,
    pattern::REPLACED_LIMIT,
    rule::Outcome,
    set::RuleSet,
    walk::{Asked, Seat},
};
use chain::{
    Command, Error, Reply, Result, Session, Stack,
    command::Asker,
    facts::{Explain, RuleVerdict, Statement},
    lend::Lend,
    live::Current,
    moving::Moves,
    stack::Calling,
};
use std::{
    task::{Context, Poll, ready},
    time::Duration,
};
use tower::{Service, ServiceExt};
use wire::{
    command::CommandCode,
    err::{ErrPacket, codes},
    ok::OkPacket,
    status::Status,
};

/// Asks the rules about each command of a client's.
pub(crate) struct Rules {
    set: Current<RuleSet>,
    seat: Seat,
    below: Lend<Stack>,
}

/// Which rules may match a command, and what they may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It runs or prepares a statement: all of them, all of it.
    Statement,
    /// It has no text: those that ask for none, and they do not answer it.
    Textless,
    /// It goes with a statement that runs by itself: all of them, for the hostgroup only.
    Companion,
    /// None.
    Passing,
}

impl Kind {
    fn of(command: &Command) -> Self {
        let has_statement = command.fact::<Statement>().is_some();
        match command.code() {
            _ if command.asker() != Asker::Client => Self::Passing,
            CommandCode::STMT_FETCH
            | CommandCode::STMT_RESET
            | CommandCode::STMT_SEND_LONG_DATA
            | CommandCode::STMT_CLOSE => {
                if has_statement {
                    Self::Companion
                } else {
                    Self::Passing
                }
            }
            _ if has_statement => Self::Statement,
            code if code.has_reply() => Self::Textless,
            _ => Self::Passing,
        }
    }
}

impl Rules {
    pub(crate) fn new(set: Current<RuleSet>, below: Stack) -> Self {
        Self { set, seat: Seat::new(), below: Lend::new(below) }
    }

    fn decide(&mut self, command: &Command, kind: Kind) -> Option<Outcome> {
        if self.set.renew(command.session()) {
            self.seat.ask_anew();
        }
        let asked = Asked {
            session: command.session(),
            statement: command.fact(),
            counts: kind != Kind::Companion,
            explain: command.fact(),
        };
        if kind != Kind::Companion {
            return self.set.get().decide(asked, &mut self.seat);
        }
        let next = self.seat.next_flag;
        let outcome = self.set.get().decide(asked, &mut self.seat);
        self.seat.next_flag = next;
        outcome.map(|Outcome { verdict, .. }| {
            let RuleVerdict { rules, hostgroup, .. } = verdict;
            let verdict = RuleVerdict { rules, hostgroup, ..RuleVerdict::default() };
            Outcome { verdict, ..Outcome::default() }
        })
    }
}

impl Moves for Rules {
    fn inherit(&mut self, from: &mut Self, _: bool) {
        self.seat.next_flag = from.seat.next_flag;
    }

    fn below(&mut self) -> Option<&mut Stack> {
        self.below.at_home()
    }
}

impl Service<Command> for Rules {
    type Response = Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.below.poll_home(cx))?.poll_ready(cx)
    }

    fn call(&mut self, mut command: Command) -> Calling {
        let kind = Kind::of(&command);
        let outcome = if kind == Kind::Passing { None } else { self.decide(&command, kind) };
        if command.code() == CommandCode::RESET_CONNECTION {
            self.seat.next_flag = 0;
        }
        let Some(outcome) = outcome else { return self.below.home().call(command) };
        let watch =
            (outcome.verdict.log == Some(true)).then(|| log::Watch::begin(&command, &outcome));
        if kind == Kind::Statement
            && let Some(answer) = answer(&command, &outcome)
        {
            // Nothing below hears which rules it was.
            let answer = answer.map(|reply| reply.with(outcome.verdict));
            let answer = if let Some(watch) = watch { watch.reply(answer) } else { answer };
            return Box::pin(std::future::ready(answer));
        }
        let waits = |delay: &Duration| !delay.is_zero() && command.fact::<Explain>().is_none();
        let delay = outcome.delay.filter(waits);
        rewrite(&mut command, outcome);
        match (delay, watch) {
            (None, None) => self.below.home().call(command),
            (delay, watch) => self.watched(command, delay, watch),
        }
    }
}

impl Rules {
    /// Sends a command on after `delay`, and reports its reply's end.
    fn watched(
        &mut self,
        command: Command,
        delay: Option<Duration>,
        watch: Option<log::Watch>,
    ) -> Calling {
        let mut below = self.below.lend();
        Box::pin(async move {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
                // What was ready before may be so no more.
                below.ready().await?;
            }
            let reply = below.call(command).await;
            if let Some(watch) = watch { watch.reply(reply) } else { reply }
        })
    }
}

/// What the rules answer by themselves. A statement that is only prepared gets no `OK_msg`, as an
/// OK is not the answer to it: its runs do.
fn answer(command: &Command, outcome: &Outcome) -> Option<Result<Reply>> {
    if let Some(text) = &outcome.ok {
        if command.code() != CommandCode::STMT_PREPARE {
            let status = status(command.session());
            let ok = OkPacket { status, info: text.as_bytes().to_vec(), ..OkPacket::default() };
            return Some(Ok(Reply::ok_packet(command, &ok)));
        }
    } else if let Some(text) = &outcome.error {
        let err = ErrPacket::new(codes::ER_NOT_ALLOWED_COMMAND, text.as_bytes().to_vec());
        return Some(Ok(Reply::err(command, &err)));
    }
    outcome.too_long.then(|| {
        let error = format!("a rule would make this statement longer than {REPLACED_LIMIT} bytes");
        let code = codes::ER_NET_PACKET_TOO_LARGE;
        Err(Error::filter(error).with_code(code.code, code.sqlstate))
    })
}

/// What the session is in, without what is about the last reply.
fn status(session: &Session) -> Status {
    let lasting = Status::AUTOCOMMIT
        | Status::IN_TRANS
        | Status::IN_TRANS_READONLY
        | Status::NO_BACKSLASH_ESCAPES
        | Status::ANSI_QUOTES;
    session.status() & lasting
}

/// Puts on the command what was decided.
fn rewrite(command: &mut Command, Outcome { verdict, text, .. }: Outcome) {
    if let Some(text) = text {
        let text = bytes::Bytes::from(text);
        // A prepared statement was rewritten when it was prepared; what it is has changed all the
        // same.
        let statement = command.fact::<Statement>().map(|old| old.rewritten(text.clone()));
        command.rewrite_sql(&text);
        if let Some(statement) = statement {
            command.note(statement);
        }
    }
    command.note(verdict);
}
