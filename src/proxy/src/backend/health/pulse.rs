//! One server's health, as the rest of the backend side sees it.

use super::{
    Health,
    machine::{Event, Role, state_name},
    probe::Kind,
};
use chain::topology::{ServerState, Standing};
use std::{fmt::Write as _, sync::Arc};

/// What a [`crate::backend::Backend`] knows of its health.
#[derive(Clone)]
pub(crate) struct Pulse {
    health: Arc<Health>,
    /// Which of the addresses it is.
    pub(super) at: usize,
}

impl Pulse {
    pub(super) fn new(health: Arc<Health>, at: usize) -> Self {
        Self { health, at }
    }

    /// A session has connected.
    pub(in crate::backend) fn reached(&self) {
        self.health.observe(self.at, Event::Reached);
    }

    /// A session could not connect: the server is not there, or does not answer.
    pub(in crate::backend) fn unreachable(&self, cause: String) {
        self.health.observe(self.at, Event::Unreachable(cause));
        self.suspect();
    }

    /// A session has lost a connection in the middle of a command.
    pub(in crate::backend) fn suspect(&self) {
        self.health.places[self.at].suspect.notify_one();
    }

    pub(super) fn noted(&self, event: Event) {
        self.health.observe(self.at, event);
    }

    pub(super) fn answered(&self, kind: Kind, error: Option<String>) {
        let place = &self.health.places[self.at];
        self.health.metrics.probed(&place.name, kind.name(), error.is_none());
        if place.lock().probed(kind, error.clone())
            && let Some(error) = error
        {
            tracing::warn!(server = %place.name, probe = kind.name(), error, "the monitor cannot ask");
        }
    }

    pub(super) fn role(&self) -> Role {
        self.health.places[self.at].lock().machine.role()
    }

    /// Whether its cluster has a primary that answers.
    pub(super) fn primary_answers(&self) -> bool {
        let Some((cluster, _)) = self.health.places[self.at].seat else { return true };
        self.health
            .primary(cluster)
            .is_some_and(|at| self.health.places[at].lock().machine.answers())
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.health.places[self.at].lock().machine.is_in_doubt()
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.health.places[self.at].seat.is_some()
    }

    pub(super) async fn suspected(&self) {
        self.health.places[self.at].suspect.notified().await;
    }

    /// Why the server gets no new work, or that it does.
    pub(crate) fn describe(&self, standing: &Standing) -> String {
        let record = self.health.places[self.at].lock();
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
