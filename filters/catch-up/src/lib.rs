//! The `catch-up` filter: brings one connection to what its session has set before a command runs
//! there.
//!
//! The log of the session comes with the command (`session-commands` above writes it); which part
//! of it this connection has executed is one number. What is missing is executed first, in order,
//! and each reply is compared with what the log says. Only then is the command sent.
//!
//! Prepared statements have ids of the session above this filter and ids of the server below it.

#![deny(missing_docs)]

mod ids;
mod verify;

use bytes::Bytes;
use chain::{
    Answer, Command, Error, FilterFactory, Outcome, Part, Reply, Result, Stack,
    error::CatchUpFailed,
    facts::{Fact, LogEntry, Lsn, SessionLog, StatementIds, Target, This, Verdict},
    lend::{Lend, Loan},
    registry::IntoLayer,
    stack::Calling,
};
use ids::Ids;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};
use tower::{BoxError, Layer, Service, ServiceExt};
use verify::verify;
use wire::{
    command::CommandCode,
    err::{ErrPacket, codes},
};

/// Names this filter in a registry, and is its layer.
#[derive(Clone, Copy, Debug)]
pub struct Factory;

/// The filter has no settings.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl FilterFactory for Factory {
    const NAME: &'static str = "catch-up";
    const NEEDS: &'static [&'static str] = &[SessionLog::NAME];
    const PART: Part = Part::Backend;

    type Config = Config;

    fn build(Config {}: Config) -> Result<impl IntoLayer, BoxError> {
        Ok(Self)
    }
}

impl Layer<Stack> for Factory {
    type Service = CatchUp;

    fn layer(&self, below: Stack) -> CatchUp {
        CatchUp(Lend::new(Connection { below, applied: 0, ids: Ids::default(), pending: None }))
    }
}

/// The filter on one connection.
#[derive(Debug)]
pub struct CatchUp(Lend<Connection>);

#[derive(Debug)]
struct Connection {
    below: Stack,
    /// Everything in the log up to here has been executed.
    applied: Lsn,
    ids: Ids,
    /// The session's own command whose reply may still be on its way.
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    this: This,
    code: CommandCode,
    seen: Arc<OnceLock<Seen>>,
}

/// How the reply has ended.
#[derive(Debug, Default)]
struct Seen {
    failed: bool,
    /// The server's id of a statement.
    id: Option<u32>,
}

/// Longest reply to an entry of the log: definitions of 65,535 parameters and as many columns.
const REPLY_LIMIT: usize = 1 << 26;

impl Service<Command> for CatchUp {
    type Response = Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.0.poll_home(cx))?.below.poll_ready(cx)
    }

    fn call(&mut self, command: Command) -> Calling {
        let connection = self.0.home();
        connection.settle();
        if connection.is_plain(&command) {
            return connection.below.call(command);
        }
        Box::pin(run(self.0.lend(), command))
    }
}

async fn run(mut connection: Loan<Connection>, mut command: Command) -> Result<Reply> {
    let connection = &mut *connection;
    let log = command.fact::<SessionLog>().cloned();
    if let Some(log) = &log
        && command.code() != CommandCode::STMT_CLOSE
    {
        connection.catch_up(&command, log).await?;
    }
    if let Some(answer) = connection.ids.translate(&mut command) {
        return Ok(answer);
    }
    let code = command.code();
    connection.below.ready().await?;
    let reply = connection.below.call(command).await?;
    if reply.is_handover() {
        return Ok(reply.with(StatementIds(connection.ids.pairs())));
    }
    let Some(this) = log.and_then(|log| log.this) else { return Ok(reply) };
    let seen = Arc::new(OnceLock::new());
    connection.pending = Some(Pending { this, code, seen: seen.clone() });
    Ok(ids::watch(reply, this.statement, seen))
}

impl Connection {
    /// Whether nothing is to be done for this command.
    fn is_plain(&self, command: &Command) -> bool {
        let log = command.fact::<SessionLog>();
        log.is_none_or(|log| log.this.is_none() && log.head() <= self.applied)
            && !ids::names_statement(command.code())
            && command.fact::<chain::facts::FastForward>().is_none()
    }

    /// Takes in what the session's own command has done here.
    fn settle(&mut self) {
        let Some(Pending { this, code, seen }) = self.pending.take() else { return };
        let Some(seen) = seen.get().filter(|seen| !seen.failed) else { return };
        self.applied = this.lsn;
        if code == CommandCode::RESET_CONNECTION {
            self.ids = Ids::default();
        }
        if let (Some(session), Some(server)) = (this.statement, seen.id) {
            self.ids.insert(session, server);
        }
    }

    /// Executes what this connection lacks, and sees that it means here what it meant where it was
    /// executed first.
    async fn catch_up(&mut self, command: &Command, log: &SessionLog) -> Result<()> {
        for entry in log.behind(self.applied) {
            let sent = match entry.code {
                CommandCode::QUERY => command.aside_query("catch-up", &entry.payload),
                code => command.aside("catch-up", code, &entry.payload),
            };
            let answer = self.execute(sent).await.map_err(broke)?;
            match witnessed(command, entry, &answer).unwrap_or_else(|| verify(entry, &answer)) {
                Verdict::Same => {}
                Verdict::Prepared { id, server } => self.ids.insert(id, server),
                Verdict::Broken { id, error } => self.ids.broken(id, error),
                Verdict::Other(error) => return Err(failure(&error)),
            }
            if entry.code == CommandCode::RESET_CONNECTION {
                self.ids = Ids::default();
            }
            self.applied = entry.lsn;
        }
        Ok(())
    }

    async fn execute(&mut self, command: Command) -> Result<Answer> {
        let reply = self.below.ready().await?.call(command).await?;
        match reply.into_outcome() {
            Outcome::Body(body) => body.collect(REPLY_LIMIT).await,
            Outcome::Handover(_) => Err(Error::filter("handed over below catch-up")),
        }
    }
}

/// What somebody who knows more says of the answer of this connection's server.
fn witnessed(command: &Command, entry: &LogEntry, answer: &Answer) -> Option<Verdict> {
    let Target { server, .. } = command.fact()?;
    entry.witness.as_ref()?.saw(server, answer)
}

/// A connection that is lost in the midst of it has not been sent the command.
fn broke(error: Error) -> Error {
    let (code, sqlstate) = (error.code(), error.sqlstate());
    Error::backend(CatchUpFailed(error.message())).with_code(code, sqlstate)
}

/// The error for a session command that is not true here.
fn failure(error: &Bytes) -> Error {
    let error = ErrPacket::decode(error)
        .unwrap_or_else(|_| ErrPacket::new(codes::ER_UNKNOWN_STMT_HANDLER, "an unreadable reply"));
    let text = format!("deferred session command failed: {}", error.message_lossy());
    Error::backend(CatchUpFailed(text)).with_code(error.code, error.sqlstate)
}
