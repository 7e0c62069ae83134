//! The servers of a configuration, as filters see them.

use crate::{
    backend::{Backend, Fleet},
    config::{self, Config},
};
use chain::{HostgroupId, Server, Topology, topology};
use std::sync::Arc;

/// Whether these are one server, whatever else is said of it: sessions that are on it stay.
pub(super) fn is_same(one: &config::Server, other: &config::Server) -> bool {
    (one.hostgroup, &one.address, &one.name) == (other.hostgroup, &other.address, &other.name)
}

/// Whether connections to them are opened in the same way, and as many.
pub(super) fn is_spoken_to_alike(one: &config::Server, other: &config::Server) -> bool {
    // The rest is about which commands go there.
    let config::Server { weight, state, twin, .. } = *other;
    config::Server { weight, state, twin, ..one.clone() } == *other
}

/// A server that is new.
pub(super) fn server(config: &config::Server, id: u32) -> Arc<Server> {
    let made = Server::new(id, config.name.as_str(), config.weight);
    // Until somebody has asked it, it is where the file says.
    made.standing.set_member(!config.twin);
    Arc::new(made)
}

/// `servers` stand for those of `config` one by one.
pub(crate) fn topology(config: &Config, servers: &[Arc<Server>]) -> Topology {
    let mut groups: Vec<chain::Hostgroup> = Vec::new();
    for (server, made) in config.servers.iter().zip(servers) {
        let hostgroup = HostgroupId(server.hostgroup);
        match groups.iter_mut().find(|group| group.id == hostgroup) {
            Some(group) => group.servers.push(made.clone()),
            None => {
                let named = config.hostgroups.iter().find(|named| named.id == server.hostgroup);
                let name = named.map(|named| named.name.as_str().into());
                let servers = vec![made.clone()];
                groups.push(topology::Hostgroup { id: hostgroup, name, servers });
            }
        }
    }
    let clusters = config.clusters.iter().map(|cluster| topology::Cluster {
        name: cluster.name.as_str().into(),
        writer: HostgroupId(cluster.writer),
        reader: HostgroupId(cluster.reader),
    });
    Topology::new(groups).with_clusters(clusters.collect())
}

/// How many reloads have taken servers away, when `servers` come after those that are `in_use`.
pub(super) fn departures(in_use: &Fleet, servers: &[Arc<Server>]) -> u32 {
    let stays = |backend: &Arc<Backend>| servers.iter().any(|made| made.id == backend.server.id);
    in_use.topology.departures() + u32::from(!in_use.iter().all(stays))
}

/// As [`topology`], of servers that nobody uses.
pub(crate) fn alone(config: &Config) -> Topology {
    let servers: Vec<_> =
        config.servers.iter().zip(1..).map(|(config, id)| server(config, id)).collect();
    topology(config, &servers)
}
