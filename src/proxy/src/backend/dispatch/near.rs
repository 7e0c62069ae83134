//! Waiting for a server that is near enough to its primary.

use super::{State, again::is_strict};
use crate::backend::Backends;
use chain::{
    Command, Error, Hostgroup, Result, Server,
    balance::takes,
    error::code,
    facts::{Near, Target},
};
use std::{pin::pin, sync::Arc, time::Duration};

impl State {
    /// The named server if it is near enough, or the first of its hostgroup that is, within the
    /// connect budget.
    pub(super) async fn near(&mut self, target: Target, command: &Command) -> Result<Target> {
        let limit = match command.fact::<Near>() {
            Some(Near(limit)) if !is_strict(command) => *limit,
            _ => return Ok(target),
        };
        let (backends, budget) =
            (&self.shared.backends, self.shared.settings.load().connect_budget);
        let waiting = wait(backends, &target, limit);
        tokio::time::timeout(budget, waiting).await.map_err(|_| {
            let topology = backends.topology();
            let servers = topology.hostgroup(target.hostgroup).map(|group| &group.servers[..]);
            let servers = servers.unwrap_or_default().iter().filter(|server| server.weight() > 0);
            let why: Vec<_> = servers.map(|server| why(backends, server, limit)).collect();
            let (id, why) = (target.hostgroup, why.join("; "));
            let text = format!("no server of hostgroup {id} within {budget:?} ({why})");
            Error::backend(text).with_code(code::CONNECT_BUDGET, *b"08S01")
        })
    }
}

async fn wait(backends: &Backends, target: &Target, limit: Duration) -> Target {
    loop {
        let health = backends.health();
        let mut measured = pin!(health.measured());
        // From here on nothing goes by unseen.
        measured.as_mut().enable();
        // A reload may have added one.
        let topology = backends.topology();
        let found = topology.hostgroup(target.hostgroup);
        if let Some(server) = found.and_then(|group| choose(group, target.server.id, limit)) {
            return Target { server: server.clone(), ..target.clone() };
        }
        measured.await;
    }
}

/// The one of that id, else the one with the least to do.
fn choose(group: &Hostgroup, named: u32, limit: Duration) -> Option<&Arc<Server>> {
    let near = group.servers.iter().filter(|server| takes(server, Some(limit)));
    near.min_by_key(|server| (server.id != named, server.load.outstanding()))
}

/// Its state, and how far it is behind where that is too far.
fn why(backends: &Backends, server: &Server, limit: Duration) -> String {
    let state = backends.get(server).map_or_else(|| "unknown".to_owned(), |it| it.describe());
    let behind = match server.standing.lag().filter(|lag| *lag > limit) {
        // See `Standing::set_lag`.
        Some(lag) if lag > FAR => ", its replication does not run".to_owned(),
        Some(lag) => format!(", {lag:?} behind, {limit:?} is allowed"),
        None => String::new(),
    };
    format!("{}: {state}{behind}", server.name)
}

/// A replica that does not follow is as far behind as can be said: some weeks.
const FAR: Duration = Duration::from_secs(40 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::choose;
    use chain::{Hostgroup, HostgroupId, Server};
    use std::{sync::Arc, time::Duration};

    const LIMIT: Duration = Duration::from_secs(5);

    #[test]
    fn the_named_one_is_taken_if_it_is_near_else_one_with_little_to_do() {
        let server = |id, lag: Option<u64>| {
            let server = Server::new(id, format!("db{id}"), u32::from(id != 4));
            server.standing.set_lag(lag.map(Duration::from_secs));
            Arc::new(server)
        };
        let servers =
            vec![server(1, Some(9)), server(2, Some(5)), server(3, None), server(4, None)];
        let group = Hostgroup { id: HostgroupId(1), name: None, servers };
        let chosen = |named| choose(&group, named, LIMIT).map(|server| server.id);
        assert_eq!(chosen(3), Some(3), "a lag that nobody knows is none");
        assert_eq!(chosen(2), Some(2));
        let busy = group.servers[1].clone();
        let _running = chain::topology::InUse::command(busy);
        assert_eq!(chosen(1), Some(3));
        assert_eq!(chosen(4), Some(3), "one without a weight is not named");
        group.servers[2].standing.set_member(false);
        assert_eq!(chosen(1), Some(2));
        group.servers[1].standing.set_lag(Some(LIMIT * 2));
        assert_eq!(chosen(1), None);
    }
}
