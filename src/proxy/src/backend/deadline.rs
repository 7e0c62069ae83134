//! A statement that may run only for so long: then its server is told to kill it, and what the
//! server says of that is the reply.

use super::{kill, sessions::Lease};
use crate::config::Account;
use chain::{Body, Error, Frame, Reply, Result};
use futures_core::Stream;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use wire::command::CommandCode;

/// Waits, then kills the statement on the session's connection.
struct Deadline {
    /// Resolves when the KILL has been answered.
    act: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The time is over: a KILL is under way, or has been answered.
    struck: Arc<AtomicBool>,
    over: bool,
}

/// The reply to a command that was sent on the connection of `lease` just now. If it has not ended
/// after `limit`, `account` kills the statement there.
pub(super) async fn within(
    limit: Duration,
    lease: Arc<Lease>,
    account: Account,
    reply: impl Future<Output = Result<Reply>>,
) -> Result<Reply> {
    let mut deadline = Deadline::new(limit, lease, account);
    let mut reply = pin!(reply);
    let reply = poll_fn(|cx| {
        deadline.poll(cx);
        reply.as_mut().poll(cx)
    });
    let reply = reply.await;
    let Ok(reply) = reply else {
        deadline.settle().await;
        return reply;
    };
    Ok(reply.map_body(|body| Body::stream(Bounded { body, deadline, held: None })))
}

impl Deadline {
    fn new(limit: Duration, lease: Arc<Lease>, account: Account) -> Self {
        let struck = Arc::<AtomicBool>::default();
        let flag = struck.clone();
        let act = Box::pin(async move {
            tokio::time::sleep(limit).await;
            flag.store(true, Relaxed);
            strike(&lease, &account, limit).await;
        });
        Self { act, struck, over: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        self.over = self.over || self.act.as_mut().poll(cx).is_ready();
    }

    /// Waits for the answer to a KILL that is under way, so that it cannot strike what comes next.
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.struck.load(Relaxed) && !self.over {
            ready!(self.act.as_mut().poll(cx));
            self.over = true;
        }
        Poll::Ready(())
    }

    async fn settle(&mut self) {
        poll_fn(|cx| self.poll_settled(cx)).await;
    }
}

async fn strike(lease: &Lease, account: &Account, limit: Duration) {
    let (server, thread_id) = (&lease.backend.server.name, lease.thread_id);
    // Once the session has let go of the connection there is nothing to kill.
    let Some(passage) = lease.gate.enter().await else { return };
    tracing::info!(%server, ?limit, "a statement has run out of time, it is killed");
    let text = format!("KILL QUERY {thread_id}");
    let (source, code) = (lease.source, CommandCode::QUERY);
    let killed = kill::run(&lease.backend, account, source, code, text.as_bytes()).await;
    match killed {
        Ok(()) | Err(super::connect::ConnectError::Refused(_)) => passage.answered(),
        Err(_) => {}
    }
    if let Err(error) = killed {
        tracing::warn!(%server, %error, "a statement that has run out of time could not be killed");
    }
}

/// A reply under a deadline.
struct Bounded {
    body: Body,
    deadline: Deadline,
    /// The last frame, while a KILL is under way.
    held: Option<Frame>,
}

impl Stream for Bounded {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.held.is_none() {
            this.deadline.poll(cx);
            match ready!(Pin::new(&mut this.body).poll_next(cx)) {
                Some(Ok(end @ Frame::End(_))) => this.held = Some(end),
                Some(Err(error)) => return Poll::Ready(Some(Err::<_, Error>(error))),
                frame => return Poll::Ready(frame),
            }
        }
        ready!(this.deadline.poll_settled(cx));
        Poll::Ready(this.held.take().map(Ok))
    }
}
