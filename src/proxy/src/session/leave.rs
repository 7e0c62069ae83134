//! The end of a session's time in its chain.

use super::{Context, Ended, statements::Statements, watch::Watch};
use crate::{
    backend::dispatch::Prepared,
    forward::{
        Parting,
        notes::{Noting, Readers},
    },
    telemetry::Traced,
};
use chain::{
    Error, Outcome, Reply, Session,
    facts::{Forwarding, ServedBy, StatementIds},
};

/// A session that leaves, and what is noted of the command that it leaves with.
pub(super) struct Leaving<'a, 'w> {
    pub(super) session: &'a Session,
    pub(super) statements: &'a Statements,
    pub(super) traced: Option<Traced>,
    pub(super) watch: Option<&'a mut Watch<'w>>,
    pub(super) has_reply: bool,
}

impl Leaving<'_, '_> {
    /// It leaves with what `reply` hands over.
    pub(super) fn with(self, reply: Reply, context: &Context) -> Ended {
        self.warn(&reply);
        let capabilities = self.session.capabilities;
        let how = reply.fact::<Forwarding>().copied().unwrap_or_default();
        let ids = reply.fact::<StatementIds>().cloned().unwrap_or_default();
        let noting = if how.observe { self.noting(&reply, context) } else { None };
        match reply.into_outcome() {
            Outcome::Handover(handover) => {
                Ended::Forwarded(Box::new(Parting { handover, how, ids, capabilities, noting }))
            }
            Outcome::Body(_) => Ended::Backend(Error::filter("no handover in a reply that is one")),
        }
    }

    /// One warning says which statements may not follow it.
    fn warn(&self, reply: &Reply) {
        let client = !self.statements.is_empty();
        let backend = reply.fact().is_some_and(|Prepared(there)| *there);
        if client || backend {
            let side = match (client, backend) {
                (true, true) => "both",
                (true, false) => "client",
                _ => "backend",
            };
            tracing::warn!(
                session = self.session.id,
                side,
                "prepared statements at the switch to fast-forward"
            );
        }
    }

    /// From now on its observer tells what its commands come to, the one that it leaves with too.
    fn noting(self, reply: &Reply, context: &Context) -> Option<Box<Noting>> {
        let Self { session, traced, watch, has_reply, .. } = self;
        let digests = context.watchers.as_ref().and_then(|watchers| watchers.digests.clone());
        if digests.is_some()
            && let Some(watch) = watch
        {
            watch.leave_digest();
        }
        let readers = Readers { digests, tracing: context.tracing.clone() };
        let target = reply.fact().map(|ServedBy(target)| target.clone());
        Noting::of(&context.notes, readers, session, target, traced.filter(|_| has_reply))
    }
}
