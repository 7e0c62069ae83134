//! Which sessions there are, by the ids that clients see, and which connections they have.

use super::{Backend, gate::Gate, ids::spell, noted::Noted, tally::Tally};
use crate::config::Account;
use arc_swap::ArcSwap;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};
use tokio::sync::oneshot;
use wire::proxy_protocol::Source;

/// All sessions of the proxy that are logged in.
#[derive(Default)]
pub(crate) struct Sessions {
    next: AtomicU32,
    /// Locked when a client connects, logs in or leaves, and by a KILL; never for another command.
    entries: Mutex<HashMap<u32, Arc<Entry>>>,
}

/// A session that KILL finds; until it is dropped.
pub(crate) struct Registered {
    pub(crate) id: u32,
    pub(crate) entry: Arc<Entry>,
    /// Resolves when the session has been killed that had no connection to a server.
    pub(crate) ended: oneshot::Receiver<()>,
    sessions: Arc<Sessions>,
}

/// What others may know of a session.
pub(crate) struct Entry {
    /// Who it is on servers.
    account: ArcSwap<Account>,
    /// A KILL of its connection is on its way, or has succeeded.
    pub(crate) killed: AtomicBool,
    /// The client has set `pseudo_thread_id`: CONNECTION_ID() is what it says.
    pub(crate) renamed: AtomicBool,
    pub(crate) noted: Noted,
    /// Locked when the session gets a connection, and by a KILL.
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    /// The session's connections; the one used last is the last.
    leases: Vec<Arc<Lease>>,
    /// Gone once the session has been ended.
    end: Option<oneshot::Sender<()>>,
    /// Why it keeps a connection between two commands, if it does although it shares them.
    pin: Option<&'static str>,
}

/// A server's connection while a session has it.
pub(crate) struct Lease {
    pub(crate) backend: Arc<Backend>,
    pub(crate) thread_id: u32,
    /// Whose connection it is, as its server was told.
    pub(crate) source: Source,
    pub(crate) gate: Gate,
    pub(crate) prepared: Tally,
    /// A transaction was open when the last reply ended.
    pub(crate) in_transaction: AtomicBool,
    /// Where the session's log ended that it was sent last.
    pub(crate) head: AtomicU64,
    /// The connection is in a state that nobody wants: it is closed.
    pub(crate) spoiled: AtomicBool,
}

/// The session's connection was killed by a client of the proxy.
#[derive(Debug, thiserror::Error)]
#[error("the session was killed")]
pub(crate) struct Killed;

/// Clients' ids begin here, so that one that ever reaches a server untranslated hits nobody.
pub(crate) const FIRST: u32 = 1 << 31;

impl Sessions {
    /// An id for a client that has just connected.
    pub(crate) fn new_id(&self) -> u32 {
        loop {
            let id = FIRST | self.next.fetch_add(1, Relaxed);
            if spell::letters(id).is_some() && !self.lock().contains_key(&id) {
                return id;
            }
        }
    }

    /// Makes a session known that logs in to servers as `account`.
    pub(crate) fn register(self: &Arc<Self>, id: u32, account: Account) -> Registered {
        let (sender, ended) = oneshot::channel();
        let place = Place { leases: Vec::new(), end: Some(sender), pin: None };
        let entry = Arc::new(Entry {
            account: ArcSwap::from_pointee(account),
            killed: AtomicBool::new(false),
            renamed: AtomicBool::new(false),
            noted: Noted::default(),
            place: Mutex::new(place),
        });
        self.lock().insert(id, entry.clone());
        Registered { id, entry, ended, sessions: self.clone() }
    }

    /// The session with that id.
    pub(crate) fn find(&self, id: u32) -> Option<Arc<Entry>> {
        self.lock().get(&id).cloned()
    }

    /// How many sessions keep a connection between two commands, by the cause.
    pub(crate) fn pins(&self) -> BTreeMap<&'static str, u32> {
        let mut pins = BTreeMap::new();
        let entries: Vec<_> = self.lock().values().cloned().collect();
        for cause in entries.iter().flat_map(|entry| entry.pins()) {
            *pins.entry(cause).or_default() += 1;
        }
        pins
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Entry>>> {
        // Nothing panics while it is locked, and each entry is whole.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    /// The session with that id, this one or another.
    pub(crate) fn find(&self, id: u32) -> Option<Arc<Entry>> {
        self.sessions.find(id)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut entries = self.sessions.lock();
        if entries.get(&self.id).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry)) {
            entries.remove(&self.id);
        }
    }
}

