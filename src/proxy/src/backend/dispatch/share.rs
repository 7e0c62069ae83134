//! Connections that sessions share: between two commands, what nothing ties a session to is in the
//! pool, with all that the session has set there.
//!
//! ```text
//! the client is silent ─▶ rest ─▶ a pin? ── yes ─▶ the session keeps it
//!                                   └───── no ──▶ parked ─▶ its own again, or another's:
//!                                                           equal state: as it is
//!                                                           other state: renewed by `catch-up`
//! ```

mod insert_id;
mod last;
mod parked;
mod pins;

pub(in crate::backend) use parked::{Condition, Need, Parked};

use super::{Held, State};
use crate::backend::{
    ids::{Ids, Rewrite},
    link,
    sessions::Lease,
};
use crate::session::login::LOGIN;
use chain::{
    Command, Result,
    command::Asker,
    facts::Multiplex,
    facts::{Adopted, FastForward, Pin, Renewal, Returned, RuleVerdict, SessionLog, Target, Tied},
    topology::InUse,
};
use last::{Values, unknown};
use pins::Doing;
use std::sync::{Arc, Weak, atomic::Ordering::Relaxed};
use wire::{attributes::Attributes, command::CommandCode};

/// What a session that shares its connections knows of itself.
#[derive(Default)]
pub(super) struct Sharing {
    /// A rule says that the session keeps its connections.
    pinned_by_rule: bool,
    /// It has prepared a statement that asks what the one before has left.
    asks: bool,
    /// Nothing takes another connection where the session is: its schema was dropped.
    nowhere: bool,
    values: Values,
    /// What others were told to be the reason why it keeps a connection.
    told: Option<&'static str>,
    /// How often it has closed a statement.
    pub(super) closes: u64,
    /// Its client's connection attributes, and what servers are told with them.
    pub(super) attributes: Option<(Attributes, Attributes)>,
}

/// What is known of a connection that is shared.
pub(super) struct Shared {
    parked: parked::Kept,
    /// What the session has set there, without prepared statements; `None` if nobody can say.
    condition: Option<Condition>,
    /// What it will be as soon as the command under way is sent there, behind what is missing.
    coming: Option<Condition>,
    /// Something of the session's may be left that nobody can see: no other one gets it as it is.
    unclean: bool,
    /// Another session had it before.
    adopted: bool,
    /// What `catch-up` has not been told yet.
    adoption: Option<Adopted>,
    /// What the session's count of closed statements was when it let go of this.
    closes: u64,
    /// Nor this: that it has closed some since.
    returned: bool,
    pins: pins::Pins,
    /// What LAST_INSERT_ID() says there, if that is known.
    insert_id: Option<u64>,
    /// It is the one that the session used last, and nobody has had it since.
    is_last: bool,
    /// Nobody has had it since the session last wrote there, or nobody ever had.
    written: bool,
}

impl State {
    /// Gives the connections that nothing ties the session to back to their pools: the client is
    /// silent.
    pub(super) fn rest(&mut self) {
        if self.sharing.is_none() {
            return;
        }
        let mut cause = None;
        for at in (0..self.held.len()).rev() {
            self.settle(at);
            if self.held[at].ids.lease.spoiled.load(Relaxed) {
                self.let_go(at);
                continue;
            }
            match self.pin(at) {
                Some(pin) => cause = Some(pin),
                None if self.held[at].ids.lease.gate.try_shut() => self.park(at),
                // A KILL that is under way must strike nobody else: the connection waits for its
                // answer, and is reset.
                None => self.let_go(at),
            }
        }
        if let Some(sharing) = &mut self.sharing
            && sharing.told != cause
        {
            sharing.told = cause;
            self.me.entry.note_pin(cause);
        }
    }

    fn park(&mut self, at: usize) {
        let mut held = self.held.remove(at);
        self.me.entry.detach(&held.ids.lease);
        held.attached = None;
        let Some(shared) = &mut held.shared else { return };
        shared.parked.seat.vacate();
        shared.closes = self.sharing.as_ref().map_or(0, |sharing| sharing.closes);
        // What it has left for another statement to ask is this session's alone.
        let is_other = !shared.is_last;
        shared.unclean |= is_other && shared.pins.has_list();
        // Nobody has told `catch-up` whose it is.
        let owner = match shared.adoption {
            Some(_) => Weak::new(),
            None => Arc::downgrade(&self.me.entry),
        };
        let backend = held.ids.lease.backend.clone();
        let parked = Parked::new(held, owner, self.generation);
        // If nobody may have it, it goes the way of one whose session has ended.
        drop(backend.park(Box::new(parked)));
    }

