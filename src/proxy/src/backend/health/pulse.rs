//! One server's health, as the rest of the backend side sees it.

use super::{
    Health, Place,
    machine::{Event, Role, state_name},
    probe::Kind,
};
use arc_swap::ArcSwap;
use chain::topology::{ServerState, Standing};
use std::{fmt::Write as _, sync::Arc};

/// What a [`crate::backend::Backend`] knows of its health.
/// Clones follow each other into another configuration.
#[derive(Clone)]
pub(crate) struct Pulse(Arc<ArcSwap<Spot>>);

/// A server's place.
struct Spot {
    health: Arc<Health>,
    /// Which of the addresses it is.
    at: usize,
}

impl Pulse {
    pub(super) fn new(health: Arc<Health>, at: usize) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(Spot { health, at })))
    }

    /// Goes by another configuration from now on.
    pub(crate) fn follow(&self, other: &Self) {
        self.0.store(other.0.load_full());
    }

    /// Which of the addresses it is.
    pub(super) fn at(&self) -> usize {
        self.0.load().at
    }

    fn observe(&self, event: Event) {
        let spot = self.0.load_full();
        spot.health.observe(spot.at, event);
    }

    fn with<T>(&self, look: impl FnOnce(&Place, &Health) -> T) -> T {
        let spot = self.0.load();
        look(&spot.health.places[spot.at], &spot.health)
    }

    /// A session has connected.
    pub(in crate::backend) fn reached(&self) {
        self.observe(Event::Reached);
    }

    /// A session could not connect: the server is not there, or does not answer.
    pub(in crate::backend) fn unreachable(&self, cause: String) {
        self.observe(Event::Unreachable(cause));
        self.suspect();
    }

    /// A session has lost a connection in the middle of a command.
    pub(in crate::backend) fn suspect(&self) {
        self.with(|place, _| place.suspect.notify_one());
    }

    pub(super) fn noted(&self, event: Event) {
        self.observe(event);
    }

    pub(super) fn answered(&self, kind: Kind, error: Option<String>) {
        self.with(|place, health| {
            health.metrics.probed(&place.name, kind.name(), error.is_none());
            if place.lock().probed(kind, error.clone())
                && let Some(error) = error
            {
                let (server, probe) = (&*place.name, kind.name());
                tracing::warn!(server, probe, error, "the monitor cannot ask");
            }
        });
    }

    pub(super) fn role(&self) -> Role {
        self.with(|place, _| place.lock().machine.role())
    }

    /// Whether its cluster has a primary that answers.
    pub(super) fn primary_answers(&self) -> bool {
        self.with(|place, health| {
            let Some((cluster, _)) = place.seat else { return true };
            let primary = health.primary(cluster);
            primary.is_some_and(|at| health.places[at].lock().machine.answers())
        })
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.with(|place, _| place.lock().machine.is_in_doubt())
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.with(|place, _| place.seat.is_some())
    }

    pub(super) async fn suspected(&self) {
        let suspect = self.with(|place, _| place.suspect.clone());
        suspect.notified().await;
    }

    /// Why the server gets no new work, or that it does.
    pub(crate) fn describe(&self, standing: &Standing) -> String {
        let spot = self.0.load();
        let record = spot.health.places[spot.at].lock();
        let machine = &record.machine;
        if !standing.is_member() {
            return format!("not in this hostgroup, its role is {}", machine.role());
        }
        let mut text = state_name(machine.state()).to_uppercase().replace('-', "_");
        if machine.state() != ServerState::Online {
            let _ = write!(text, ": {}", machine.cause());
        }
        text
    }
}
