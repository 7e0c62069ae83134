//! Reloads, one at a time, and the end.

use super::{
    Inherited, Refused, Reloaded,
    report::{self, needs_restart},
    take_over,
};
use crate::{config::Config, runtime::Live};
use chain::settings::Mistakes;
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use tokio::{net::TcpListener, sync::Mutex as Turn, task::JoinHandle};

/// Reads the configuration anew.
pub type Read = Arc<dyn Fn() -> Result<Config, Mistakes> + Send + Sync>;

/// What changes a proxy while it runs, and ends it. Clones are one.
#[derive(Clone)]
pub struct Control(pub(crate) Arc<Reloads>);

/// What reloads need.
pub(crate) struct Reloads {
    live: Arc<Live>,
    read: OnceLock<Read>,
    /// One at a time.
    turn: Turn<()>,
    /// The admin port's socket, for a process that takes over.
    admin: Mutex<Option<OwnedFd>>,
    /// Sockets that were passed on to this process and that its configuration does not name.
    inherited: Mutex<Inherited>,
    offering: Mutex<Option<JoinHandle<()>>>,
}

impl Reloads {
    pub(crate) fn new(
        live: &Arc<Live>,
        admin: &TcpListener,
        inherited: Inherited,
    ) -> io::Result<Self> {
        Ok(Self {
            live: live.clone(),
            read: OnceLock::new(),
            turn: Turn::default(),
            admin: Mutex::new(Some(admin.as_fd().try_clone_to_owned()?)),
            inherited: Mutex::new(inherited),
            offering: Mutex::default(),
        })
    }

    /// Reads the configuration again and puts it into use.
    pub(crate) async fn reload(&self, asked_by: &str) -> Result<Reloaded, Refused> {
        let _turn = self.turn.lock().await;
        let reloaded = self.try_reload().await;
        match &reloaded {
            Ok(reloaded) => {
                tracing::info!(asked_by, changes = %reloaded, "reloaded");
                for what in &reloaded.needs_restart {
                    tracing::warn!(what, "needs a restart: it stays as it was");
                }
            }
            Err(refused) => {
                tracing::error!(asked_by, %refused, "not reloaded, nothing has changed");
            }
        }
        reloaded
    }

    async fn try_reload(&self) -> Result<Reloaded, Refused> {
        let Some(read) = self.read.get().cloned() else { return Err(Refused::NoFile) };
        if self.live.is_draining() {
            return Err(Refused::Draining);
        }
        // Reading compiles rules and derives keys.
        let config = tokio::task::spawn_blocking(move || read()).await;
        let mut config = config.map_err(|_| Refused::NoFile)?.map_err(Refused::Mistakes)?;
        let before = self.live.world().ok_or(Refused::NoFile)?;
        let needs_restart = needs_restart(&before.config, &mut config);
        // A listener of a new address may have been passed on too.
        self.live.turn_to_config(config, &mut Inherited::default()).await?;
        let after = self.live.world().ok_or(Refused::NoFile)?;
        Ok(report::of(&before, &after, needs_restart))
    }

    /// The proxy is to end. False if nobody serves.
    pub(crate) fn drain(&self, asked_by: &str) -> bool {
        let Some(stop) = self.live.stop.get() else { return false };
        tracing::info!(asked_by, "asked to drain");
        // Whoever asks hears of it at once.
        self.live.common.draining.give();
        stop.cancel();
        true
    }

    /// Another process has taken over: it listens where this one has.
    pub(super) fn leave_to_another(&self) {
        let world = self.live.world();
        world.iter().flat_map(|world| &world.doors).for_each(|door| door.leave_to_another());
        self.close_admin();
        self.live.ended.cancel();
        self.drain("the process that takes over");
    }

    /// The sockets on which this process listens.
    pub(super) fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let world = self.live.world();
        let mut sockets = Vec::new();
        for door in world.iter().flat_map(|world| &world.doors) {
            sockets.extend(door.share()?);
        }
        let admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(admin) = &*admin {
            sockets.push(admin.try_clone()?);
        }
        Ok(sockets)
    }

    fn close_admin(&self) {
        *self.admin.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The proxy has ended.
    pub(crate) fn end(&self) {
        self.close_admin();
        if let Some(offering) = self.offering.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            offering.abort();
        }
    }
}

impl Control {
    /// Says how the configuration is read anew. Without it there are no reloads.
    pub fn read_by(&self, read: Read) {
        // The first one counts.
        let _ = self.0.read.set(read);
    }

    /// Reads the configuration again and puts it into use. `asked_by` is for the log.
    ///
    /// # Errors
    ///
    /// What is wrong with it. Nothing has changed then.
    pub async fn reload(&self, asked_by: &str) -> Result<Reloaded, Refused> {
        self.0.reload(asked_by).await
    }

    /// Ends the proxy as SIGTERM does.
    pub fn drain(&self, asked_by: &str) {
        self.0.drain(asked_by);
    }

    /// The files that the configuration in use was read from, if they are to be watched.
    pub fn watched_files(&self) -> Option<Vec<PathBuf>> {
        let world = self.0.live.world()?;
        world.config.reload.watch.then(|| world.config.files.clone())
    }

    /// Offers the listening sockets to a process that takes over, if the configuration says where.
    /// To be called inside a runtime.
    ///
    /// # Errors
    ///
    /// The offer's own socket cannot be bound.
    pub fn offer(&self) -> io::Result<()> {
        let world = self.0.live.world();
        let path = world.and_then(|world| world.config.shutdown.take_over.clone());
        let Some(path) = path else { return Ok(()) };
        let mut inherited = self.0.inherited.lock().unwrap_or_else(PoisonError::into_inner);
        let task = take_over::offer(&path, &mut inherited, Arc::downgrade(&self.0))?;
        *self.0.offering.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Ok(())
    }
}
