//! The filter, in one session.

mod anew;
mod caught_up;
mod choose;
mod from;

use crate::{
    causal::Causal,
    place::{self, AccessMode, Place},
    settings::{AnswerFrom, NoReplica, Pair, Rule, Shared},
    wish::{self, Wish},
};
use chain::{
    Command, Error, Filter, HostgroupId, Next, Reply, Result, Server, Session,
    balance::Balance,
    error::code,
    facts::{Explain, FastForward, Hints, Pin, Primary, ServedBy, SessionLog, Target},
    wire::command::CommandCode,
};
use choose::{Decision, Wanted};
use serde_json::json;
use smallvec::SmallVec;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The filter, in one session.
pub(crate) struct Route {
    shared: Arc<Shared>,
    /// The session's server in each hostgroup that it has used.
    known: SmallVec<[Target; 2]>,
    /// Where the last command ran.
    last: Option<Target>,
    access: AccessMode,
    causal: Causal,
    /// What it has written in hostgroups that rules have named by `gtid_from_hostgroup`.
    from: Vec<(HostgroupId, Causal)>,
}

impl Filter for Route {
    async fn handle(&mut self, command: Command, mut next: Next<'_>) -> Result<Reply> {
        let mut decision = self.decide(&command)?;
        self.explain(&command, &decision);
        if let Some(at) = decision.ends.take()
            && let Some(refusal) = Box::pin(Self::end(&command, at, &mut next)).await?
        {
            return Ok(refusal);
        }
        if decision.on_replica && self.must_see(&command) {
            // In a box of its own: it is large, and few reads wait.
            decision = Box::pin(self.caught_up(&command, decision, &mut next)).await?;
        }
        if let Some(from) = self.lacks(&command, &decision) {
            decision = Box::pin(self.seen_from(from, &command, decision, &mut next)).await?;
        }
        let writes = self.shared.watches_writes() && place::writes(&command);
        if writes {
            self.causal.writes(&decision.target);
        }
        let noted = self.writes_from(&command, &decision.target);
        let measured = self.shared.choice.balance() == Balance::LowestLatency
            && matches!(command.code(), CommandCode::QUERY | CommandCode::STMT_EXECUTE);
        let started = measured.then(Instant::now);
        let primary = self.shared.primary_behind(&command, &decision.target);
        let near = decision.near;
        let mut command = command.with(decision.target);
        if let Some(near) = near {
            command.note(near);
        }
        if let Some(primary) = primary {
            command.note(primary);
        }
        let reply = next.run(command).await?;
        if let Some(ServedBy(target)) = reply.fact() {
            if let Some(started) = started {
                target.server.load.note_latency(started.elapsed());
            }
            self.served_by(target, decision.settles);
        }
        let reply = if writes { self.causal.watch(reply) } else { reply };
        Ok(match noted {
            Some(at) => self.from[at].1.watch(reply),
            None => reply,
        })
    }

    fn inherit(&mut self, from: &mut Self, _: bool) {
        self.known = std::mem::take(&mut from.known);
        self.last = from.last.take();
        self.access = std::mem::take(&mut from.access);
        self.causal = std::mem::take(&mut from.causal);
        self.from = std::mem::take(&mut from.from);
    }
}

