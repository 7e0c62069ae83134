//! What is counted of one command.

use super::Context;
use crate::{backend::Backend, metrics::Kind};
use chain::{Command, Reply, facts::ServedBy};
use std::{sync::Arc, time::Duration};

/// One command of a client's.
pub(super) struct Counted<'a> {
    context: &'a Context,
    kind: Kind,
    server: Option<Arc<Backend>>,
}

impl<'a> Counted<'a> {
    /// Counts what has come.
    pub(super) fn new(context: &'a Context, command: &Command, size: usize) -> Self {
        context.metrics.received.inc_by(size as u64);
        Self { context, kind: Kind::of(command), server: None }
    }

    /// Notes who has answered it.
    pub(super) fn served(&mut self, reply: &Reply) {
        let backends = &self.context.shared.backends;
        self.server = reply.fact().and_then(|ServedBy(target)| backends.get(&target.server));
    }

    /// Counts it: its reply has gone out.
    pub(super) fn took(&self, took: Duration, failed: bool, sent: u64) {
        self.context.metrics.took(took);
        self.context.metrics.sent.inc_by(sent);
        if let Some(server) = &self.server {
            server.metrics.answered(self.kind, took, failed);
        }
    }
}
