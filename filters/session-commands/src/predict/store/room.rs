//! Which entries go when there is no room for all: those that say least go first.

use super::{
    super::entry::{Entry, Kind},
    Key,
};
use std::collections::{HashMap, VecDeque};

/// How much room entries take, and in which order they make room for others.
#[derive(Debug, Default)]
pub(super) struct Room {
    bytes: usize,
    accounts: HashMap<u64, usize>,
    /// How many are in each state.
    kinds: [usize; 3],
    /// Keys of cold, predictable and volatile entries, oldest first. A key that is not in that state
    /// any more is passed over.
    queues: [VecDeque<Key>; 3],
}

/// In the order in which they make room.
const KINDS: [Kind; 3] = [Kind::Cold, Kind::Predictable, Kind::Volatile];

/// So many are looked at for one of an account that has more than its share.
const PROBES: usize = 32;

impl Room {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many entries are cold, predictable, volatile.
    pub(super) fn kinds(&self) -> [usize; 3] {
        self.kinds
    }

    /// Notes an entry that comes.
    pub(super) fn add(&mut self, key: Key, entry: &Entry) {
        self.count(entry.account, entry.size(), 0);
        self.kinds[entry.kind() as usize] += 1;
        self.queues[entry.kind() as usize].push_back(key);
    }

    /// Notes an entry that goes.
    pub(super) fn remove(&mut self, entry: &Entry) {
        self.count(entry.account, 0, entry.size());
        self.kinds[entry.kind() as usize] -= 1;
    }

    /// Changes an entry and notes what that takes.
    pub(super) fn change<T>(
        &mut self,
        key: Key,
        entry: &mut Entry,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> T {
        let (kind, size) = (entry.kind(), entry.size());
        let done = change(entry);
        if entry.kind() != kind {
            self.kinds[kind as usize] -= 1;
            self.kinds[entry.kind() as usize] += 1;
            self.queues[entry.kind() as usize].push_back(key);
        }
        if entry.size() != size {
            self.count(entry.account, entry.size(), size);
        }
        done
    }

    /// An entry that makes room for one of `account`. `None` if that has had its share (`quota` in
    /// bytes) and no entry is found that should go first.
    pub(super) fn victim<S: std::hash::BuildHasher>(
        &mut self,
        entries: &mut HashMap<Key, Entry, S>,
        account: u64,
        quota: usize,
    ) -> Option<Key> {
        let over = |accounts: &HashMap<u64, usize>, account| {
            accounts.get(&account).is_some_and(|bytes| *bytes > quota)
        };
        let crowded = over(&self.accounts, account);
        let only = self.accounts.len() <= 1;
        for kind in KINDS {
            let Self { queues, accounts, .. } = self;
            let queue = &mut queues[kind as usize];
            tidy(queue, entries, kind);
            let (mut second, mut third) = (None, None);
            for _ in 0..queue.len().min(PROBES) {
                let Some(key) = queue.pop_front() else { break };
                queue.push_back(key);
                let Some(entry) = entries.get_mut(&key).filter(|entry| entry.kind() == kind) else {
                    continue;
                };
                let spared = std::mem::take(&mut entry.touched);
                let first = entry.account == account || !crowded && over(accounts, entry.account);
                match (first && (only || over(accounts, entry.account)), spared) {
                    (true, false) => return Some(key),
                    (true, true) => second = second.or(Some(key)),
                    (false, false) if !crowded => second = second.or(Some(key)),
                    (false, true) if !crowded => third = third.or(Some(key)),
                    _ => {}
                }
            }
            if let Some(key) = second.or(third) {
                return Some(key);
            }
        }
        None
    }

    /// Keeps the queues from growing without end.
    pub(super) fn tidy<S: std::hash::BuildHasher>(&mut self, entries: &HashMap<Key, Entry, S>) {
        for kind in KINDS {
            tidy(&mut self.queues[kind as usize], entries, kind);
        }
    }

    fn count(&mut self, account: u64, comes: usize, goes: usize) {
        self.bytes = (self.bytes + comes).saturating_sub(goes);
        let theirs = self.accounts.entry(account).or_default();
        *theirs = (*theirs + comes).saturating_sub(goes);
        if *theirs == 0 {
            self.accounts.remove(&account);
        }
    }
}

/// Throws out keys that are elsewhere by now, once they are the most; and those that are there twice.
fn tidy<S: std::hash::BuildHasher>(
    queue: &mut VecDeque<Key>,
    entries: &HashMap<Key, Entry, S>,
    kind: Kind,
) {
    while let Some(key) = queue.front() {
        if entries.get(key).is_some_and(|entry| entry.kind() == kind) {
            break;
        }
        queue.pop_front();
    }
    if queue.len() > 2 * entries.len() + PROBES {
        let mut seen = std::collections::HashSet::new();
        queue.retain(|key| {
            entries.get(key).is_some_and(|entry| entry.kind() == kind) && seen.insert(*key)
        });
    }
}

#[cfg(test)]
impl Room {
    /// Keys in all queues.
    pub(super) fn queued(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}
