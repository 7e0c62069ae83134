//! How long a filter takes, as a span.

use crate::{Command, Error, Reply, Result, Stack, moving::Around, stack::Calling};
use std::task::{Context, Poll};
use tower::Service;
use tracing::{Instrument, Span};

/// A filter with what is below it. Each call is a span, inside of whatever span there is.
#[derive(Debug)]
pub(crate) struct Timed {
    name: Box<str>,
    inner: Stack,
}

impl Timed {
    pub(crate) fn new(name: &str, inner: Stack) -> Self {
        Self { name: name.into(), inner }
    }
}

impl Around for Timed {
    fn inner(&mut self) -> &mut Stack {
        &mut self.inner
    }
}

impl Service<Command> for Timed {
    type Response = Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, command: Command) -> Calling {
        if Span::current().is_none() {
            return self.inner.call(command);
        }
        let span = tracing::debug_span!("filter", otel.name = &*self.name);
        let calling = span.in_scope(|| self.inner.call(command));
        Box::pin(calling.instrument(span))
    }
}
