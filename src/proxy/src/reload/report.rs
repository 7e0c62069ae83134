//! What a reload has changed, or why it has changed nothing.

use crate::{
    config::{self, Config},
    runtime::{StartError, World},
};
use chain::settings::Mistakes;
use serde::Serialize;
use std::fmt;
use utoipa::ToSchema;

/// What a reload has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reloaded {
    /// Listeners, by their addresses.
    pub listeners: Changes,
    /// Users, by their names.
    pub users: Changes,
    /// Servers of hostgroups.
    pub servers: Changes,
    /// Chains. One that has changed is new for its sessions; see `chains_adapted`.
    pub chains: Changes,
    /// Chains whose filters have taken on other settings under their sessions.
    pub chains_adapted: usize,
    /// What has changed in the file and cannot change while the proxy runs: it is as it was.
    pub needs_restart: Vec<String>,
}

/// How many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Changes {
    /// That were not there before.
    pub added: usize,
    /// That were there and are other than before.
    pub changed: usize,
    /// That are no more.
    pub removed: usize,
}

/// Why a reload has changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The file has mistakes: all of them.
    #[error("{0}")]
    Mistakes(Mistakes),
    /// Something that it needs cannot be had.
    #[error("{0}")]
    Start(#[from] StartError),
    /// The proxy is about to end.
    #[error("the proxy is draining")]
    Draining,
    /// The proxy was not made of a file.
    #[error("there is no file to read")]
    NoFile,
}

/// What cannot change while the proxy runs. It is put back to what it is.
pub(super) fn needs_restart(before: &Config, after: &mut Config) -> Vec<String> {
    let mut needs = Vec::new();
    let slow_queries = after.log.slow_queries;
    let log = config::Log { slow_queries, ..before.log.clone() };
    if after.log != log {
        needs.push("[log] level and format".to_owned());
        after.log = log;
    }
    if after.admin != before.admin {
        needs.push("[admin]".to_owned());
        after.admin = before.admin.clone();
    }
    if after.otlp != before.otlp {
        needs.push("[otlp]".to_owned());
        after.otlp = before.otlp.clone();
    }
    if after.trace != before.trace {
        needs.push("[trace]".to_owned());
        after.trace = before.trace.clone();
    }
    if after.events != before.events {
        needs.push("[events]".to_owned());
        after.events = before.events.clone();
    }
    if after.shutdown.take_over != before.shutdown.take_over {
        needs.push("[shutdown] take_over".to_owned());
        after.shutdown.take_over = before.shutdown.take_over.clone();
    }
    needs
}

pub(super) fn of(before: &World, after: &World, needs_restart: Vec<String>) -> Reloaded {
    let (old, new) = (&before.config, &after.config);
    let mut chains = Changes::default();
    let mut chains_adapted = 0;
    for (name, chain) in &new.chains {
        match old.chains.get(name) {
            None => chains.added += 1,
            Some(older) if !chain.is(older) => chains.changed += 1,
            Some(older) => chains_adapted += usize::from(!chain.is_the_same_as(older)),
        }
    }
    chains.removed = old.chains.keys().filter(|name| !new.chains.contains_key(*name)).count();
    Reloaded {
        listeners: Changes::between(&old.listeners, &new.listeners, |one| one.address.clone()),
        users: Changes::between(&old.users, &new.users, |one| one.account.user.clone()),
        servers: Changes::between(&old.servers, &new.servers, |one| {
            (one.hostgroup, one.address.clone(), one.name.clone())
        }),
        chains,
        chains_adapted,
        needs_restart,
    }
}

impl Changes {
    fn between<T: PartialEq, K: PartialEq>(old: &[T], new: &[T], key: impl Fn(&T) -> K) -> Self {
        let find = |all: &[T], one: &T| all.iter().position(|other| key(other) == key(one));
        let mut changes = Self::default();
        for one in new {
            match find(old, one) {
                None => changes.added += 1,
                Some(at) => changes.changed += usize::from(old[at] != *one),
            }
        }
        changes.removed = old.iter().filter(|one| find(new, one).is_none()).count();
        changes
    }
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listeners, users, servers, chains, chains_adapted, .. } = self;
        let all = [("listeners", listeners), ("users", users), ("servers", servers)];
        let mut begun = false;
        for (what, Changes { added, changed, removed }) in
            all.into_iter().chain([("chains", chains)])
        {
            if added + changed + removed > 0 {
                let comma = if begun { ", " } else { "" };
                write!(f, "{comma}{what} +{added} ~{changed} -{removed}")?;
                begun = true;
            }
        }
        match (begun, chains_adapted) {
            (false, 0) => f.write_str("nothing that is counted"),
            (_, 0) => Ok(()),
            (begun, adapted) => {
                write!(f, "{}chains adapted: {adapted}", if begun { ", " } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, Reloaded};

    #[test]
    fn changes_are_counted_by_their_keys() {
        let (old, new) = ([(1, 'a'), (2, 'b'), (3, 'c')], [(2, 'x'), (3, 'c'), (4, 'd')]);
        let changes = Changes::between(&old, &new, |(key, _)| *key);
        assert_eq!(changes, Changes { added: 1, changed: 1, removed: 1 });
        let mut reloaded = Reloaded { users: changes, ..Reloaded::default() };
        assert_eq!(reloaded.to_string(), "users +1 ~1 -1");
        reloaded.chains_adapted = 2;
        assert_eq!(reloaded.to_string(), "users +1 ~1 -1, chains adapted: 2");
        assert_eq!(Reloaded::default().to_string(), "nothing that is counted");
    }
}
