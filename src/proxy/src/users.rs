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
    connections: AtomicU32,
}

/// A user who is logged in; counts until it is dropped.
pub(crate) struct Admitted(Arc<Entry>);

impl Users {
    pub(crate) fn new(users: Vec<User>) -> Self {
        let entries = users.into_iter().map(|user| {
            let name = user.account.user.as_bytes().to_vec();
            (name, Arc::new(Entry { user, connections: AtomicU32::new(0) }))
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
