//! What a filter's own tests need: a session that exists nowhere, a client and a bottom without
//! sockets.

use crate::{
    Answer, Body, Chain, Command, End, Error, FilterFactory, HostgroupId, Outcome, Registry, Reply,
    Stack,
    error::Result,
    facts::StickyMode,
    facts::{Answers, Fact, Preamble, Statement},
    moving::Moves,
    registry::IntoLayer,
    session::{Peer, Session, View},
    topology::{Hostgroup, Server, Topology},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    future::{Ready, ready},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};
use tower::{BoxError, Service, ServiceExt};
use wire::{attributes::Attributes, capability::Capabilities, status::Status};

/// A session that exists nowhere, in hostgroup 0 of a topology with two servers.
pub fn session() -> Session {
    let servers = ["db1", "db2"].into_iter().zip(1..);
    let servers = servers.map(|(name, id)| Arc::new(Server::new(id, name, 1))).collect();
    let id = HostgroupId(0);
    session_of(Topology::new(vec![Hostgroup { id, name: None, servers }]))
}

/// A session that exists nowhere, in hostgroup 0 of `topology`.
pub fn session_of(topology: Topology) -> Session {
    Session::new(View {
        id: 1 << 31,
        user: "app".into(),
        schema: None,
        current_schema: None,
        peer: Peer::Tcp([127, 0, 0, 1].into(), 4711),
        destination: None,
        listener: "127.0.0.1:6033".into(),
        port: 6033,
        capabilities: Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS,
        collation: 45,
        attributes: Attributes::default(),
        hostgroup: HostgroupId(0),
        transaction_persistent: true,
        sticky: StickyMode::Off,
        fast_forward: false,
        topology: Arc::new(topology),
    })
}

/// Stands for the filter `parse`, which no other filter's tests know: gives the fact `statement` to
/// commands with a text, read as a server's that nobody knows.
#[derive(Debug)]
pub struct Statements;

/// No settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

impl FilterFactory for Statements {
    const NAME: &'static str = "parse";
    const GIVES: &'static [&'static str] = &[Statement::NAME];
    type Config = Nothing;

    fn build(_: Nothing) -> Result<impl IntoLayer, BoxError> {
        Ok(tower::layer::layer_fn(|below: Stack| {
            below.map_request(|mut command: Command| {
                if let Some(text) = command.sql() {
                    command.note(Statement::new(text, sql::Dialect::default()));
                }
                command
            })
        }))
    }
}

/// A layer that only passes on: for the name of a filter that another one wants beside it.
pub fn passes(_: Nothing) -> Result<tower::layer::util::Identity, BoxError> {
    Ok(tower::layer::util::Identity::new())
}

/// The chain that `text` describes: the keys `session` and `backend` of a `[chain.NAME]` table.
/// Its errors are the mistakes as a user would read them.
pub fn chain(text: &str, registry: &Registry) -> Result<Chain, crate::settings::Mistakes> {
    Chain::from_toml(text, registry)
}

/// The text of a query, for assertions.
pub fn text(command: &Command) -> String {
    let sql = command.sql();
    String::from_utf8_lossy(sql.as_deref().unwrap_or(command.payload())).into_owned()
}

/// A client that drives a stack to completion, for filters that do no I/O.
#[derive(Debug)]
pub struct Client {
    stack: Stack,
    session: Session,
}

impl Client {
    /// A client of `stack`.
    pub fn new(stack: Stack) -> Self {
        Self::with_session(stack, session())
    }

    /// A client of `stack` in `session`.
    pub fn with_session(stack: Stack, session: Session) -> Self {
        Self { stack, session }
    }

    /// Sends a query and reads its reply to the end.
    pub fn query(&mut self, sql: &str) -> Result<Answer> {
        self.send(Command::query(self.session.clone(), sql))
    }

    /// Sends a command and reads its reply to the end. As the session loop does, it keeps the
    /// status that the reply ended with.
    pub fn send(&mut self, command: Command) -> Result<Answer> {
        let stack = &mut self.stack;
        let run = async {
            match stack.ready().await?.call(command).await?.into_outcome() {
                Outcome::Body(body) => body.collect(usize::MAX).await,
                Outcome::Handover(_) => Err(Error::filter("handed over")),
            }
        };
        let mut run = std::pin::pin!(run);
        let Poll::Ready(answer) = run.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the stack waits for something; use an async test");
        };
        if let Ok(Answer { end: End { status: Some(status), .. }, .. }) = &answer {
            self.session.set_status(*status);
        }
        answer
    }
}

/// What reached the bottom of the chain.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Everything since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic while logging"))
    }

    /// Adds a line.
    pub fn push(&self, line: impl Into<String>) {
        self.0.lock().expect("no panic while logging").push(line.into());
    }
}

/// A bottom that logs every command and answers OK at once.
pub fn ok(log: Log) -> Stack {
    Stack::moving(Bottom(move |command: Command| {
        log.push(text(&command));
        Ok(Reply::new(Body::end(End { status: Some(Status::AUTOCOMMIT), ..End::default() })))
    }))
}

/// A bottom that answers with `answer`.
pub fn answering<F>(answer: F) -> Stack
where
    F: FnMut(Command) -> Result<Reply> + Send + 'static,
{
    Stack::moving(Bottom(answer))
}

/// The service behind [`ok`] and [`answering`], unboxed.
#[derive(Debug)]
pub struct Bottom<F>(pub F);

impl<F: FnMut(Command) -> Result<Reply>> Bottom<F> {
    fn answer(&mut self, command: Command) -> Result<Answer> {
        let Outcome::Body(body) = (self.0)(command)?.into_outcome() else {
            return Err(Error::filter("handed over"));
        };
        let mut answer = pin!(body.collect(usize::MAX));
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("an answer that is not whole"),
        }
    }
}

impl<F: FnMut(Command) -> Result<Reply> + Send + 'static> Moves for Bottom<F> {
    fn inherit(&mut self, _: &mut Self, _: bool) {}

    fn below(&mut self) -> Option<&mut Stack> {
        None
    }
}

impl<F: FnMut(Command) -> Result<Reply>> Service<Command> for Bottom<F> {
    type Response = Reply;
    type Error = Error;
    type Future = Ready<Result<Reply>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A preamble's commands are given like any others. What is answered must be whole.
    fn call(&mut self, mut command: Command) -> Self::Future {
        let Some(Preamble(before)) = command.take() else { return ready((self.0)(command)) };
        let answers: Result<Vec<Answer>> = before.into_iter().map(|one| self.answer(one)).collect();
        ready(answers.and_then(|answers| Ok((self.0)(command)?.with(Answers(answers)))))
    }
}
