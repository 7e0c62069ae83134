//! What is known of servers, for people.

use super::{
    Health, Place,
    machine::{Lag, Machine, state_name},
    probe::Kind,
};
use serde::Serialize;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// How many events of a server are kept.
const EVENTS: usize = 32;

/// What is known of one server.
pub(super) struct Record {
    pub(super) machine: Machine,
    probes: [Option<Probed>; 3],
    events: VecDeque<Happened>,
}

/// How a question has ended.
#[derive(Clone, Debug)]
struct Probed {
    at: Instant,
    error: Option<String>,
}

/// Something that has happened to a server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Happened {
    /// Seconds since 1970.
    unix_time: f64,
    /// `state`, `role`, `primary` or `rival`.
    kind: &'static str,
    from: String,
    to: String,
    cause: String,
}

/// One server of `GET /servers`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerReport {
    pub(crate) name: Arc<str>,
    address: String,
    pub(crate) state: &'static str,
    pub(crate) cause: String,
    pub(crate) since_seconds: f64,
    /// For how much longer it is left alone at least.
    pub(crate) shunned_for_seconds: Option<f64>,
    pub(crate) role: &'static str,
    /// `null` where nobody knows, and where replication has stopped.
    pub(crate) lag_seconds: Option<f64>,
    replication_stopped: bool,
    hostgroups: Vec<MemberReport>,
    probes: Vec<ProbeReport>,
    events: Vec<Happened>,
}

/// One of its hostgroups.
#[derive(Clone, Debug, Serialize)]
struct MemberReport {
    hostgroup: u32,
    /// It belongs there now.
    member: bool,
    weight: u32,
    attached: u32,
    outstanding: u32,
}

/// The last question of one kind.
#[derive(Clone, Debug, Serialize)]
struct ProbeReport {
    probe: &'static str,
    seconds_ago: f64,
    error: Option<String>,
}

/// One cluster of `GET /servers`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClusterReport {
    name: String,
    writer: u32,
    reader: u32,
    primary: Option<Arc<str>>,
}

impl Record {
    pub(super) fn new(machine: Machine) -> Self {
        Self { machine, probes: [const { None }; 3], events: VecDeque::new() }
    }

    pub(super) fn happened(&mut self, event: Happened) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// True if it has ended otherwise than the one before.
    pub(super) fn probed(&mut self, kind: Kind, error: Option<String>) -> bool {
        let before = self.probes[kind as usize].take();
        let differs = before.is_none_or(|before| before.error != error);
        self.probes[kind as usize] = Some(Probed { at: Instant::now(), error });
        differs
    }
}

impl Happened {
    pub(super) fn new(kind: &'static str, from: &str, to: &str, cause: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (from, to, cause) = (from.to_owned(), to.to_owned(), cause.to_owned());
        Self { unix_time: (now.as_secs_f64() * 1000.0).round() / 1000.0, kind, from, to, cause }
    }
}

impl Health {
    /// All servers.
    pub(crate) fn servers(&self) -> Vec<ServerReport> {
        self.places.iter().map(Place::report).collect()
    }

    /// All servers of that name.
    pub(crate) fn named(&self, name: &str) -> Vec<ServerReport> {
        self.places.iter().filter(|place| *place.name == *name).map(Place::report).collect()
    }

    /// All clusters.
    pub(crate) fn clusters(&self) -> Vec<ClusterReport> {
        let clusters = self.clusters.iter().enumerate().map(|(at, cluster)| ClusterReport {
            name: cluster.config.name.clone(),
            writer: cluster.config.writer,
            reader: cluster.config.reader,
            primary: self.primary(at).map(|at| self.places[at].name.clone()),
        });
        clusters.collect()
    }
}

impl Place {
    fn report(&self) -> ServerReport {
        let record = self.lock();
        let Record { machine, probes, events } = &*record;
        let now = Instant::now();
        let kinds = Kind::ALL.into_iter().zip(probes);
        let probes = kinds.filter_map(|(kind, probed)| {
            let Probed { at, error } = probed.as_ref()?;
            let seconds_ago = now.duration_since(*at).as_secs_f64();
            Some(ProbeReport { probe: kind.name(), seconds_ago, error: error.clone() })
        });
        let hostgroups = self.members.iter().map(|member| MemberReport {
            hostgroup: member.hostgroup.0,
            member: member.server.standing.is_member(),
            weight: member.server.weight(),
            attached: member.server.load.attached(),
            outstanding: member.server.load.outstanding(),
        });
        ServerReport {
            name: self.name.clone(),
            address: self.address.clone(),
            state: state_name(machine.state()),
            cause: machine.cause().to_owned(),
            since_seconds: now.duration_since(machine.since()).as_secs_f64(),
            shunned_for_seconds: machine
                .until()
                .map(|until| until.saturating_duration_since(now).as_secs_f64()),
            role: machine.role().name(),
            lag_seconds: match machine.lag() {
                Lag::By(lag) => Some(lag.as_secs_f64()),
                Lag::Unknown | Lag::Stopped => None,
            },
            replication_stopped: machine.lag() == Lag::Stopped,
            hostgroups: hostgroups.collect(),
            probes: probes.collect(),
            events: events.iter().cloned().collect(),
        }
    }
}
