//! What a command is told that gets no connection.

use crate::backend::dispatch::State;
use crate::backend::{Backend, Backends, connect::ConnectError};
use chain::{Command, Error, Hostgroup, Server, error::code, facts::FastForward};
use std::time::Duration;

/// Errors of a server that does not let an account in: a wrong password, a locked one, one that has
/// expired.
const DENIED: [u16; 5] = [1045, 1698, 1862, 3118, 4151];

impl State {
    /// A session whose account no server has ever accepted ends with the server's own words: a
    /// client of the server's would not have got in either. But for a switch to fast-forward, which has
    /// then not happened.
    pub(in crate::backend::dispatch) fn unattached(
        &mut self,
        command: &Command,
        error: Error,
    ) -> Error {
        let switches = command.fact::<FastForward>().is_some();
        self.lost |= !self.accepted && !switches && DENIED.contains(&error.code());
        error
    }
}

/// The error where a hostgroup has had no server for so long, with each server's reason.
pub(in crate::backend) fn no_server(
    backends: &Backends,
    group: Option<&Hostgroup>,
    id: chain::HostgroupId,
    budget: Duration,
    failures: &[(u32, String)],
) -> Error {
    let servers = group.map(|group| &group.servers[..]).unwrap_or_default();
    let reasons = servers.iter().filter(|server| server.weight() > 0);
    let reasons =
        reasons.map(|server| format!("{}: {}", server.name, why(backends, server, failures)));
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    let text = format!("no server of hostgroup {id} within {budget:?} ({reasons})");
    Error::backend(text).with_code(code::CONNECT_BUDGET, *b"08S01")
}

/// What connecting to it has come to, and its state where that says more.
pub(super) fn why(backends: &Backends, server: &Server, failures: &[(u32, String)]) -> String {
    let state = backends.get(server).map(|backend| backend.describe());
    let state = state.unwrap_or_else(|| "unknown".to_owned());
    match failures.iter().find(|(id, _)| *id == server.id) {
        Some((_, failure)) if server.standing.takes(None) => failure.clone(),
        Some((_, failure)) => format!("{state}; {failure}"),
        None => state,
    }
}

/// A server's own error goes to the client as it is; ours says where it happened.
pub(in crate::backend) fn refused(backend: &Backend, error: ConnectError) -> Error {
    match error {
        ConnectError::Refused(err) => {
            let text = err.message_lossy().into_owned();
            Error::backend(text).with_code(err.code, err.sqlstate)
        }
        error => {
            let text = format!("{}: {error}", backend.server.name);
            Error::backend(text).with_code(code::CONNECT_FAILED, *b"08S01")
        }
    }
}
