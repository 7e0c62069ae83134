//! The `parse` filter: says what a command is, to whoever asks.
//!
//! It attaches [`Statement`] to every command that carries SQL or names a prepared statement: then
//! it is the one that was prepared. The text is looked at when a filter below first asks, once, and
//! not at all if none does; the command itself goes on as it came.
//!
//! How a text is read depends on the session, and the filter takes what the proxy knows of it:
//! NO_BACKSLASH_ESCAPES and (from MariaDB) ANSI_QUOTES from the last reply's status flags, the
//! charset from the handshake, and what the session's own SETs change about either. What it cannot
//! know is in [`Settings`].

#![deny(missing_docs)]

mod prepared;
mod reading;

use bytes::Bytes;
use chain::{
    Command, Error, FilterFactory, Result, Session, Stack,
    facts::{Fact, Shelf, Statement},
    moving::Moves,
    registry::IntoLayer,
    stack::Calling,
};
use prepared::Prepared;
use reading::Now;
use schemars::JsonSchema;
use serde::Deserialize;
use sql::{Charset, DIGEST_LIMIT, Dialect, Server};
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use tower::{BoxError, Layer, Service};
use wire::{command::CommandCode, status::Status};

/// The settings of `{ use = "parse" }`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The servers' version, as `SELECT VERSION()` prints it ("8.4.3", "10.11.6-MariaDB"). Decides
    /// which executable comments are code and which functions are the server's own. Without it, a
    /// read that depends on either counts as a write.
    pub server: Option<String>,
    /// Whether ANSI_QUOTES is in the `sql_mode` that sessions begin with. MariaDB says so itself,
    /// MySQL does not; what a session sets is read off its statements.
    pub ansi_quotes: bool,
    /// How long a digest's text may be, in bytes; what is beyond it counts for nothing.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub digest_limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { server: None, ansi_quotes: false, digest_limit: DIGEST_LIMIT }
    }
}

/// The filter, as the registry knows it, and its layer.
#[derive(Clone, Debug, Default)]
pub struct Parse {
    dialect: Dialect,
    digest_limit: usize,
    shelf: Arc<Shelf>,
}

impl FilterFactory for Parse {
    const NAME: &'static str = "parse";
    const GIVES: &'static [&'static str] = &[Statement::NAME];

    type Config = Settings;

    fn build(settings: Settings) -> Result<impl IntoLayer, BoxError> {
        let digest_limit = settings.digest_limit;
        let server = settings.server.as_deref().map(version).transpose()?;
        let dialect = Dialect { server, ansi_quotes: settings.ansi_quotes, ..Dialect::default() };
        let parse = Self { dialect, digest_limit, shelf: Arc::default() };
        Ok(chain::Layer::new(parse).from_login())
    }
}

impl Layer<Stack> for Parse {
    type Service = Stack;

    fn layer(&self, inner: Stack) -> Stack {
        let parse = self.clone();
        Stack::moving(Parsing { parse, inner, prepared: None, now: Now::default() })
    }
}

/// One session's filter.
#[derive(Debug)]
pub struct Parsing {
    /// As configured; the session's state is added for each command.
    parse: Parse,
    inner: Stack,
    /// Made with the first statement that is prepared.
    prepared: Option<Box<Prepared>>,
    now: Now,
}

impl Moves for Parsing {
    fn inherit(&mut self, from: &mut Self, _: bool) {
        self.prepared = from.prepared.take();
        self.now = std::mem::take(&mut from.now);
    }

    fn below(&mut self) -> Option<&mut Stack> {
        Some(&mut self.inner)
    }
}

impl Service<Command> for Parsing {
    type Response = chain::Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut command: Command) -> Calling {
        self.now.settle(&command);
        if command.code() == CommandCode::STMT_PREPARE {
            return self.prepare(command);
        }
        if let Some(text) = command.sql() {
            command.note(self.statement(&command, text));
        } else if let Some(prepared) = &mut self.prepared
            && let Some(statement) = prepared.named(command.code(), command.whole())
        {
            command.note(statement);
        }
        let Some(watch) = self.now.begin(&command) else { return self.inner.call(command) };
        let reply = self.inner.call(command);
        Box::pin(async move { Ok(watch.reply(reply.await?)) })
    }
}

impl Parsing {
    fn statement(&self, command: &Command, text: Bytes) -> Statement {
        let session = command.session();
        let told = session.status().contains(Status::ANSI_QUOTES);
        let dialect = self.now.apply(in_session(self.parse.dialect, session), told);
        Statement::with_digest_limit(text, dialect, self.parse.digest_limit)
    }

    /// Sends a statement on to be prepared, and keeps it under the id that its reply names.
    fn prepare(&mut self, mut command: Command) -> Calling {
        let text = command.sql().unwrap_or_default();
        // The text stays for long: it must not keep the buffer that it was read into.
        let kept = self.parse.shelf.keep(self.statement(&command, Bytes::copy_from_slice(&text)));
        command.note(kept.statement());
        let reader = self.prepared.get_or_insert_default().begin(kept);
        let reply = self.inner.call(command);
        Box::pin(async move { Ok(reader.watch(reply.await?)) })
    }
}

fn in_session(configured: Dialect, session: &Session) -> Dialect {
    Dialect {
        no_backslash_escapes: session.status().contains(Status::NO_BACKSLASH_ESCAPES),
        charset: Charset::of_collation(session.collation),
        ..configured
    }
}

fn version(text: &str) -> Result<Server, String> {
    Server::from_version(text).ok_or_else(|| {
        format!("{text:?} is not a server's version, as \"8.4.3\" or \"10.11.6-MariaDB\" are")
    })
}
