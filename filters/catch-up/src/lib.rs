//! The `catch-up` filter: brings one connection to what its session has set before a command runs
//! there.
//!
//! The log of the session comes with the command (`session-commands` above writes it); which part
//! of it this connection has executed is one number. What is missing is executed first, in order
//! and in one write, and each reply is compared with what the log says. Only then is the command
//! sent, or, if it is a read that changes nothing, only then is its result let through.
//!
//! Prepared statements have ids of the session above this filter and ids of the server below it.

#![deny(missing_docs)]

mod connection;
mod ids;
mod pipe;
mod step;
mod verify;

use chain::{
    Command, Error, FilterFactory, Part, Reply, Result, Stack,
    facts::{Fact, SessionLog},
    lend::Lend,
    registry::IntoLayer,
    stack::Calling,
};
use connection::Connection;
use schemars::JsonSchema;
use serde::Deserialize;
use std::task::{Context, Poll, ready};
use tower::{BoxError, Layer, Service};

/// Names this filter in a registry.
#[derive(Clone, Copy, Debug)]
pub struct Factory;

/// The filter's settings, and its layer.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A read outside a transaction goes out in the same write as what its connection lacks. Its
    /// result is held back until that has been found good.
    pub pipeline_reads: bool,
    /// Statements of sessions that a connection had before, kept prepared there for those to come.
    #[schemars(range(max = 65_536))]
    pub spare_statements: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { pipeline_reads: true, spare_statements: 64 }
    }
}

impl FilterFactory for Factory {
    const NAME: &'static str = "catch-up";
    const NEEDS: &'static [&'static str] = &[SessionLog::NAME];
    const PART: Part = Part::Backend;

    type Config = Config;

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        Ok(config)
    }
}

impl Layer<Stack> for Config {
    type Service = CatchUp;

    fn layer(&self, below: Stack) -> CatchUp {
        CatchUp(Lend::new(Connection::new(*self, below)))
    }
}

/// The filter on one connection.
#[derive(Debug)]
pub struct CatchUp(Lend<Connection>);

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
        Box::pin(connection::run(self.0.lend(), command))
    }
}
