//! Which servers can be used, and where each belongs.
//!
//! ```text
//! monitor ──▶ probes ─┐
//! sessions ─▶ connects ┼─▶ machine (one for each server) ─▶ state ─┐
//! operator ─▶ words ──┘        └─ role ─▶ roster (one for each cluster) ─▶ member ─┴─▶ Standing
//! ```
//!
//! A server is one address, wherever it stands; its state holds in each of its hostgroups. Filters
//! and the dispatcher read [`chain::topology::Standing`]; everything else is in here.

pub(crate) mod machine;
pub(crate) mod monitor;
mod probe;
mod pulse;
pub(crate) mod report;
mod roster;
mod succession;

use super::leash::Leashes;
use crate::{
    config::{Cluster, Config, ServerWord},
    metrics::Health as Counts,
};
use chain::{HostgroupId, Server, topology::ServerState};
use machine::{Event, Lag, Machine, Rules, Transition, state_name};
pub(crate) use pulse::Pulse;
use report::{Happened, Record};
use roster::{Membership, News, Roster, Seat};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, futures::Notified};

/// All servers by their addresses.
pub(crate) struct Health {
    places: Vec<Place>,
    clusters: Vec<Seats>,
    /// Tells those who wait for a server of every change, also of that to another configuration.
    changed: Arc<Notify>,
    /// Tells those who wait for a server to come nearer of every change and of every lag.
    measured: Arc<Notify>,
    monitored: bool,
    metrics: Counts,
    /// Another configuration is in use: what is seen is noted there. Locked by whoever notes
    /// something, and when a reload takes over.
    retired: RwLock<bool>,
}

/// One address.
struct Place {
    name: Arc<str>,
    address: String,
    /// Locked when something is seen of the server, or somebody asks; never for a command.
    record: Arc<Mutex<Record>>,
    /// What the file says of it.
    word: ServerWord,
    rules: Rules,
    members: Vec<Member>,
    /// Its cluster, and its seat there.
    seat: Option<(usize, usize)>,
    /// Sessions have reason to believe that it is gone.
    suspect: Arc<Notify>,
}

/// One address in one hostgroup.
struct Member {
    hostgroup: HostgroupId,
    server: Arc<Server>,
    leashes: Arc<Leashes>,
    /// The file names it here.
    listed: bool,
}

/// One cluster.
struct Seats {
    config: Cluster,
    /// Locked when something may have moved, also while it moves.
    roster: Mutex<Roster>,
    /// By seat.
    places: Vec<usize>,
}

impl Health {
    /// The health of `servers`, which stand for those of `config` one by one. What is known of an
    /// address goes on where there was a configuration before. Nothing is changed by it until
    /// [`Health::begin`].
    pub(crate) fn new(config: &Config, servers: &[Arc<Server>], before: &Self) -> Arc<Self> {
        let monitored = config.monitor.account.is_some();
        let mut health = Self {
            places: Vec::new(),
            clusters: Vec::new(),
            changed: before.changed.clone(),
            measured: before.measured.clone(),
            monitored,
            metrics: before.metrics.clone(),
            retired: RwLock::new(false),
        };
        let seats = |cluster: &Cluster| Seats {
            config: cluster.clone(),
            roster: Mutex::new(Roster::new(cluster.writer_is_also_reader)),
            places: Vec::new(),
        };
        health.clusters.extend(config.clusters.iter().map(seats));
        for (server, made) in config.servers.iter().zip(servers) {
            let address = server.address.to_string();
            let cluster = config.clusters.iter().position(|one| one.has(server.hostgroup));
            let at = health.places.iter().position(|place| place.address == address);
            let at = at.unwrap_or_else(|| {
                let of_address = config.servers.iter().filter(|one| one.address == server.address);
                let word = of_address.map(|one| one.state).max().unwrap_or_default();
                let rules = rules(config, cluster);
                let known = before.at(&address);
                let record = known.map(|place| place.record.clone());
                let anew = || Record::new(Machine::new(rules, word, Instant::now()));
                health.places.push(Place {
                    name: made.name.clone(),
                    address,
                    record: record.unwrap_or_else(|| Arc::new(Mutex::new(anew()))),
                    word,
                    rules,
                    members: Vec::new(),
                    seat: None,
                    suspect: known.map(|place| place.suspect.clone()).unwrap_or_default(),
                });
                health.places.len() - 1
            });
            let hostgroup = HostgroupId(server.hostgroup);
            let leashes = before.leashes(made).unwrap_or_default();
            let member = Member { hostgroup, server: made.clone(), leashes, listed: !server.twin };
            health.places[at].members.push(member);
            if let (Some(cluster), None) = (cluster, health.places[at].seat) {
                health.places[at].seat = Some((cluster, health.clusters[cluster].places.len()));
                health.clusters[cluster].places.push(at);
            }
        }
        Arc::new(health)
    }

