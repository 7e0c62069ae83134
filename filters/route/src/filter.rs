//! The filter, in one session.

use crate::{
    causal::{self, Causal},
    place::{self, AccessMode, Place},
    settings::{AfterWrite, NoReplica, Pair, Rule, Shared},
    wish::{self, Wish},
};
use chain::{
    Command, Error, Filter, HostgroupId, Next, Reply, Result, Server,
    balance::{Balance, Holds, by_key, nearest, takes},
    error::code,
    facts::{Affinity, Explain, FastForward, Hints, Pin, ServedBy, StickyMode, Target},
    wire::command::CommandCode,
};
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
}

/// Where a command goes.
#[derive(Debug)]
struct Decision {
    target: Target,
    /// For people.
    why: &'static str,
    /// Where it went becomes the session's server in that hostgroup.
    settles: bool,
    /// It reads on a replica, which may lack what it must see.
    on_replica: bool,
}

impl Filter for Route {
    async fn handle(&mut self, command: Command, mut next: Next<'_>) -> Result<Reply> {
        let mut decision = self.decide(&command)?;
        self.explain(&command, &decision);
        if decision.on_replica && self.must_see(&command) {
            // In a box of its own: it is large, and few reads wait.
            decision = Box::pin(self.caught_up(&command, decision, &mut next)).await?;
        }
        let writes = self.shared.watches_writes() && place::writes(&command);
        if writes {
            self.causal.writes(&decision.target);
        }
        let measured = self.shared.choice.balance() == Balance::LowestLatency
            && matches!(command.code(), CommandCode::QUERY | CommandCode::STMT_EXECUTE);
        let started = measured.then(Instant::now);
        let reply = next.run(command.with(decision.target)).await?;
        if let Some(ServedBy(target)) = reply.fact() {
            if let Some(started) = started {
                target.server.load.note_latency(started.elapsed());
            }
            self.served_by(target, decision.settles);
        }
        Ok(if writes { self.causal.watch(reply) } else { reply })
    }
}

