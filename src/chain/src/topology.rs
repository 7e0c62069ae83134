//! Which servers there are, as filters may see them.

mod standing;

pub use standing::{ServerState, Standing};

use crate::facts::key_hash;
use std::{
    fmt,
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// A hostgroup's number, as rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostgroupId(pub u32);

/// All hostgroups. A snapshot: a reload makes a new one.
#[derive(Debug, Default)]
pub struct Topology {
    hostgroups: Vec<Hostgroup>,
    clusters: Vec<Cluster>,
    departures: u32,
}

/// Servers that can stand in for each other.
#[derive(Debug)]
pub struct Hostgroup {
    /// Its number.
    pub id: HostgroupId,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// Its members, in the order of the configuration.
    pub servers: Vec<Arc<Server>>,
}

/// Two hostgroups of the same servers: each server is a member of the one that fits what it is now.
/// The configuration names all servers in both; see [`Standing::is_member`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: Arc<str>,
    /// Where the primary is.
    pub writer: HostgroupId,
    /// Where the replicas are.
    pub reader: HostgroupId,
}

/// One member of one hostgroup.
pub struct Server {
    /// Unique within the process, never reused. A reload keeps it for a server that has the same
    /// hostgroup, address and name as before.
    pub id: u32,
    /// As configured: a name, or the address where none was given.
    pub name: Arc<str>,
    weight: AtomicU32,
    /// How much it is used now.
    pub load: Load,
    /// Whether it may get new work.
    pub standing: Standing,
    /// What program it is.
    pub profile: Profile,
}

/// What program a server is: a hash of the version that it has greeted with last, vendor included.
/// Written by the proxy.
#[derive(Debug, Default)]
pub struct Profile(AtomicU64);

/// How much a server is used now. Written by the proxy, its latency by `route`; read by whoever
/// balances.
#[derive(Debug, Default)]
pub struct Load {
    outstanding: AtomicU32,
    attached: AtomicU32,
    /// In µs; 0 if nothing has been measured.
    latency: AtomicU32,
    answered: AtomicU64,
    /// In µs, of all that were answered.
    time: AtomicU64,
}

/// A measured latency is a moving average of about so many.
const LATENCIES: u32 = 8;

/// Counts one use of a server for as long as it lives.
#[derive(Debug)]
pub struct InUse {
    server: Arc<Server>,
    counter: fn(&Load) -> &AtomicU32,
}

impl Topology {
    /// A topology of these hostgroups.
    pub fn new(hostgroups: Vec<Hostgroup>) -> Self {
        Self { hostgroups, clusters: Vec::new(), departures: 0 }
    }

    /// The same, with these clusters.
    #[must_use]
    pub fn with_clusters(mut self, clusters: Vec<Cluster>) -> Self {
        self.clusters = clusters;
        self
    }

    /// The same, after so many reloads that have taken servers away.
    #[must_use]
    pub fn after_departures(mut self, departures: u32) -> Self {
        self.departures = departures;
        self
    }

    /// How many reloads have taken servers away since the process began.
    pub fn departures(&self) -> u32 {
        self.departures
    }

    /// The cluster that this hostgroup is the writer or the reader of.
    pub fn cluster_of(&self, id: HostgroupId) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cluster.writer == id || cluster.reader == id)
    }

    /// All clusters.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The hostgroup with this number.
    pub fn hostgroup(&self, id: HostgroupId) -> Option<&Hostgroup> {
        self.hostgroups.iter().find(|group| group.id == id)
    }

    /// All of them.
    pub fn hostgroups(&self) -> &[Hostgroup] {
        &self.hostgroups
    }
}

impl Server {
    /// A server nobody uses yet.
    pub fn new(id: u32, name: impl Into<Arc<str>>, weight: u32) -> Self {
        Self {
            id,
            name: name.into(),
            weight: AtomicU32::new(weight),
            load: Load::default(),
            standing: Standing::default(),
            profile: Profile::default(),
        }
    }

    /// Its share of the load; 0 is never chosen.
    pub fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Sets its share of the load: a reload has changed it.
    pub fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Relaxed);
    }
}

/// The bit of a profile that says so.
const IS_MARIADB: u64 = 1;

impl Profile {
    /// Servers with equal ones answer alike, as far as their program decides it. `None` if it has
    /// not greeted yet.
    pub fn get(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.0.load(Relaxed))
    }

    /// Whether it is MariaDB's, by its version. `None` if it has not greeted yet.
    pub fn is_mariadb(&self) -> Option<bool> {
        self.get().map(|profile| profile.get() & IS_MARIADB != 0)
    }

    /// Notes the version that it has greeted with.
    pub fn set(&self, version: &str) {
        let mariadb = if version.contains("MariaDB") { IS_MARIADB } else { 0 };
        let rest = key_hash(version.as_bytes()) & !IS_MARIADB;
        self.0.store(rest.max(IS_MARIADB << 1) | mariadb, Relaxed);
    }
}

impl Load {
    /// Commands that were sent and whose reply has not ended.
    pub fn outstanding(&self) -> u32 {
        self.outstanding.load(Relaxed)
    }

    /// Connections that sessions hold.
    pub fn attached(&self) -> u32 {
        self.attached.load(Relaxed)
    }

    /// Clients' commands whose whole reply has reached them, and the time that these took, from the
    /// last byte of the command to the last byte of the reply.
    pub fn answered(&self) -> (u64, Duration) {
        (self.answered.load(Relaxed), Duration::from_micros(self.time.load(Relaxed)))
    }

    /// Takes in one of these.
    pub fn note_answered(&self, took: Duration) {
        self.answered.fetch_add(1, Relaxed);
        self.time.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// From a command's way down to its reply's first packet, a moving average, to the µs. `None`
    /// if nobody has measured it.
    pub fn latency(&self) -> Option<Duration> {
        match self.latency.load(Relaxed) {
            0 => None,
            latency => Some(Duration::from_micros(latency.into())),
        }
    }

    /// Takes in what one command took. Of two that come at once, one may be lost.
    pub fn note_latency(&self, latency: Duration) {
        let new = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX).max(1);
        let average = match self.latency.load(Relaxed) {
            0 => new,
            old => old - old / LATENCIES + new / LATENCIES,
        };
        self.latency.store(average.max(1), Relaxed);
    }
}

impl InUse {
    /// Counts a command until its reply has ended.
    pub fn command(server: Arc<Server>) -> Self {
        Self::count(server, |load| &load.outstanding)
    }

    /// Counts a connection until its session has let it go.
    pub fn connection(server: Arc<Server>) -> Self {
        Self::count(server, |load| &load.attached)
    }

    fn count(server: Arc<Server>, counter: fn(&Load) -> &AtomicU32) -> Self {
        counter(&server.load).fetch_add(1, Relaxed);
        Self { server, counter }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        (self.counter)(&self.server.load).fetch_sub(1, Relaxed);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (#{}, weight {})", self.name, self.id, self.weight())
    }
}

impl fmt::Display for HostgroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