    /// What the session takes of others for this command.
    pub(super) fn need(&self, command: &Command, enters: bool) -> Option<Need> {
        self.sharing.as_ref()?;
        let session = command.session();
        let schemaless = command.fact::<SessionLog>().is_some_and(|log| log.schemaless);
        Some(Need {
            owner: Arc::downgrade(&self.me.entry),
            generation: self.generation,
            condition: Condition::of(command),
            any_schema: enters || session.schema.is_some() && !schemaless,
            renewed: command.fact::<Pin>().is_some_and(|pin| pin.soft),
            own: command.fact::<FastForward>().is_some(),
        })
    }

    /// Takes a connection that was parked. False if the session has been ended meanwhile.
    pub(super) fn take_up(&mut self, parked: Parked, target: Target, command: &Command) -> bool {
        let enters = command.asker() == LOGIN;
        let is_own = parked.is_of(&self.me.entry, self.generation);
        let Some(need) = self.need(command, enters) else { return true };
        let equal = parked.is_equal(&need) && !need.renewed;
        let mut held = parked.into_held();
        held.attached = Some(InUse::connection(target.server.clone()));
        held.target = target;
        let lease = &held.ids.lease;
        let fresh = || Arc::new(Lease::new(lease.backend.clone(), lease.thread_id, lease.source));
        let lease = if is_own && lease.gate.reopen() { lease.clone() } else { fresh() };
        held.ids.lease = lease.clone();
        let Some(shared) = &mut held.shared else { return true };
        shared.parked.seat.take(lease.clone(), true);
        let metrics = &lease.backend.metrics.shared;
        match (is_own, equal) {
            (true, _) => metrics.own.inc(),
            (_, true) => metrics.equal.inc(),
            _ => metrics.renewed.inc(),
        };
        let closes = self.sharing.as_ref().map_or(0, |sharing| sharing.closes);
        shared.returned = is_own && shared.closes != closes;
        if !is_own {
            let renewal = renewal(&held.ids, shared, command, enters);
            shared.adoption = Some(Adopted { equal, renewal });
            (shared.adopted, shared.is_last, shared.written) = (true, false, false);
            if !equal {
                (shared.unclean, shared.insert_id) = (false, Some(0));
                shared.pins = pins::Pins::default();
            }
            held.ids.forget_statements();
            (held.tied, held.head) = (None, 0);
        }
        self.held.push(held);
        self.me.entry.attach(lease)
    }

    /// Makes a connection ready for a command of a session that shares it. How the command's text
    /// was changed, if it was.
    pub(super) async fn begin(
        &mut self,
        at: usize,
        command: &mut Command,
    ) -> Result<Option<Rewrite>> {
        let was_last = self.held[at].shared.as_ref().is_some_and(|shared| shared.is_last);
        self.note_begun(at, command);
        let undisturbed = !self.prepare_insert_id(at, command).await?;
        let (Some(sharing), Some(shared)) = (&self.sharing, &self.held[at].shared) else {
            return Ok(None);
        };
        if !last::needs(command).last_used || was_last && undisturbed {
            Ok(None)
        } else if was_last && shared.pins.has_list() {
            Err(unknown())
        } else {
            sharing.values.put_into(command)
        }
    }

