//! `mysql_query_rules_fast_routing`: from user, schema and label straight to a hostgroup.

use chain::{HostgroupId, Session};
use std::collections::HashMap;

/// All lines. Looking one up allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct FastRouting(HashMap<String, HashMap<Vec<u8>, HashMap<u32, HostgroupId>>>);

impl FastRouting {
    /// Adds a line; false if there is one of the same user, schema and label already.
    pub(crate) fn add(&mut self, user: &str, schema: &str, flag: u32, to: HostgroupId) -> bool {
        let schemas = self.0.entry(user.to_owned()).or_default();
        let flags = schemas.entry(schema.as_bytes().to_owned()).or_default();
        flags.insert(flag, to).is_none()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hostgroup of a session whose walk has ended with this label.
    pub(crate) fn find(&self, session: &Session, flag: u32) -> Option<HostgroupId> {
        let schema = session.current_schema.as_deref().unwrap_or_default();
        self.0.get(&*session.user)?.get(schema)?.get(&flag).copied()
    }
}