impl Entry {
    /// Who it is on servers.
    pub(crate) fn account(&self) -> Arc<Account> {
        self.account.load_full()
    }

    /// Its connections are opened as `account` from now on: a reload has changed its password.
    pub(crate) fn becomes(&self, account: Account) {
        self.account.store(Arc::new(account));
    }

    /// The session has got a connection, and uses it. False if the session has been ended.
    pub(crate) fn attach(&self, lease: Arc<Lease>) -> bool {
        let mut place = self.lock();
        place.leases.push(lease);
        place.end.is_some()
    }

    /// The session has let go of a connection.
    pub(crate) fn detach(&self, lease: &Arc<Lease>) {
        self.lock().leases.retain(|one| !Arc::ptr_eq(one, lease));
    }

    /// The session uses a connection again after another.
    pub(crate) fn uses(&self, lease: &Arc<Lease>) {
        let mut place = self.lock();
        if let Some(at) = place.leases.iter().position(|one| Arc::ptr_eq(one, lease)) {
            let lease = place.leases.remove(at);
            place.leases.push(lease);
        }
    }

    /// The connection that the session used last: if it runs a statement, then there.
    pub(crate) fn last_used(&self) -> Option<Arc<Lease>> {
        self.lock().leases.last().cloned()
    }

    /// All its connections; the one used last is the last.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        self.lock().leases.clone()
    }

    /// Notes why the session keeps a connection between two commands.
    pub(crate) fn note_pin(&self, cause: Option<&'static str>) {
        self.lock().pin = cause;
    }

    /// Why the session keeps a connection between two commands.
    pub(crate) fn pin(&self) -> Option<&'static str> {
        self.lock().pin
    }

    /// All the causes, also where the session shares none.
    fn pins(&self) -> Vec<&'static str> {
        let leases = match self.pin() {
            Some(pin) => return vec![pin],
            None => self.leases(),
        };
        if leases.is_empty() {
            return Vec::new();
        }
        let mut causes = self.noted.ties();
        if leases.iter().any(|lease| lease.in_transaction.load(Relaxed)) {
            causes.push("a transaction");
        }
        causes
    }

    /// Ends the session if it still has no connection.
    pub(crate) fn end(&self) -> bool {
        let mut place = self.lock();
        let idle = place.leases.is_empty();
        if idle && let Some(end) = place.end.take() {
            // It may have ended by itself.
            let _ = end.send(());
        }
        idle
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        // Nothing panics while it is locked.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    pub(crate) fn new(backend: Arc<Backend>, thread_id: u32, source: Source) -> Self {
        let (gate, prepared) = (Gate::default(), Tally::default());
        let (in_transaction, spoiled) = (AtomicBool::new(false), AtomicBool::new(false));
        let head = AtomicU64::new(0);
        Self { backend, thread_id, source, gate, prepared, in_transaction, head, spoiled }
    }
}

#[cfg(test)]
mod tests {
    use super::Sessions;
    use crate::config::Account;
    use std::sync::Arc;

    fn account() -> Account {
        Account { user: "app".into(), password: Arc::default() }
    }

    #[test]
    fn ids_are_unlike_servers_and_never_two_sessions() {
        let sessions = Arc::new(Sessions::default());
        let first = sessions.new_id();
        assert!(first >= 1 << 31);
        let held = sessions.register(first, account());
        sessions.next.store(first, std::sync::atomic::Ordering::Relaxed);
        assert_ne!(sessions.new_id(), first);
        drop(held);
        sessions.next.store(first, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(sessions.new_id(), first);
    }

    #[test]
    fn a_session_is_found_until_it_is_gone() {
        let sessions = Arc::new(Sessions::default());
        let id = sessions.new_id();
        let before = sessions.register(id, account());
        assert!(sessions.find(id).is_some());
        // A change of user: the one before ends last.
        let after = sessions.register(id, account());
        drop(before);
        assert!(sessions.find(id).is_some());
        drop(after);
        assert!(sessions.find(id).is_none());
    }

    #[test]
    fn a_session_without_a_connection_is_ended_once() {
        let sessions = Arc::new(Sessions::default());
        let mut one = sessions.register(sessions.new_id(), account());
        assert!(one.ended.try_recv().is_err());
        assert!(one.entry.end() && one.entry.end());
        assert_eq!(one.ended.try_recv(), Ok(()));
    }
}
