//! The memory of all sessions of a chain: commands and the replies to them.
//!
//! Cut into parts by the key, each with a lock of its own that is held for one look. What is stored
//! under a key says nothing of the command: keys are hashes with a random key, and texts are not
//! kept.

mod room;

use super::{
    entry::{Entry, Kind, Sample},
    settings::Settings,
    template::Template,
};
use room::Room;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// What a reply depends on, as a keyed hash.
pub(crate) type Key = u128;

/// Where a command stands in the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) key: Key,
    /// Whose it is, hashed.
    pub(crate) account: u64,
    /// It sets a constant.
    pub(crate) constant: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Store {
    settings: Settings,
    parts: Box<[Mutex<Part>]>,
}

#[derive(Debug, Default)]
struct Part {
    entries: HashMap<Key, Entry, BuildHasherDefault<AsItIs>>,
    room: Room,
}

/// How many commands are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) cold: u64,
    pub(crate) predictable: u64,
    pub(crate) volatile: u64,
    /// Bytes.
    pub(crate) bytes: u64,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// It is predictable now.
    Promoted,
    /// It is volatile now.
    Spoilt,
}

/// Sessions of a large machine hardly ever meet.
const PARTS: usize = 16;

impl Store {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The reply that is sure for the command, unless a server is to be asked all the same.
    pub(crate) fn give(&self, key: Key, stamp: u64, now: Instant) -> Option<Arc<Template>> {
        let mut part = self.part(key);
        let Part { entries, room } = &mut *part;
        let entry = entries.get_mut(&key)?;
        room.change(key, entry, |entry| entry.give(stamp, now, &self.settings))
    }

    /// Takes in a reply of a server.
    pub(crate) fn observe(&self, place: Place, sample: &Sample, now: Instant) -> Change {
        let mut part = self.part(place.key);
        if !part.entries.contains_key(&place.key) {
            let entry = Entry::new(place.account, sample.stamp, place.constant);
            if !part.make_room(&entry, &self.settings) {
                return Change::None;
            }
            part.room.add(place.key, &entry);
            part.entries.insert(place.key, entry);
        }
        let Part { entries, room } = &mut *part;
        let Some(entry) = entries.get_mut(&place.key) else { return Change::None };
        let before = entry.kind();
        room.change(place.key, entry, |entry| entry.observe(sample, now, &self.settings));
        let change = changed(before, entry.kind());
        part.shrink(place.account, &self.settings);
        let Part { entries, room } = &mut *part;
        room.tidy(entries);
        change
    }

    /// There are different replies to the command.
    pub(crate) fn spoil(&self, place: Place, now: Instant) -> Change {
        let mut part = self.part(place.key);
        let Part { entries, room } = &mut *part;
        let Some(entry) = entries.get_mut(&place.key) else { return Change::None };
        let before = entry.kind();
        room.change(place.key, entry, |entry| entry.spoil(now, &self.settings));
        changed(before, entry.kind())
    }

    /// The reply has changed with something that is not of the session's.
    pub(crate) fn replace(&self, key: Key, template: Arc<Template>, now: Instant) {
        let mut part = self.part(key);
        let Part { entries, room } = &mut *part;
        let Some(entry) = entries.get_mut(&key) else { return };
        room.change(key, entry, |entry| entry.replace(template, now));
    }

    /// Counts what there is.
    pub(crate) fn census(&self) -> Census {
        let mut census = Census::default();
        for part in &self.parts {
            let part = lock(part);
            let [cold, predictable, volatile] = part.room.kinds().map(|count| count as u64);
            census.bytes += part.room.bytes() as u64;
            census.cold += cold;
            census.predictable += predictable;
            census.volatile += volatile;
        }
        census
    }

    fn part(&self, key: Key) -> MutexGuard<'_, Part> {
        // The other end than the map within takes.
        lock(&self.parts[(key >> 64) as usize % PARTS])
    }
}

impl Part {
    /// Makes room for one more entry. False if its account has had its share.
    fn make_room(&mut self, entry: &Entry, settings: &Settings) -> bool {
        let limits = Limits::of(settings);
        while self.entries.len() + 1 > limits.keys
            || self.room.bytes() + entry.size() > limits.bytes
        {
            if !self.remove_one(entry.account, &limits) {
                return false;
            }
        }
        true
    }

    /// Goes back below the limit after an entry of this account has grown.
    fn shrink(&mut self, account: u64, settings: &Settings) {
        let limits = Limits::of(settings);
        while self.room.bytes() > limits.bytes && self.remove_one(account, &limits) {}
    }

    fn remove_one(&mut self, account: u64, limits: &Limits) -> bool {
        let Some(key) = self.room.victim(&mut self.entries, account, limits.quota) else {
            return false;
        };
        if let Some(entry) = self.entries.remove(&key) {
            self.room.remove(&entry);
        }
        true
    }
}

/// What one part holds.
struct Limits {
    keys: usize,
    bytes: usize,
    /// Bytes of one account.
    quota: usize,
}

impl Limits {
    fn of(settings: &Settings) -> Self {
        let bytes = usize::try_from(settings.max_bytes).unwrap_or(usize::MAX) / PARTS;
        let quota = bytes / 100 * usize::from(settings.quota);
        Self { keys: settings.max_keys as usize / PARTS, bytes, quota }
    }
}

fn changed(before: Kind, after: Kind) -> Change {
    match after {
        _ if before == after => Change::None,
        Kind::Predictable => Change::Promoted,
        Kind::Volatile => Change::Spoilt,
        Kind::Cold => Change::None,
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    // A panic while locked leaves at worst a count that is wrong.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys are hashes already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

#[cfg(test)]
mod tests;
