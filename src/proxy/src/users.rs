//! Who may log in, and how often at once.

use crate::config::User;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// All users, by name.
pub(crate) struct Users(HashMap<Vec<u8>, Arc<Entry>>);

struct Entry {
    user: User,
    /// One count for all that a reload makes of the user.
    connections: Arc<AtomicU32>,
}

/// A user who is logged in; counts until it is dropped.
pub(crate) struct Admitted(Arc<Entry>);

impl Users {
    /// These users. Those who are logged in count where they did `before`.
    pub(crate) fn new(users: &[User], before: Option<&Self>) -> Self {
        let entries = users.iter().map(|user| {
            let name = user.account.user.as_bytes().to_vec();
            let known = before.and_then(|before| before.0.get(&name));
            let connections = known.map(|known| known.connections.clone()).unwrap_or_default();
            (name, Arc::new(Entry { user: user.clone(), connections }))
        });
        Self(entries.collect())
    }

    /// The user of that name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Known<'_>> {
        self.0.get(name).map(Known)
    }
}

/// A user who exists, not let in yet.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a>(&'a Arc<Entry>);

impl Known<'_> {
    pub(crate) fn user(&self) -> &User {
        &self.0.user
    }

    /// Counts one more connection of the user, unless it has as many as it may.
    pub(crate) fn admit(self) -> Option<Admitted> {
        let limit = self.0.user.max_connections;
        let admitted = Admitted(self.0.clone());
        let before = self.0.connections.fetch_add(1, Relaxed);
        (limit == 0 || before < limit).then_some(admitted)
    }
}

impl Admitted {
    pub(crate) fn user(&self) -> &User {
        &self.0.user
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}
