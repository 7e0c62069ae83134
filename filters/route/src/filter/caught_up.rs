//! Reads that must see something: on a replica that has it, or else on the primary.

use super::{
    Route,
    choose::{Decision, Wanted},
};
use crate::causal;
use chain::{
    Command, HostgroupId, Next, Result,
    facts::{Explain, Hints, Near},
    wire::command::CommandCode,
};

impl Route {
    /// Whether the read must see something that a replica may lack.
    pub(super) fn must_see(&mut self, command: &Command) -> bool {
        if command.fact::<Explain>().is_some() {
            return false;
        }
        command.fact::<Hints>().is_some_and(|hints| hints.min_gtid.is_some())
            || self.waits() && self.causal.awaited().is_some()
    }

    /// Whether replicas are asked for what the session has written.
    fn waits(&self) -> bool {
        self.shared.split().is_some_and(|it| it.after_write.asks())
    }

    /// The same on a replica that has what the read must see, or else on the primary.
    pub(super) async fn caught_up(
        &mut self,
        command: &Command,
        decision: Decision,
        next: &mut Next<'_>,
    ) -> Result<Decision> {
        let asked = command.fact::<Hints>().and_then(|hints| hints.min_gtid.as_ref());
        let awaited = self.causal.awaited().filter(|_| self.waits());
        let (limit, target) = (self.shared.wait, decision.target);
        if command.code() == CommandCode::STMT_PREPARE {
            // A question would be the last statement of its connection, where the client may ask
            // what the one before has left. Nothing is read here, nor counted as a read.
            let lacks = asked.is_some_and(|asked| causal::is_gtids(asked))
                || awaited.is_some() && !self.causal.is_at(target.server.id);
            return match lacks {
                true => self.in_group(command, self.primary(command), Wanted::PRIMARY, LACKS),
                false => Ok(Decision { target, ..decision }),
            };
        }
        if let Some(Near(lag)) = decision.near
            && !target.server.standing.takes(Some(lag))
        {
            // The one that comes near first may not be the one that has it.
            return self.in_primary(command);
        }
        let mut at = match asked {
            Some(asked) if causal::is_gtids(asked) => {
                causal::wait(command, asked, limit, target, next).await
            }
            Some(_) => {
                self.shared.counters.unknown.add_one();
                Some(target)
            }
            None => Some(target),
        };
        if let (Some(target), Some(written_to)) = (at.clone(), awaited)
            && !self.causal.is_at(target.server.id)
            // The same server in another hostgroup.
            && target.server.name != written_to.server.name
        {
            let shares = self.shared.shares;
            at = match self.causal.gtids(command, written_to, shares, next).await {
                Some(gtids) => causal::wait(command, &gtids, limit, target, next).await,
                None => None,
            };
            if let Some(reached) = &at {
                self.causal.reached(reached.server.id);
            }
        }
        let counters = &self.shared.counters;
        if let Some(target) = at {
            counters.replica.add_one();
            return Ok(Decision { target, ..decision });
        }
        self.in_primary(command)
    }

    /// On the primary, for what no replica has that will do.
    fn in_primary(&self, command: &Command) -> Result<Decision> {
        self.shared.counters.primary.add_one();
        self.in_group(command, self.primary(command), Wanted::PRIMARY, LACKS)
    }

    fn primary(&self, command: &Command) -> HostgroupId {
        let pair = self.shared.pair(command.session());
        pair.map_or(command.session().hostgroup, |pair| pair.primary)
    }
}

const LACKS: &str = "no replica has what it must see";