    /// Notes what a command is about to do on a connection.
    fn note_begun(&mut self, at: usize, command: &Command) {
        self.settle(at);
        let Self { held, sharing: Some(sharing), .. } = self else { return };
        let enters = command.asker() == LOGIN;
        let one = &mut held[at];
        let Some(shared) = &mut one.shared else { return };
        match command.fact::<RuleVerdict>().and_then(|verdict| verdict.multiplex) {
            Some(Multiplex::Pin) => sharing.pinned_by_rule = true,
            Some(Multiplex::Allow) => sharing.pinned_by_rule = false,
            Some(Multiplex::IgnoreUserVariables) if one.tied == Some(Tied::USER_VARIABLE) => {
                one.tied = None;
            }
            _ => {}
        }
        let log = command.fact::<SessionLog>();
        let sets = log.is_some_and(|log| log.this.is_some_and(|this| this.statement.is_none()));
        // A filter's own question brings nothing of the session's log along: the connection is left
        // as it was, unless it was another session's. What is refused before it is sent brings
        // nothing at all.
        let aside = log.is_none() && command.asker() != Asker::Client && !enters;
        shared.coming = None;
        if sets || enters {
            shared.condition = None;
        } else if !aside || shared.adoption.is_some() {
            shared.condition = None;
            shared.coming = Condition::of(command);
        }
        shared.unclean |= one.tied.is_some();
        sharing.nowhere = log.is_some_and(|log| log.nowhere);
        sharing.asks |= command.code() == CommandCode::STMT_PREPARE && last::asks(command);
        if command.code() == CommandCode::RESET_CONNECTION {
            (sharing.asks, sharing.values) = (false, Values::default());
            shared.insert_id = Some(0);
        }
        if !aside {
            sharing.values.follow(log.map_or(0, |log| log.head()));
        }
        shared.pins.doing = Doing::of(command, one.ids.vendor, sets);
        shared.written |= shared.pins.doing.writes;
        // What is in the log runs anywhere, and leaves nothing to ask for.
        if log.is_none_or(|log| log.this.is_none()) {
            for (other, held) in held.iter_mut().enumerate() {
                if let Some(shared) = &mut held.shared {
                    shared.is_last = other == at;
                }
            }
        }
    }

    /// Takes in how the last reply on a connection has ended.
    pub(super) fn settle(&mut self, at: usize) {
        let Self { held, sharing: Some(sharing), .. } = self else { return };
        let one = &mut held[at];
        let Some(shared) = &mut one.shared else { return };
        let Some(left) = shared.parked.seat.left() else { return };
        let doing = std::mem::take(&mut shared.pins.doing);
        if doing.ends_tie && !left.failed {
            one.tied = None;
        }
        shared.pins.settle(&doing, &left);
        // What an error says is asked for where it came from.
        shared.is_last |= left.failed;
        sharing.values.settle(&doing, &left);
        if doing.insert_id.leave_open(&left) {
            let place = (&shared.parked.seat, &one.ids.lease.backend);
            let there = shared.insert_id.take();
            sharing.values.insert_id.stays(place, there, doing.insert_id);
        }
    }
}

impl Shared {
    pub(super) fn of(link: &link::Link) -> Self {
        link.seat.note(&link.schema, &link.lasting);
        Self {
            parked: parked::Kept {
                key: link.key.clone(),
                opened: link.opened,
                seat: link.seat.clone(),
            },
            condition: None,
            coming: None,
            unclean: false,
            adopted: false,
            adoption: None,
            closes: 0,
            returned: false,
            pins: pins::Pins::default(),
            insert_id: Some(0),
            is_last: false,
            written: true,
        }
    }
}

impl Held {
    /// Whether `catch-up` does not know yet whose connection it is.
    pub(in crate::backend) fn is_unknown(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.adoption.is_some())
    }

    /// Tells `catch-up` whose connection it was, with the first command that goes there. Behind it
    /// the connection is where the session's log ends.
    pub(in crate::backend) fn introduce(&mut self, command: &mut Command) {
        let Some(shared) = &mut self.shared else { return };
        if let Some(adoption) = shared.adoption.take() {
            command.note(adoption);
        }
        // A filter's own question may come without the log.
        let whole = command.asker() == Asker::Client || command.fact::<SessionLog>().is_some();
        if whole && std::mem::take(&mut shared.returned) {
            command.note(Returned);
        }
        if let Some(coming) = shared.coming.take_if(|coming| coming.comes_with(command)) {
            shared.condition = Some(coming);
        }
    }

    /// Whether another session has had it before.
    pub(super) fn is_adopted(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.adopted)
    }
}

/// What makes a connection as after the login of the command's session.
fn renewal(ids: &Ids, shared: &Shared, command: &Command, enters: bool) -> Arc<[Renewal]> {
    let (mut renewal, empty) = (Vec::new(), bytes::Bytes::new());
    renewal.push(Renewal { code: CommandCode::RESET_CONNECTION, payload: empty });
    let collation = shared.parked.key.collation;
    if let Some(names) = link::set_names(ids.vendor, collation, true) {
        renewal.push(Renewal { code: CommandCode::QUERY, payload: names.into() });
    }
    let schemaless = command.fact::<SessionLog>().is_some_and(|log| log.schemaless);
    if let Some(schema) = command.session().schema.clone().filter(|_| !enters && !schemaless) {
        renewal.push(Renewal { code: CommandCode::INIT_DB, payload: schema });
    }
    renewal.into()
}
