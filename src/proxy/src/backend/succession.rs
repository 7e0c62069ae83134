//! What a reload makes of a server.

use super::{Backend, connect::Endpoint, health::Pulse, pool::Pool};
use crate::{config, tls::TlsError};
use arc_swap::ArcSwapOption;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use tokio::sync::Semaphore;

impl Backend {
    /// The same server with other settings. Both share the limit on connections and all that is
    /// known of the server; what sessions hold stays with the one that has opened it.
    pub(crate) fn succeeded_by(
        &self,
        config: &config::Server,
        settings: &config::Backend,
        tcp: &config::Tcp,
    ) -> Result<Self, TlsError> {
        Ok(Self {
            endpoint: Endpoint::new(config, tcp)?,
            greeted: ArcSwapOption::new(self.greeted.load_full()),
            answered: AtomicBool::new(self.has_answered()),
            hostgroup: self.hostgroup,
            settings: settings.clone(),
            pool: Pool::default(),
            room: self.room.clone(),
            capacity: config.max_connections,
            spare: self.spare.clone(),
            leashes: self.leashes.clone(),
            pulse: self.pulse.clone(),
            retired: AtomicBool::new(false),
            server: self.server.clone(),
            metrics: self.metrics.clone(),
        })
    }

    /// The successor of `older` is in use: the limit is its own from now on.
    pub(crate) fn takes_over_from(&self, older: &Self) {
        resize(&self.room, older.capacity, self.capacity);
        older.retire();
    }

    /// It gets no new connections, and keeps none that nobody uses.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    /// Whether nobody has a connection to it.
    pub(super) fn is_unused(&self) -> bool {
        self.server.load.attached() == 0 && self.idle() == 0 && self.leashes.is_empty()
    }

    /// Its health.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }
}

/// Gives a semaphore with `from` permits `to` of them. Where too many are held they are taken out
/// as they come back.
pub(crate) fn resize(semaphore: &Arc<Semaphore>, from: u32, to: u32) {
    if to >= from {
        semaphore.add_permits((to - from) as usize);
        return;
    }
    let more = (from - to) as usize;
    let held = more - semaphore.forget_permits(more);
    if held == 0 {
        return;
    }
    let semaphore = semaphore.clone();
    tokio::spawn(async move {
        for _ in 0..held {
            match semaphore.acquire().await {
                Ok(permit) => permit.forget(),
                Err(_) => return,
            }
        }
    });
}
