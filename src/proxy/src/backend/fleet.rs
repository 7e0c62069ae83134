//! All servers, as sessions and the admin port find them.

use super::{Backend, health::Health};
use arc_swap::ArcSwap;
use chain::{Server, Topology};
use std::{collections::BTreeMap, sync::Arc};

/// All servers, by [`Server::id`]. Lives as long as the process; a reload changes what it holds.
pub(crate) struct Backends(ArcSwap<Fleet>);

/// The servers of one configuration.
#[derive(Clone)]
pub(crate) struct Fleet {
    servers: BTreeMap<u32, Arc<Backend>>,
    /// The same in the order of the configuration.
    order: Vec<Arc<Backend>>,
    /// Those that the configuration names no more, and that have connections yet.
    pub(crate) leaving: Vec<Arc<Backend>>,
    pub(crate) health: Arc<Health>,
    pub(crate) topology: Arc<Topology>,
}

impl Fleet {
    /// These servers, in the order of the configuration.
    pub(crate) fn new(
        order: Vec<Arc<Backend>>,
        leaving: Vec<Arc<Backend>>,
        health: Arc<Health>,
        topology: Arc<Topology>,
    ) -> Self {
        let servers = order.iter().map(|backend| (backend.server.id, backend.clone())).collect();
        Self { servers, order, leaving, health, topology }
    }

    /// The server with this id.
    pub(crate) fn server(&self, id: u32) -> Option<&Arc<Backend>> {
        self.servers.get(&id)
    }

    /// In the order of the configuration.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.order.iter()
    }
}

impl Backends {
    pub(crate) fn new(fleet: Fleet) -> Self {
        Self(ArcSwap::from_pointee(fleet))
    }

    /// Puts these in the place of all that there were.
    pub(crate) fn replace(&self, fleet: Fleet) {
        self.0.store(Arc::new(fleet));
    }

    /// What there is now.
    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        self.0.load_full()
    }

    pub(crate) fn get(&self, server: &Server) -> Option<Arc<Backend>> {
        let fleet = self.0.load();
        let leaving = || fleet.leaving.iter().find(|backend| backend.server.id == server.id);
        fleet.servers.get(&server.id).or_else(leaving).cloned()
    }

    /// In the order of the configuration.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Backend>> + use<> {
        self.0.load().order.clone().into_iter()
    }

    /// Also those that are about to leave.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Backend>> + use<> {
        self.iter().chain(self.0.load().leaving.clone())
    }

    /// Which of them can be used.
    pub(crate) fn health(&self) -> Arc<Health> {
        self.0.load().health.clone()
    }

    /// The same servers, as filters see them.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        self.0.load().topology.clone()
    }

    /// Forgets those that have left and that nobody uses any more; gives them.
    pub(crate) fn forget_left(&self) -> Vec<Arc<Backend>> {
        if self.0.load().leaving.is_empty() {
            return Vec::new();
        }
        let fleet = self.0.load_full();
        let (gone, leaving): (Vec<_>, Vec<_>) =
            fleet.leaving.iter().cloned().partition(|backend| backend.is_unused());
        if !gone.is_empty() {
            let fleet = Fleet { leaving, ..(*fleet).clone() };
            self.0.store(Arc::new(fleet));
        }
        gone
    }
}
