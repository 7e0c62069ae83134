//! What a session has set, brought to its other connections before they are used.
//!
//! ```text
//! SET ... ─▶ one connection ─▶ OK ─▶ the client
//!                               └──▶ a task for each of the others: catch up, and say nothing
//! ```
//!
//! A connection is away while its task runs; the session's next command waits until all are back.
//! One on which it fails is given up: the next that is opened in its place says why.

use super::{Held, State};
use crate::backend::sessions::Lease;
use chain::{
    Body, Command, End, Error, Frame, Outcome, Reply, Result, Session,
    command::Asker,
    facts::{Others, Propagate, SessionLog},
};
use std::{
    pin::Pin,
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
    task::{Context, Poll},
    time::Duration,
};
use tokio::task::JoinHandle;
use tower::{Service, ServiceExt};
use wire::command::CommandCode;

/// What is to be done once a command has succeeded.
pub(super) struct Order {
    what: Propagate,
    session: Session,
    /// The server of the connection that was used last before.
    last: Option<u32>,
    succeeded: Arc<OnceLock<bool>>,
}

/// A connection that a task has.
pub(super) struct Away {
    lease: Arc<Lease>,
    task: JoinHandle<Option<Held>>,
}

/// Longest reply to a session command that another waits for.
const LIMIT: usize = 1 << 26;

impl State {
    /// What the command asks for. Sessions that share their connections keep none that is idle.
    pub(super) fn order(&self, command: &Command) -> Option<Order> {
        let what = command.fact::<Propagate>().filter(|_| self.keeps_state)?.clone();
        let (session, last) = (command.session().clone(), self.last);
        Some(Order { what, session, last, succeeded: Arc::default() })
    }

    /// Does it, or sees to it that it is done behind the reply.
    pub(super) async fn follow(&mut self, order: Order, reply: Reply) -> Result<Reply> {
        if order.what.first {
            let (reply, succeeded) = whole(reply).await?;
            if succeeded {
                self.propagate(&order);
                std::future::poll_fn(|cx| self.poll_back(cx)).await;
            }
            return Ok(reply);
        }
        let succeeded = order.succeeded.clone();
        self.order = Some(order);
        Ok(reply.map_body(|body| {
            body.map(move |frame| {
                if let Frame::End(end) = &frame {
                    // There is one end.
                    let _ = succeeded.set(end.error.is_none());
                }
                frame
            })
        }))
    }

    /// The same for a command that only says so: the session has set something that no connection has
    /// executed yet.
    pub(super) fn propagate_alone(&mut self, order: &Order) -> Reply {
        self.propagate(order);
        Reply::none()
    }

    /// Waits until all connections are the session's again.
    pub(super) fn poll_back(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let done = self.order.as_ref().and_then(|order| order.succeeded.get().copied());
        if let Some(order) = self.order.take_if(|_| done.is_some())
            && done == Some(true)
        {
            self.propagate(&order);
        }
        let mut at = 0;
        while at < self.away.len() {
            let Poll::Ready(back) = Pin::new(&mut self.away[at].task).poll(cx) else {
                at += 1;
                continue;
            };
            let Away { lease, .. } = self.away.swap_remove(at);
            match back {
                Ok(Some(held)) => self.held.push(held),
                _ => self.me.entry.detach(&lease),
            }
        }
        if self.away.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn propagate(&mut self, order: &Order) {
        // What is not in use is in the pool, and others may have it next.
        if self.sharing.is_some() {
            return;
        }
        let head = order.what.log.head();
        let limit = self.shared.settings.load().connect_budget;
        for at in (0..self.held.len()).rev() {
            let held = &self.held[at];
            let server = held.target.server.id;
            let meant = order.what.to == Others::All || order.last == Some(server);
            let busy = held.ids.lease.in_transaction.load(Relaxed);
            if !meant || busy || held.head >= head {
                continue;
            }
            let mut held = self.held.remove(at);
            held.head = head;
            let lease = held.ids.lease.clone();
            let task = tokio::spawn(bring(held, order.session.clone(), &order.what.log, limit));
            self.away.push(Away { lease, task });
        }
    }
}

/// Brings one connection to where the log ends. `None` if that cannot be.
fn bring(
    mut held: Held,
    session: Session,
    log: &SessionLog,
    limit: Duration,
) -> impl Future<Output = Option<Held>> + use<> {
    // Whatever comes behind the log: this says least.
    let ping = Command::new(session, CommandCode::PING, b"")
        .asked_by(Asker::Filter("dispatch"))
        .with(log.clone())
        .with(held.target.clone());
    async move {
        match tokio::time::timeout(limit, ask(&mut held, ping)).await {
            Ok(Ok(())) => Some(held),
            failure => {
                held.ids.lease.spoiled.store(true, Relaxed);
                let server = &held.target.server.name;
                let code = failure.ok().and_then(Result::err).map(|error| error.code());
                tracing::debug!(%server, code, "a connection has not got what its session has set");
                None
            }
        }
    }
}

async fn ask(held: &mut Held, command: Command) -> Result<()> {
    let reply = held.stack.ready().await?.call(command).await?;
    match reply.into_outcome() {
        Outcome::Body(body) => body.collect(LIMIT).await.map(drop),
        Outcome::Handover(_) => Err(Error::filter("handed over below the session's filters")),
    }
}

/// The same reply, once it has ended, and whether it is no error.
async fn whole(reply: Reply) -> Result<(Reply, bool)> {
    let mut streaming = None;
    let reply = reply.map_body(|body| {
        streaming = Some(body);
        Body::end(End::default())
    });
    let Some(body) = streaming else { return Ok((reply, false)) };
    let answer = body.collect(LIMIT).await?;
    let succeeded = answer.end.error.is_none();
    Ok((reply.map_body(|_| Body::whole(answer.packets, answer.end)), succeeded))
}
