//! The `parse` filter: says what a command is, to whoever asks.
//!
//! It attaches [`Statement`] to every command that carries SQL. The text is looked at when a filter
//! below first asks, once, and not at all if none does; the command itself goes on as it came.
//!
//! How a text is read depends on the session, and the filter takes what the proxy knows of it:
//! NO_BACKSLASH_ESCAPES and (from MariaDB) ANSI_QUOTES from the last reply's status flags, the
//! charset from the handshake. What it cannot know is in [`Settings`].

#![deny(missing_docs)]

use chain::{
    Command, FilterFactory, Session,
    facts::{Fact, Statement},
    registry::IntoLayer,
};
use schemars::JsonSchema;
use serde::Deserialize;
use sql::{Charset, Dialect, Server};
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};
use wire::status::Status;

/// The settings of `{ use = "parse" }`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The servers' version, as `SELECT VERSION()` prints it ("8.4.3", "10.11.6-MariaDB"). Decides
    /// which executable comments are code and which functions are the server's own. Without it, a
    /// read that depends on either counts as a write.
    pub server: Option<String>,
    /// Whether ANSI_QUOTES is in the sessions' `sql_mode`. MariaDB says so itself, MySQL does not.
    pub ansi_quotes: bool,
}

/// The filter, as the registry knows it, and its layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parse {
    dialect: Dialect,
}

impl FilterFactory for Parse {
    const NAME: &'static str = "parse";
    const GIVES: &'static [&'static str] = &[Statement::NAME];

    type Config = Settings;

    fn build(settings: Settings) -> Result<impl IntoLayer, BoxError> {
        let server = settings.server.as_deref().map(version).transpose()?;
        let dialect = Dialect { server, ansi_quotes: settings.ansi_quotes, ..Dialect::default() };
        Ok(Self { dialect })
    }
}

impl<S> Layer<S> for Parse {
    type Service = Parsing<S>;

    fn layer(&self, inner: S) -> Parsing<S> {
        Parsing { dialect: self.dialect, inner }
    }
}

/// One session's filter.
#[derive(Clone, Copy, Debug)]
pub struct Parsing<S> {
    /// As configured; the session's state is added for each command.
    dialect: Dialect,
    inner: S,
}

impl<S: Service<Command>> Service<Command> for Parsing<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut command: Command) -> S::Future {
        if let Some(text) = command.sql() {
            let dialect = in_session(self.dialect, command.session());
            command.note(Statement::new(text, dialect));
        }
        self.inner.call(command)
    }
}

fn in_session(configured: Dialect, session: &Session) -> Dialect {
    let status = session.status();
    Dialect {
        ansi_quotes: configured.ansi_quotes || status.contains(Status::ANSI_QUOTES),
        no_backslash_escapes: status.contains(Status::NO_BACKSLASH_ESCAPES),
        charset: Charset::of_collation(session.collation),
        ..configured
    }
}

fn version(text: &str) -> Result<Server, String> {
    Server::from_version(text).ok_or_else(|| {
        format!("{text:?} is not a server's version, as \"8.4.3\" or \"10.11.6-MariaDB\" are")
    })
}
