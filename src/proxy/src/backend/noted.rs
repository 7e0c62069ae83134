//! What goes by on a session's commands, for whoever looks at the session.

use arc_swap::ArcSwapOption;
use chain::{
    Command,
    facts::{Affinity, FromMemory, SessionLog, StickyMode, Tied},
};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// What the last commands said of their session. Written where it has changed, read when somebody
/// looks.
#[derive(Default)]
pub(crate) struct Noted {
    affinity: ArcSwapOption<Affinity>,
    head: AtomicU64,
    entries: AtomicUsize,
    bytes: AtomicUsize,
    /// Locked by commands after which the session is tied otherwise than before: few are.
    ties: Mutex<Vec<&'static str>>,
    /// Why the session gets no answers from memory. Locked when that changes.
    no_memory: Mutex<Option<&'static str>>,
}

impl Noted {
    /// Looks at a command on its way to a server.
    pub(crate) fn note(&self, command: &Command) {
        if let Some(affinity) = command.fact::<Affinity>() {
            self.note_affinity(affinity);
        }
        if let Some(log) = command.fact::<SessionLog>() {
            self.note_log(log);
        }
        if let Some(FromMemory { off }) = command.fact::<FromMemory>() {
            *self.no_memory.lock().unwrap_or_else(PoisonError::into_inner) = *off;
        }
        if let Some(tied) = command.fact::<Tied>() {
            let mut ties = self.ties.lock().unwrap_or_else(PoisonError::into_inner);
            match tied.by {
                Some(by) if !ties.contains(&by) => ties.push(by),
                Some(_) => {}
                None => ties.clear(),
            }
        }
    }

    /// Which servers the session stays on, if it does.
    pub(crate) fn affinity(&self) -> Option<Arc<Affinity>> {
        self.affinity.load_full()
    }

    /// Entries of its log, and the bytes of their commands.
    pub(crate) fn log(&self) -> (usize, usize) {
        (self.entries.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// What ties it to a connection.
    pub(crate) fn ties(&self) -> Vec<&'static str> {
        self.ties.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why it gets no answers from memory, if its chain gives any.
    pub(crate) fn no_memory(&self) -> Option<&'static str> {
        *self.no_memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its log ended with the last command.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Relaxed)
    }

    fn note_affinity(&self, affinity: &Affinity) {
        let known = self.affinity.load();
        let same = match &*known {
            Some(known) => **known == *affinity,
            None => affinity.mode == StickyMode::Off,
        };
        if !same {
            self.affinity.store(Some(Arc::new(affinity.clone())));
        }
    }

    /// The log changes at its end; what is compacted further up shows with the next entry.
    fn note_log(&self, log: &SessionLog) {
        let head = log.this.map_or(log.head(), |this| this.lsn);
        if head != self.head.load(Relaxed) || log.entries.len() != self.entries.load(Relaxed) {
            let bytes = log.entries.iter().map(|entry| entry.payload.len()).sum();
            self.head.store(head, Relaxed);
            self.entries.store(log.entries.len(), Relaxed);
            self.bytes.store(bytes, Relaxed);
        }
    }
}