    /// Where there is no server yet.
    pub(crate) fn of_nothing(metrics: &Counts) -> Arc<Self> {
        Arc::new(Self {
            places: Vec::new(),
            clusters: Vec::new(),
            changed: Arc::default(),
            measured: Arc::default(),
            monitored: false,
            metrics: metrics.clone(),
            retired: RwLock::new(false),
        })
    }

    /// Somebody asks the servers.
    pub(crate) fn is_monitored(&self) -> bool {
        self.monitored
    }

    /// Resolves with the next change of any server; looked at before the servers are.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Resolves with the next change of any server, or when it is known how far one is behind.
    pub(crate) fn measured(&self) -> Notified<'_> {
        self.measured.notified()
    }

    /// The health of a server, and what its connections are cut by.
    pub(crate) fn of(self: &Arc<Self>, server: &Server) -> Option<(Pulse, Arc<Leashes>)> {
        self.places.iter().enumerate().find_map(|(at, place)| {
            let member = place.members.iter().find(|member| member.server.id == server.id)?;
            Some((Pulse::new(self.clone(), at), member.leashes.clone()))
        })
    }

    /// An operator's word on all servers of that name; how many there are.
    pub(crate) fn order(self: &Arc<Self>, name: &str, word: ServerWord) -> usize {
        let named = |at: &usize| *self.places[*at].name == *name;
        let places: Vec<_> = (0..self.places.len()).filter(named).collect();
        places.iter().for_each(|&at| self.observe(at, Event::Ordered(word)));
        places.len()
    }

    /// The primary of a cluster.
    fn primary(&self, cluster: usize) -> Option<usize> {
        let Seats { roster, places, .. } = &self.clusters[cluster];
        // Nothing panics while it is locked.
        let roster = roster.lock().unwrap_or_else(PoisonError::into_inner);
        roster.primary().map(|seat| places[seat])
    }

    /// Notes what is seen of a server, and does what follows from it.
    fn observe(self: &Arc<Self>, at: usize, event: Event) {
        let retired = self.retired.read().unwrap_or_else(PoisonError::into_inner);
        if *retired {
            return;
        }
        let place = &self.places[at];
        let mut record = place.lock();
        let lag = record.machine.lag();
        let transition = record.machine.observe(event, Instant::now());
        if lag != record.machine.lag() {
            record.show(place, &self.metrics);
            self.measured.notify_waiters();
        }
        let Some(transition) = transition else { return };
        record.show(place, &self.metrics);
        self.tell(place, &mut record, &transition);
        drop(record);
        match transition.state {
            Some((_, ServerState::OfflineHard)) => {
                place.members.iter().for_each(|member| place.cut(member, "offline-hard"));
            }
            Some((_, ServerState::Shunned)) if self.monitored => {
                place.members.iter().for_each(|member| place.cut_forwarded(member));
            }
            _ => {}
        }
        if let Some((cluster, _)) = place.seat {
            self.arrange(cluster);
        }
        self.changed.notify_waiters();
        self.measured.notify_waiters();
        self.wake_in_time(at);
    }

    /// Where nobody asks a server that is shunned, time alone brings it back.
    fn wake_in_time(self: &Arc<Self>, at: usize) {
        let until = self.places[at].lock().machine.until().filter(|_| !self.monitored);
        if let Some(until) = until {
            let health = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep_until(until.into()).await;
                health.observe(at, Event::Time);
            });
        }
    }

    /// One line, one event, one count for each change.
    fn tell(&self, place: &Place, record: &mut Record, transition: &Transition) {
        let Transition { state, role, cause } = transition;
        let server = &*place.name;
        if let Some((from, to)) = role {
            let (from, to) = (from.name(), to.name());
            tracing::info!(server, from, to, cause, "a server's role");
            self.metrics.changed(server, from, to);
            record.happened(Happened::new("role", from, to, cause));
        }
        if let Some((from, to)) = state {
            let good = *to == ServerState::Online;
            let (from, to) = (state_name(*from), state_name(*to));
            match good {
                true => tracing::info!(server, from, to, cause, "a server's state"),
                false => tracing::warn!(server, from, to, cause, "a server's state"),
            }
            self.metrics.changed(server, from, to);
            record.happened(Happened::new("state", from, to, cause));
        }
    }

    /// Puts every server of a cluster where it belongs.
    fn arrange(&self, cluster: usize) {
        let Seats { config, roster, places } = &self.clusters[cluster];
        // Nothing panics while it is locked.
        let mut roster = roster.lock().unwrap_or_else(PoisonError::into_inner);
        let places: Vec<_> = places.iter().map(|&at| &self.places[at]).collect();
        let seats: Vec<_> = places.iter().map(|place| place.seat(config)).collect();
        let (memberships, news) = roster.arrange(&seats);
        for (place, membership) in places.iter().zip(memberships) {
            self.place(config, place, membership);
        }
        for news in news {
            self.announce(config, &places, news);
        }
    }

    fn place(&self, config: &Cluster, place: &Place, membership: Membership) {
        let sides = [(config.writer, membership.writer), (config.reader, membership.reader)];
        for (hostgroup, belongs) in sides {
            let members = place.members.iter().filter(|one| one.hostgroup.0 == hostgroup);
            for member in members {
                let standing = &member.server.standing;
                let before = standing.is_member();
                standing.set_member(belongs);
                self.metrics.is_member(member.hostgroup, &place.name, belongs);
                // Reads may end where they have begun; writes may not.
                if before && !belongs && hostgroup == config.writer {
                    place.cut(member, "not the primary");
                }
            }
        }
    }

    fn announce(&self, config: &Cluster, places: &[&Place], news: News) {
        let (cluster, name) = (&*config.name, |at: usize| &*places[at].name);
        match news {
            News::Primary { from, to } => {
                let (from, to) = (from.map_or("none", name), to.map_or("none", name));
                tracing::warn!(cluster, from, to, "the cluster's primary");
                let cause = format!("the primary of {cluster}");
                for place in places.iter().filter(|place| [from, to].contains(&&*place.name)) {
                    place.lock().happened(Happened::new("primary", from, to, &cause));
                }
            }
            News::Rivals(rivals) => {
                let rivals: Vec<_> = rivals.into_iter().map(name).collect();
                let text = "several servers can be written to: those that are not the primary are \
                            not used, make them read-only";
                tracing::error!(cluster, ?rivals, "{text}");
                for place in places.iter().filter(|place| rivals.contains(&&*place.name)) {
                    place.lock().happened(Happened::new("rival", "", "", text));
                }
            }
        }
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Record> {
        // Nothing panics while it is locked.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat(&self, config: &Cluster) -> Seat {
        let machine = &self.lock().machine;
        let listed = |hostgroup| {
            self.members.iter().any(|member| member.hostgroup.0 == hostgroup && member.listed)
        };
        Seat {
            role: machine.role(),
            up: machine.is_up(),
            serves: machine.state() == ServerState::Online,
            listed_writer: listed(config.writer),
            listed_reader: listed(config.reader),
        }
    }

    fn cut(&self, member: &Member, why: &str) {
        self.are_cut(member, member.leashes.cut(), why);
    }

    /// Nobody could tell a forwarded session that its server has gone silent: nothing of what it
    /// says is read.
    fn cut_forwarded(&self, member: &Member) {
        let why = "health checks have failed: forwarded sessions";
        self.are_cut(member, member.leashes.cut_forwarded(), why);
    }

    fn are_cut(&self, member: &Member, connections: usize, why: &str) {
        let (server, hostgroup) = (&*self.name, member.hostgroup.0);
        if connections > 0 {
            tracing::info!(server, hostgroup, connections, why, "connections are cut");
        }
    }
}

impl Record {
    /// Lets others see the state and the lag.
    fn show(&self, place: &Place, metrics: &Counts) {
        let (state, lag) = (self.machine.state(), self.machine.lag());
        metrics.is_behind(&place.name, lag);
        for Member { hostgroup, server, .. } in &place.members {
            server.standing.set_state(state);
            server.standing.set_lag(match lag {
                Lag::Unknown => None,
                // As far as can be said.
                Lag::Stopped => Some(Duration::MAX),
                Lag::By(lag) => Some(lag),
            });
            metrics.is_in(*hostgroup, &place.name, state);
            metrics.is_member(*hostgroup, &place.name, server.standing.is_member());
        }
    }
}

/// When states change of a server in this cluster.
fn rules(config: &Config, cluster: Option<usize>) -> Rules {
    let settings = &config.monitor.settings;
    let max_lag = cluster.and_then(|at| config.clusters[at].max_lag);
    Rules {
        failures: settings.failures,
        successes: settings.successes,
        confirmations: settings.confirmations,
        shun_time: settings.shun_time,
        monitored: config.monitor.account.is_some(),
        max_lag: max_lag.map(|lag| *lag),
    }
}
