//! `audit`: counts a session's commands by how they ended, and logs the sums at its end.
//!
//! A plain tower layer: nothing here knows of registries, settings or other filters. A command is
//! not over when its future is, only when its reply is, so the count hangs on both.

use chain::{Command, Reply, body::Ending};
use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
};
use tower::{Layer, Service};

/// The layer that all sessions share.
#[derive(Clone, Copy, Debug)]
pub struct AuditLayer;

impl<S> Layer<S> for AuditLayer {
    type Service = Audit<S>;

    fn layer(&self, inner: S) -> Audit<S> {
        Audit { inner, counts: Arc::default() }
    }
}

/// The service of one session.
#[derive(Debug)]
pub struct Audit<S> {
    inner: S,
    counts: Arc<Counts>,
}

impl<S> Service<Command> for Audit<S>
where
    S: Service<Command, Response = Reply>,
    S::Future: Send + 'static,
{
    type Response = Reply;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, command: Command) -> Self::Future {
        self.counts.user.get_or_init(|| command.session().user.clone());
        let mut underway =
            Underway { counts: self.counts.clone(), how: |counts| &counts.abandoned };
        let reply = self.inner.call(command);
        Box::pin(async move {
            let reply = reply.await.inspect_err(|_| underway.how = |counts| &counts.failed)?;
            Ok(reply.map_body(|body| body.on_end(move |ending| underway.ended(&ending))))
        })
    }
}

/// How the commands of one session ended. They are logged when the session and its last reply are
/// gone.
#[derive(Debug, Default)]
struct Counts {
    user: OnceLock<Arc<str>>,
    /// With anything but an error.
    done: AtomicU64,
    /// With an error of the server's, or of a filter that answered with one.
    refused: AtomicU64,
    /// Without a reply, or in the middle of it.
    failed: AtomicU64,
    /// Before the reply was there, or read; or the session has left the chain.
    abandoned: AtomicU64,
}

impl Drop for Counts {
    fn drop(&mut self) {
        tracing::info!(
            user = self.user.get().map(|user| &**user),
            done = self.done.load(Relaxed),
            refused = self.refused.load(Relaxed),
            failed = self.failed.load(Relaxed),
            abandoned = self.abandoned.load(Relaxed),
            "audit"
        );
    }
}

/// One command on its way. It is counted when it is dropped, and so exactly once.
struct Underway {
    counts: Arc<Counts>,
    how: fn(&Counts) -> &AtomicU64,
}

impl Underway {
    fn ended(&mut self, ending: &Ending<'_>) {
        self.how = match ending {
            Ending::Done(end) if end.error.is_none() => |counts| &counts.done,
            Ending::Done(_) => |counts| &counts.refused,
            Ending::Failed(_) => |counts| &counts.failed,
            Ending::Abandoned => |counts| &counts.abandoned,
        };
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        (self.how)(&self.counts).fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
