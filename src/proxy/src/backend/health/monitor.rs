//! Asks the servers how they are, each over a connection of its own.

use super::{
    Pulse,
    machine::{Event, Role},
    probe::{self, Kind},
};
use crate::{
    backend::{
        Backend, Backends, Key,
        connect::{self, ConnectError},
        leash::Leashes,
        link::Link,
        tells_attributes,
    },
    buffer::poll_chunk,
    config::{Account, Monitor, MonitorTable},
};
use std::{
    collections::HashSet,
    future::poll_fn,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use wire::{capability::Capabilities, command::CommandCode, err::codes, proxy_protocol::Source};

/// utf8mb4_general_ci: every server knows it.
const COLLATION: u16 = 45;

/// How much more often a server is asked of which something is in doubt.
const HURRY: u32 = 4;

/// Those who ask, one for each address.
#[derive(Default)]
pub(crate) struct Watchers {
    watched: Vec<(Arc<Backend>, AbortOnDropHandle<()>)>,
    monitor: Option<Monitor>,
}

impl Watchers {
    /// Watches each address of the servers once. Who asks the same server in the same way as before
    /// goes on; nobody asks without an account.
    pub(crate) fn follow(&mut self, backends: &Backends, monitor: &Monitor) {
        if self.monitor.as_ref() != Some(monitor) {
            self.watched.clear();
        }
        self.monitor = Some(monitor.clone());
        let mut before = std::mem::take(&mut self.watched);
        let Some(account) = &monitor.account else {
            if backends.iter().any(|backend| backend.pulse.is_in_cluster()) {
                let text = "[monitor] has no user: the clusters' servers stay where the file says";
                tracing::warn!("{text}");
            }
            return;
        };
        let settings = Arc::new(monitor.settings.clone());
        let mut seen = HashSet::new();
        for backend in backends.iter().filter(|backend| seen.insert(backend.pulse.at())) {
            let same = |(watched, _): &(Arc<Backend>, _)| Arc::ptr_eq(watched, &backend);
            if let Some(at) = before.iter().position(same) {
                self.watched.push(before.swap_remove(at));
                continue;
            }
            let watch = Watch {
                backend: backend.clone(),
                pulse: backend.pulse.clone(),
                account: account.clone(),
                settings: settings.clone(),
                link: None,
                due: [Instant::now(); 3],
                asked: Instant::now(),
            };
            self.watched.push((backend, AbortOnDropHandle::new(tokio::spawn(watch.run()))));
        }
    }

    /// Nobody asks any more.
    pub(crate) fn end(&mut self) {
        self.watched.clear();
    }
}

struct Watch {
    backend: Arc<Backend>,
    pulse: Pulse,
    account: Account,
    settings: Arc<MonitorTable>,
    /// Kept from one question to the next.
    link: Option<Link>,
    /// When each kind is to be asked next.
    due: [Instant; 3],
    /// When anything was asked last.
    asked: Instant,
}

impl Watch {
    async fn run(mut self) {
        loop {
            let next = self.kinds().map(|kind| self.due[kind as usize]).min();
            let next = next.unwrap_or_else(|| Instant::now() + self.settings.ping_interval);
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                () = closed(self.link.as_mut()) => self.look_again(),
                // Whether it lets others in shows a new connection only.
                () = self.pulse.suspected() => self.look_again(),
            }
            for kind in self.kinds().collect::<Vec<_>>() {
                if self.due[kind as usize] <= Instant::now() {
                    self.ask(kind).await;
                }
            }
        }
    }

    /// Asks soon, over a new connection; but not without a pause.
    fn look_again(&mut self) {
        self.link = None;
        let pause = Kind::ReadOnly.interval(&self.settings) / HURRY;
        let due = &mut self.due[Kind::Ping as usize];
        *due = Instant::now().max(self.asked + pause).min(*due);
    }

    /// What is asked of this server.
    fn kinds(&self) -> impl Iterator<Item = Kind> + use<> {
        let cluster = self.pulse.is_in_cluster();
        let replica = cluster && self.pulse.role() == Role::Replica;
        Kind::ALL.into_iter().filter(move |kind| match kind {
            Kind::Ping => true,
            Kind::ReadOnly => cluster,
            Kind::Lag => replica,
        })
    }

    async fn ask(&mut self, kind: Kind) {
        self.asked = Instant::now();
        let limit = kind.timeout(&self.settings);
        let answer = tokio::time::timeout(limit, self.answer(kind)).await;
        let answer = answer.unwrap_or(Err(ConnectError::Timeout(limit)));
        self.pulse.answered(kind, answer.as_ref().err().map(ToString::to_string));
        match answer {
            Ok(event) => {
                self.pulse.noted(Event::Answered);
                if let Some(event) = event {
                    self.pulse.noted(event);
                }
            }
            Err(error) if is_dead(&error) => {
                self.pulse.noted(Event::Failed(format!("{}: {error}", kind.name())));
            }
            // It says no: it is there.
            Err(_) => self.pulse.noted(Event::Answered),
        }
        self.next(kind);
        // Any answer is as good as a ping's.
        self.next(Kind::Ping);
        if self.link.is_none() {
            // One failure is one, whatever else is due.
            Kind::ALL.into_iter().for_each(|kind| self.next(kind));
        }
    }

    fn next(&mut self, kind: Kind) {
        let hurry = if self.pulse.is_in_doubt() { HURRY } else { 1 };
        let pause = (kind.interval(&self.settings) / hurry).max(Duration::from_millis(1));
        self.due[kind as usize] = Instant::now() + pause;
    }

    async fn answer(&mut self, kind: Kind) -> Result<Option<Event>, ConnectError> {
        // Taken out: what is given up in the middle of an answer is of no use.
        let mut link = match self.link.take() {
            Some(link) => link,
            None => self.connect().await?,
        };
        let answer = match kind {
            Kind::Ping => link.ask(CommandCode::PING, b"").await.map(|()| None),
            Kind::ReadOnly => {
                probe::is_writable(&mut link).await.map(|is| Some(Event::Writable(is)))
            }
            Kind::Lag => {
                let primary = self.pulse.primary_answers();
                let lag = probe::lag(&mut link, &self.settings, primary).await;
                lag.map(|lag| Some(Event::Behind(lag)))
            }
        };
        if matches!(answer, Ok(_) | Err(ConnectError::Refused(_))) {
            self.link = Some(link);
        }
        answer
    }

    async fn connect(&self) -> Result<Link, ConnectError> {
        let key = Key {
            user: self.account.user.clone(),
            capabilities: Capabilities::LONG_PASSWORD | tells_attributes(true),
            collation: COLLATION,
            client: None,
        };
        let ours = [
            ("_towpath_version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("program_name".to_owned(), "towpath monitor".to_owned()),
        ];
        // Beyond the server's max_connections: that is for sessions.
        let room = Arc::new(Semaphore::new(1)).acquire_owned().await?;
        let attributes = ours.into_iter().collect();
        let open = connect::open(&self.backend, key, &self.account, Source::Own, attributes, room);
        let mut link = open.await?;
        // What cuts a server's connections is meant for sessions.
        link.leash = Arc::<Leashes>::default().tie();
        Ok(link)
    }
}

/// Resolves when the server closes the connection, or says something by itself.
async fn closed(link: Option<&mut Link>) {
    let Some(link) = link else { return std::future::pending().await };
    // Whatever it is, nobody has asked for it.
    let _ = poll_fn(|cx| poll_chunk(&mut link.io, cx)).await;
}

/// Whether an error shows that the server is not there. One that it says itself does not, but that
/// it is about to end.
pub(in crate::backend) fn is_dead(error: &ConnectError) -> bool {
    match error {
        ConnectError::Io(_) | ConnectError::Timeout(_) => true,
        ConnectError::Refused(error) => error.code == codes::ER_SERVER_SHUTDOWN.code,
        _ => false,
    }
}