impl Decision {
    fn fixed(target: &Target, why: &'static str) -> Self {
        Self { target: target.clone(), why, settles: false, on_replica: false }
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
            && let Some(last) = &self.last
        {
            let why = if stays { "an open transaction" } else { "the connection used last" };
            return Ok(Decision { settles: true, ..Decision::fixed(last, why) });
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
        let (place, why) = match place {
            Place::Replica if self.causal.on_primary(split) => {
                self.shared.counters.primary.add_one();
                (Place::Primary, "the session has written before")
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

    fn on_replica(
        &self,
        command: &Command,
        pair: Pair,
        no_replica: NoReplica,
        place: Place,
        why: &'static str,
    ) -> Result<Decision> {
        let lag = self.shared.lag(command);
        let wanted = Wanted { lag, each: self.shared.each_command && place == Place::Replica };
        let on_replica = place == Place::Replica;
        if let Some(decision) = self.willing(command, pair.replicas, wanted, why)? {
            return Ok(Decision { on_replica, ..decision });
        }
        // Nobody waits for a replica to come nearer than its hostgroup asks.
        let group = command.session().topology.hostgroup(pair.replicas);
        let mut servers = group.iter().flat_map(|group| &group.servers);
        if lag.is_some() && servers.any(|server| takes(server, None)) {
            let why = "no replica is near enough to its primary";
            return self.in_group(command, pair.primary, Wanted::PRIMARY, why);
        }
        let why_not = "no replica takes work";
        if no_replica == NoReplica::Primary
            && let Some(decision) = self.willing(command, pair.primary, Wanted::PRIMARY, why_not)?
        {
            return Ok(decision);
        }
        let decision = self.in_group(command, pair.replicas, wanted, why)?;
        Ok(Decision { on_replica, ..decision })
    }

    /// A server of a hostgroup: one that takes work, else the one that is closest to it, for the
    /// dispatcher to wait for.
    fn in_group(
        &self,
        command: &Command,
        id: HostgroupId,
        wanted: Wanted,
        why: &'static str,
    ) -> Result<Decision> {
        if let Some(decision) = self.willing(command, id, wanted, why)? {
            return Ok(decision);
        }
        let group = command.session().topology.hostgroup(id);
        let server = group.and_then(nearest).ok_or_else(|| {
            let error = Error::backend(format!("hostgroup {id} has no server to choose"));
            error.with_code(code::SERVER_OFFLINE, *b"08S01")
        })?;
        let target = Target { hostgroup: id, server: server.clone() };
        Ok(Decision { settles: true, ..Decision::fixed(&target, why) })
    }

    /// A server of a hostgroup that takes work, or that the session is bound to.
    fn willing(
        &self,
        command: &Command,
        id: HostgroupId,
        wanted: Wanted,
        why: &'static str,
    ) -> Result<Option<Decision>> {
        let Some(group) = command.session().topology.hostgroup(id) else { return Ok(None) };
        let target = |server: &Arc<_>| Target { hostgroup: id, server: Arc::clone(server) };
        if let Some(affinity) = command.fact::<Affinity>() {
            let stuck = affinity.server(id).filter(|_| affinity.mode != StickyMode::Off);
            let server = stuck.and_then(|stuck| group.servers.iter().find(|it| it.id == stuck));
            match (affinity.mode, server) {
                (StickyMode::Strict, None) if stuck.is_some() => return Err(gone(id)),
                (StickyMode::Strict, Some(server)) => {
                    return Ok(Some(Decision::fixed(&target(server), "the session sticks to it")));
                }
                (_, Some(server)) if takes(server, wanted.lag) => {
                    return Ok(Some(Decision::fixed(&target(server), "the session sticks to it")));
                }
                _ => {}
            }
            if let Some(key) = affinity.key {
                let server = by_key(group, key, wanted.lag);
                let server = server.filter(|server| takes(server, wanted.lag));
                return Ok(server.map(|server| Decision::fixed(&target(server), "its key")));
            }
        }
        let known = self.known.iter().find(|known| known.hostgroup == id && !wanted.each);
        let bound = |known: &&Target| !self.shared.keeps_state || takes(&known.server, wanted.lag);
        if let Some(known) = known.filter(bound) {
            return Ok(Some(Decision { settles: true, ..Decision::fixed(known, why) }));
        }
        let holds = if wanted.each { Holds::Command } else { Holds::Session };
        let server = self.shared.choice.taking(group, wanted.lag, holds);
        Ok(server.map(|server| Decision { settles: true, ..Decision::fixed(&target(server), why) }))
    }

    /// Whether the read must see something that a replica may lack.
    fn must_see(&mut self, command: &Command) -> bool {
        if command.fact::<Explain>().is_some() {
            return false;
        }
        let waits = self.shared.split().is_some_and(|it| it.after_write == AfterWrite::Wait);
        command.fact::<Hints>().is_some_and(|hints| hints.min_gtid.is_some())
            || waits && self.causal.awaited().is_some()
    }

    /// The same on a replica that has what the read must see, or else on the primary.
    async fn caught_up(
        &mut self,
        command: &Command,
        decision: Decision,
        next: &mut Next<'_>,
    ) -> Result<Decision> {
        let limit = self.shared.wait;
        let target = decision.target;
        let asked = command.fact::<Hints>().and_then(|hints| hints.min_gtid.as_ref());
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
        let waits = self.shared.split().is_some_and(|it| it.after_write == AfterWrite::Wait);
        if let (Some(target), Some(written_to)) =
            (at.clone(), self.causal.awaited().filter(|_| waits))
            && !self.causal.is_at(target.server.id)
            // The same server in another hostgroup.
            && target.server.name != written_to.server.name
        {
            at = match self.causal.gtids(command, written_to, next).await {
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
        counters.primary.add_one();
        let pair = self.shared.pair(command.session());
        let primary = pair.map_or(command.session().hostgroup, |pair| pair.primary);
        self.in_group(command, primary, Wanted::PRIMARY, "no replica has what it must see")
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

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// It may be this far behind.
    lag: Option<Duration>,
    /// It is chosen for this command alone.
    each: bool,
}

impl Wanted {
    const PRIMARY: Self = Self { lag: None, each: false };
}

impl Shared {
    /// What writes is not run on a replica, whatever state of the session is there.
    fn may_run(&self, command: &Command, pin: &Pin) -> Result<()> {
        let Target { hostgroup, server } = &pin.target;
        let replicas = self.split().and_then(|_| self.pair(command.session()));
        let Some(pair) = replicas.filter(|pair| pair.replicas == *hostgroup) else { return Ok(()) };
        // A primary may be among those that serve reads.
        let group = command.session().topology.hostgroup(pair.primary);
        let mut primaries = group.iter().flat_map(|group| &group.servers);
        let is_primary = |one: &Arc<Server>| one.name == server.name && one.standing.is_member();
        if primaries.any(is_primary) || !place::must_write(command) {
            return Ok(());
        }
        let text = format!(
            "this statement needs {}, which is on the replica {}, and must not run there",
            pin.cause, server.name
        );
        Err(Error::filter(text).with_code(code::PINNED_ELSEWHERE, *b"HY000"))
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

/// The server that a strict session sticks to is no longer configured.
fn gone(id: HostgroupId) -> Error {
    let text = format!(
        "the server of hostgroup {id} that this session sticks to (sticky_backend=2) is no longer there"
    );
    Error::backend(text).with_code(code::SERVER_OFFLINE, *b"08S01")
}