impl Route {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            known: SmallVec::new(),
            last: None,
            access: AccessMode::default(),
            causal: Causal::default(),
            from: Vec::new(),
        }
    }

    fn decide(&mut self, command: &Command) -> Result<Decision> {
        let session = command.session();
        let in_transaction = session.in_transaction();
        let counters = &self.shared.counters;
        if in_transaction && wish::is_hinted(command) {
            counters.in_transaction.add_one();
        }
        let ruled = wish::ruled(command);
        let stays = in_transaction && (session.transaction_persistent || ruled.is_none());
        let ordered = command.fact::<FastForward>().is_some_and(|order| order.stays);
        if (stays || ordered)
            && let Some(last) = self.last.clone()
        {
            if stays && let Some(decision) = self.anew(command, &last)? {
                return Ok(decision);
            }
            let why = if stays { "an open transaction" } else { "the connection used last" };
            return Ok(Decision { settles: true, ..Decision::fixed(&last, why) });
        }
        if let Some(pin) = command.fact::<Pin>() {
            if !in_transaction && wish::is_hinted(command) {
                counters.pinned.add_one();
            }
            self.shared.may_run(command, pin)?;
            return Ok(Decision { settles: true, ..Decision::fixed(&pin.target, pin.cause) });
        }
        let wish = match in_transaction {
            true => ruled.map(|id| (Wish::Hostgroup(id), "a rule")),
            false => wish::wish(command, &self.shared, self.last.as_ref()),
        };
        match wish {
            Some((Wish::Server(target), why)) => Ok(Decision::fixed(&target, why)),
            Some((Wish::Hostgroup(id), why)) => self.in_wanted(command, id, why),
            Some((Wish::Replica(pair), why)) => {
                let no_replica = self.shared.split().map_or(NoReplica::Primary, |it| it.no_replica);
                let (place, _) = place::place(command, &mut self.access);
                let decision = self.on_replica(command, pair, no_replica, place, why)?;
                Ok(Decision { on_replica: place == Place::Replica, ..decision })
            }
            None => self.by_policy(command),
        }
    }

    /// In a hostgroup that a hint or a rule wants.
    fn in_wanted(
        &mut self,
        command: &Command,
        id: HostgroupId,
        why: &'static str,
    ) -> Result<Decision> {
        let shared = &self.shared;
        let (is_read, reads) = match shared.rule {
            Rule::Hostgroup(_) => (true, None),
            Rule::Split(_) => {
                let (place, _) = place::place(command, &mut self.access);
                let pair = shared.pair(command.session());
                (place == Place::Replica, pair.map(|pair| pair.replicas))
            }
        };
        let wanted = Wanted { lag: shared.lag(command), each: shared.each_command && is_read };
        let decision = self.in_group(command, id, wanted, why)?;
        Ok(Decision { on_replica: is_read && reads == Some(id), ..decision })
    }

    fn by_policy(&mut self, command: &Command) -> Result<Decision> {
        let shared = &self.shared;
        let split = match &shared.rule {
            Rule::Split(split) => split,
            Rule::Hostgroup(id) => {
                let (id, why) = match id {
                    Some(id) => (*id, "the chain's hostgroup"),
                    None => (command.session().hostgroup, "the user's hostgroup"),
                };
                let wanted = Wanted { lag: shared.lag(command), each: shared.each_command };
                return self.in_group(command, id, wanted, why);
            }
        };
        let session = command.session();
        let pair = shared.pair(session).ok_or_else(|| {
            let text = format!("read-write-split: {}", shared.no_pair(session));
            Error::backend(text).with_code(code::SERVER_OFFLINE, *b"08S01")
        })?;
        let (place, why) = place::place(command, &mut self.access);
        let prepares = command.code() == CommandCode::STMT_PREPARE && place::is_logged(command);
        let (place, why) = match place {
            Place::Replica if self.causal.on_primary(split) => {
                self.shared.counters.primary.add_one();
                (Place::Primary, "the session has written before")
            }
            Place::Everywhere => match split.answer_from {
                AnswerFrom::LastUsed => (Place::Anywhere, why),
                AnswerFrom::Replica => (Place::Everywhere, "a replica answers it"),
                AnswerFrom::Primary => (Place::Primary, "the primary answers it"),
            },
            Place::Replica if prepares && split.answer_from == AnswerFrom::Primary => {
                (Place::Primary, "the primary answers it")
            }
            _ => (place, why),
        };
        match (place, &self.last) {
            (Place::Primary, _) => self.in_group(command, pair.primary, Wanted::PRIMARY, why),
            (Place::Anywhere, Some(last))
                if pair.has(last.hostgroup) && last.server.standing.takes(None) =>
            {
                Ok(Decision::fixed(last, why))
            }
            _ => self.on_replica(command, pair, split.no_replica, place, why),
        }
    }

    /// The dispatcher may have taken another server of the hostgroup than the one that was named.
    fn served_by(&mut self, target: &Target, settles: bool) {
        let is_same = |known: &Target| known.server.id == target.server.id;
        if settles && !self.known.iter().any(is_same) {
            self.known.retain(|known| known.hostgroup != target.hostgroup);
            self.known.push(target.clone());
        }
        if !self.last.as_ref().is_some_and(is_same) {
            self.last = Some(target.clone());
        }
    }

    fn explain(&self, command: &Command, decision: &Decision) {
        let Some(explain) = command.fact::<Explain>() else { return };
        let policy = match self.shared.rule {
            Rule::Hostgroup(_) => "hostgroup",
            Rule::Split(_) => "read-write-split",
        };
        let Target { hostgroup, server } = &decision.target;
        explain.note(
            "route",
            json!({
                "policy": policy,
                "why": decision.why,
                "hostgroup": hostgroup.0,
                "server": &*server.name,
            }),
        );
    }
}

impl Shared {
    /// What writes is not run on a replica, whatever state of the session is there.
    fn may_run(&self, command: &Command, pin: &Pin) -> Result<()> {
        if self.replicas_of(command.session(), &pin.target).is_none() || !place::must_write(command)
        {
            return Ok(());
        }
        let text = format!(
            "this statement needs {}, which is on the replica {}, and must not run there",
            pin.cause, pin.target.server.name
        );
        Err(Error::filter(text).with_code(code::PINNED_ELSEWHERE, *b"HY000"))
    }

    /// The hostgroups of read-write splitting, if `target` is a replica there.
    fn replicas_of(&self, session: &Session, target: &Target) -> Option<Pair> {
        let pair = self.split().and_then(|_| self.pair(session));
        let pair = pair.filter(|pair| pair.replicas == target.hostgroup)?;
        // A primary may be among those that serve reads.
        let group = session.topology.hostgroup(pair.primary);
        let mut primaries = group.iter().flat_map(|group| &group.servers);
        let name = &target.server.name;
        let is_primary = |one: &Arc<Server>| one.name == *name && one.standing.is_member();
        (!primaries.any(is_primary)).then_some(pair)
    }

    /// Where a session with a state may go with what this replica cannot give it yet.
    fn primary_behind(&self, command: &Command, target: &Target) -> Option<Primary> {
        command.fact::<SessionLog>().filter(|log| !log.entries.is_empty())?;
        self.primary_of(target.hostgroup).map(Primary)
    }

    /// How far behind the server may be: as the command's hint says, else as configured.
    fn lag(&self, command: &Command) -> Option<Duration> {
        command.fact::<Hints>().and_then(|hints| hints.max_lag).or(self.max_lag)
    }
}

impl Pair {
    fn has(self, id: HostgroupId) -> bool {
        id == self.primary || id == self.replicas
    }
}
