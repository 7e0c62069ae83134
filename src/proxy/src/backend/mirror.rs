//! Copies of statements for another hostgroup, whose replies nobody reads.
//!
//! A copy runs on a connection of the pool, in the session's schema and with nothing else of what
//! the session has set. It never holds up the session, and there are only so many at once: beyond
//! that they are left out and counted.

use super::{
    Backends,
    connection::Connection,
    identity::attributes,
    pool::{Got, Want},
};
use crate::{
    config::{self, Account},
    metrics::{Metrics, Mirrored},
};
use arc_swap::ArcSwap;
use chain::{Command, Frame, HostgroupId, Outcome, balance::Choice, facts::RuleVerdict};
use std::{sync::Arc, time::Instant};
use tokio::sync::Semaphore;
use tower::{Service, ServiceExt};
use wire::command::CommandCode;

/// Copies that are under way at once, of all sessions.
const AT_ONCE: usize = 64;

/// Sends copies.
pub(crate) struct Mirrors {
    backends: Arc<Backends>,
    settings: Arc<ArcSwap<config::Backend>>,
    choice: Choice,
    room: Arc<Semaphore>,
    metrics: Mirrored,
}

impl Mirrors {
    /// Sends copies to these servers.
    pub(crate) fn new(
        backends: &Arc<Backends>,
        settings: &Arc<ArcSwap<config::Backend>>,
        metrics: &Metrics,
    ) -> Arc<Self> {
        Arc::new(Self {
            backends: backends.clone(),
            settings: settings.clone(),
            choice: Choice::default(),
            room: Arc::new(Semaphore::new(AT_ONCE)),
            metrics: metrics.mirrored.clone(),
        })
    }

    /// Sends a copy of `command`, if it is a text query, to a server of `hostgroup`.
    pub(crate) fn send(
        self: &Arc<Self>,
        hostgroup: HostgroupId,
        command: &Command,
        account: &Account,
    ) {
        if command.code() != CommandCode::QUERY {
            return;
        }
        let Ok(permit) = self.room.clone().try_acquire_owned() else {
            self.metrics.left_out.inc();
            return;
        };
        let (mirrors, account) = (self.clone(), account.clone());
        let mut session = command.session().clone();
        session.update(|view| view.schema = view.current_schema.clone());
        let mut copy = command.copy("mirror", session);
        let verdict = command.fact::<RuleVerdict>();
        if let Some(text) = verdict.and_then(|verdict| verdict.mirror_text.as_ref()) {
            copy.rewrite_sql(text);
        }
        tokio::spawn(async move {
            let done = mirrors.run(hostgroup, copy, &account).await;
            drop(permit);
            match done {
                Ok(()) => {
                    mirrors.metrics.answered.inc();
                }
                Err(error) => {
                    mirrors.metrics.failed.inc();
                    tracing::debug!(%hostgroup, error, "a mirrored statement failed");
                }
            }
        });
    }

    async fn run(
        &self,
        hostgroup: HostgroupId,
        copy: Command,
        account: &Account,
    ) -> Result<(), String> {
        let session = copy.session();
        let group = session.topology.hostgroup(hostgroup).ok_or("there is no such hostgroup")?;
        let chosen = self.choice.server(group);
        let backend = chosen.and_then(|server| self.backends.get(&server));
        let backend = backend.ok_or("the hostgroup has no server to choose")?;
        let deadline = Instant::now() + self.settings.load().connect_budget;
        let (need, told, unused) = (None, attributes(session), false);
        let want = Want { session, account, enters: false, need, told: Some(&told), unused };
        let got = backend.attach(&want, deadline).await.map_err(|error| error.to_string())?;
        let Got::Clean(link) = got else { return Err("it is another session's".into()) };
        let mut stack = Connection::stack(*link);
        let sent = async { stack.ready().await?.call(copy).await };
        let reply = sent.await.map_err(|error| error.message().to_string())?;
        let Outcome::Body(mut body) = reply.into_outcome() else { return Ok(()) };
        while let Some(frame) = body.frame().await {
            match frame.map_err(|error| error.message().to_string())? {
                Frame::Packets(_) => {}
                Frame::End(_) => return Ok(()),
                Frame::Upload(_) => return Err("it wants a file of the client's".into()),
            }
        }
        Err("the reply stopped before its end".into())
    }
}
