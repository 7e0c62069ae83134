//! `gtid_from_hostgroup` of a rule: reads that see what their session has written in that hostgroup.
//!
//! Nothing is noted before a rule asks. What a session has written by then is not known: the server
//! that it has used there is asked where it stands.

use super::{Decision, Route, Wanted};
use crate::{
    causal::{self, Causal},
    place::{self, Place},
    wish,
};
use chain::{
    Command, HostgroupId, Next, Result,
    facts::{Explain, Pin, RuleVerdict, Target},
    wire::command::CommandCode,
};

impl Route {
    /// The hostgroup of whose writes this read must see all, if its server may lack some.
    pub(super) fn lacks(&mut self, command: &Command, decision: &Decision) -> Option<HostgroupId> {
        let from = command.fact::<RuleVerdict>()?.gtid_from?;
        let is_free = !command.session().in_transaction()
            && command.fact::<Pin>().is_none()
            && !wish::is_hinted(command);
        let target = &decision.target;
        if !is_free || command.fact::<Explain>().is_some() || target.hostgroup == from {
            return None;
        }
        if place::place(command, &mut self.access).0 != Place::Replica {
            return None;
        }
        let causal = self.written_in(from);
        let written_to = causal.awaited()?;
        // The same server in another hostgroup has it.
        let has = causal.is_at(target.server.id) || written_to.server.name == target.server.name;
        (!has).then_some(from)
    }

    /// The same read on that server once it has all, or else in the hostgroup itself.
    pub(super) async fn seen_from(
        &mut self,
        from: HostgroupId,
        command: &Command,
        decision: Decision,
        next: &mut Next<'_>,
    ) -> Result<Decision> {
        let why = "its rule's readers lack what it must see";
        if command.code() == CommandCode::STMT_PREPARE {
            // A question would be the last statement of its connection, where the client may ask
            // what the one before has left.
            return self.in_group(command, from, Wanted::PRIMARY, why);
        }
        let (limit, shares) = (self.shared.wait, self.shared.shares);
        let causal = self.written_in(from);
        let gtids = match causal.awaited() {
            Some(written_to) => causal.gtids(command, written_to, shares, next).await,
            None => None,
        };
        let at = match gtids {
            Some(gtids) => {
                causal::wait(command, &gtids, limit, decision.target.clone(), next).await
            }
            None => None,
        };
        let counters = &self.shared.counters;
        let Some(target) = at else {
            counters.primary.add_one();
            return self.in_group(command, from, Wanted::PRIMARY, why);
        };
        counters.replica.add_one();
        self.written_in(from).reached(target.server.id);
        Ok(Decision { target, ..decision })
    }

    /// Notes a write in a hostgroup that a rule has named; its place among those.
    pub(super) fn writes_from(&mut self, command: &Command, target: &Target) -> Option<usize> {
        let at = self.from.iter().position(|(from, _)| *from == target.hostgroup)?;
        if !place::writes(command) {
            return None;
        }
        self.from[at].1.writes(target);
        Some(at)
    }

    fn written_in(&mut self, from: HostgroupId) -> &mut Causal {
        let at = self.from.iter().position(|(known, _)| *known == from);
        let at = at.unwrap_or_else(|| {
            let mut used = self.known.iter().chain(&self.last);
            let used = used.find(|used| used.hostgroup == from);
            self.from.push((from, used.cloned().map_or_else(Causal::default, Causal::since)));
            self.from.len() - 1
        });
        &mut self.from[at].1
    }
}
