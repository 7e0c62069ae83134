//! Clusters: two hostgroups whose servers change sides by what they are.

use super::{
    Server,
    checks::{Hostgroups, unique},
    part::{Entry, List, elsewhere},
};
use chain::settings::{HumanDuration, Mistakes};
use schemars::JsonSchema;
use serde::Deserialize;

/// Two hostgroups of the same servers: one for the primary, one for the replicas. A server that
/// stands in one of them counts in both, and the monitor finds out where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// What it is called in logs and by filters.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The hostgroup of the primary.
    pub writer: u32,
    /// The hostgroup of the replicas.
    pub reader: u32,
    /// A replica that is further behind its primary gets no new work. Default: without limit.
    pub max_lag: Option<HumanDuration>,
    /// Whether the primary serves the reader hostgroup too; if not, it does so only while no
    /// replica can.
    #[serde(default = "yes")]
    pub writer_is_also_reader: bool,
}

fn yes() -> bool {
    true
}

impl Cluster {
    pub(crate) fn has(&self, hostgroup: u32) -> bool {
        self.writer == hostgroup || self.reader == hostgroup
    }
}

/// Notes what clusters cannot be.
pub(super) fn check(
    clusters: &List<Cluster>,
    servers: &List<Server>,
    hostgroups: &Hostgroups,
    mistakes: &mut Mistakes,
) {
    unique(clusters, "name", |cluster| Some(cluster.name.clone()), mistakes);
    for (at, entry) in clusters.entries.iter().enumerate() {
        let Entry { settings, value: cluster, .. } = entry;
        if cluster.writer == cluster.reader {
            let mistake = settings.mistake_at("reader", "writer and reader are one hostgroup");
            mistakes.push(mistake.hint("give the replicas a hostgroup of their own"));
            continue;
        }
        for (key, id) in [("writer", cluster.writer), ("reader", cluster.reader)] {
            let before = &clusters.entries[..at];
            if let Some(other) = before.iter().find(|other| other.value.has(id)) {
                let message = format!("hostgroup {id} is in another cluster already");
                let mistake = settings.mistake_at(key, message);
                mistakes.push(mistake.hint(elsewhere(&other.settings.mistake(""))));
            }
            // With a server in one of the two, the other has it as well.
            let message = format!("hostgroup {id} has no server");
            mistakes.extend(hostgroups.missing_at(id, || settings.mistake_at(key, message)));
        }
    }
    for (at, entry) in servers.entries.iter().enumerate() {
        let mut before = servers.entries[..at].iter();
        let same = |other: &&Entry<Server>| other.value.address == entry.value.address;
        let Some(first) = before.find(same) else { continue };
        let of = |server: &Server| {
            let has = |cluster: &&Entry<Cluster>| cluster.value.has(server.hostgroup);
            clusters.entries.iter().find(has).map(|cluster| cluster.value.name.as_str())
        };
        let (Some(one), Some(other)) = (of(&first.value), of(&entry.value)) else { continue };
        let hint = elsewhere(&first.settings.mistake_at("address", ""));
        if one != other {
            let message = format!("this server is in the cluster {one:?} already");
            mistakes.push(entry.settings.mistake_at("hostgroup", message).hint(hint));
        } else if first.value.name != entry.value.name {
            let message = format!("this server is called {:?} elsewhere", first.value.name);
            mistakes.push(entry.settings.mistake_at("name", message).hint(hint));
        }
    }
}

/// Adds to each hostgroup of a cluster the servers that stand in the other one only.
pub(super) fn complete(servers: &mut Vec<Server>, clusters: &[Cluster]) {
    let mut twins = Vec::new();
    for cluster in clusters {
        for (here, there) in [(cluster.writer, cluster.reader), (cluster.reader, cluster.writer)] {
            for server in servers.iter().filter(|server| server.hostgroup == here) {
                let stands =
                    |other: &Server| other.hostgroup == there && other.address == server.address;
                if !servers.iter().any(stands) {
                    twins.push(Server { hostgroup: there, twin: true, ..server.clone() });
                }
            }
        }
    }
    servers.extend(twins);
}
