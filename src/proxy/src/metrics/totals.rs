//! A few sums, for the admin port's page.

use super::Metrics;
use prometheus_client::metrics::counter::Counter;
use serde::Serialize;
use utoipa::ToSchema;

/// Since the start of the process.
#[derive(Serialize, ToSchema)]
pub(crate) struct Totals {
    /// Clients that were accepted.
    connections: u64,
    login_failures: u64,
    /// Commands that were read from clients.
    commands: u64,
    /// Errors of the proxy's own, by whose fault.
    client_errors: u64,
    backend_errors: u64,
    filter_errors: u64,
    /// Sessions that have left the chain, now.
    forwarded_sessions: i64,
}

impl Metrics {
    /// The sums as they are now.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            connections: self.accepted.get(),
            login_failures: self.login_failures.get(),
            commands: self.commands.iter().map(Counter::get).sum::<u64>(),
            client_errors: self.client_errors.get(),
            backend_errors: self.backend_errors.get(),
            filter_errors: self.filter_errors.get(),
            forwarded_sessions: self.forwarded.sessions.get(),
        }
    }
}
