//! The sessions that are logged in, for whoever looks at them, also those that have left the chain.

use crate::signal::Signal;
use chain::Session;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// All of them, by the ids that clients see.
#[derive(Default)]
pub(crate) struct Roll {
    /// Locked when a client logs in or leaves, and when somebody looks.
    sessions: Mutex<HashMap<u32, Arc<Live>>>,
}

/// One session, for as long as its client is there.
pub(crate) struct Live {
    began: Instant,
    commands: AtomicU64,
    /// Twice the microseconds from `began` to where the last command began, or the wait after it;
    /// one more while it runs.
    last: AtomicU64,
    pub(crate) forwarded: AtomicBool,
    /// Given when an operator ends the session.
    pub(crate) ended: Signal,
    /// Locked at the login, when the schema changes, and when somebody looks.
    described: Mutex<Described>,
}

/// Whose session it is.
#[derive(Clone)]
pub(crate) struct Described {
    pub(crate) session: Session,
    pub(crate) chain: Arc<str>,
}

/// Takes a session out of the roll.
pub(crate) struct OnRoll {
    id: u32,
    live: Arc<Live>,
    roll: Arc<Roll>,
}

impl Roll {
    /// Puts a session on it.
    pub(crate) fn enter(self: &Arc<Self>, session: &Session, chain: &Arc<str>) -> OnRoll {
        let described = Described { session: session.clone(), chain: chain.clone() };
        let live = Arc::new(Live {
            began: Instant::now(),
            commands: AtomicU64::new(0),
            last: AtomicU64::new(0),
            forwarded: AtomicBool::new(false),
            ended: Signal::default(),
            described: Mutex::new(described),
        });
        self.lock().insert(session.id, live.clone());
        OnRoll { id: session.id, live, roll: self.clone() }
    }

    /// All sessions, by their ids.
    pub(crate) fn all(&self) -> Vec<(u32, Arc<Live>)> {
        let mut all: Vec<_> = self.lock().iter().map(|(id, live)| (*id, live.clone())).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// The session with that id.
    pub(crate) fn find(&self, id: u32) -> Option<Arc<Live>> {
        self.lock().get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Live>>> {
        // Nothing panics while it is locked.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnRoll {
    pub(crate) fn live(&self) -> Arc<Live> {
        self.live.clone()
    }
}

impl Drop for OnRoll {
    fn drop(&mut self) {
        self.roll.lock().remove(&self.id);
    }
}

impl Live {
    /// Notes who the client is now, or where its session is.
    pub(crate) fn describe(&self, session: &Session, chain: &Arc<str>) {
        *self.lock() = Described { session: session.clone(), chain: chain.clone() };
    }

    /// A command begins.
    pub(crate) fn begins(&self, now: Instant) {
        self.commands.fetch_add(1, Relaxed);
        self.last.store(self.stamp(now) | 1, Relaxed);
    }

    /// The command is over.
    pub(crate) fn rests(&self, now: Instant) {
        self.last.store(self.stamp(now), Relaxed);
    }

    /// Commands that have begun.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Relaxed)
    }

    /// How long the session has been logged in.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether a command runs, and for how long it has done so, or for how long none has.
    pub(crate) fn at_work(&self) -> (bool, Duration) {
        let last = self.last.load(Relaxed);
        let since = self.age().saturating_sub(Duration::from_micros(last >> 1));
        (last & 1 == 1, since)
    }

    pub(crate) fn described(&self) -> Described {
        self.lock().clone()
    }

    fn stamp(&self, now: Instant) -> u64 {
        let micros = now.saturating_duration_since(self.began).as_micros();
        u64::try_from(micros).unwrap_or(u64::MAX) << 1
    }

    fn lock(&self) -> MutexGuard<'_, Described> {
        // Nothing panics while it is locked.
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
