//! What servers have done, as OpenTelemetry's conventions for databases count it.

use std::sync::Arc;

/// `db.client.operation.duration` of one kind of command on one server.
pub(crate) struct Operations {
    pub(crate) place: Arc<Place>,
    pub(crate) hostgroup: u32,
    /// The server's name.
    pub(crate) server: String,
    pub(crate) kind: &'static str,
    /// All together.
    pub(crate) seconds: f64,
    /// One for each of [`Self::BOUNDS`], and one for what took longer.
    pub(crate) counts: Vec<u64>,
}

/// Which server it is, as the conventions name it.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) is_mariadb: bool,
    /// Host and port as configured, or a path.
    pub(crate) address: String,
    pub(crate) port: Option<u16>,
}

impl Operations {
    /// In seconds. Source: OpenTelemetry, "Semantic conventions for database client metrics".
    pub(crate) const BOUNDS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];
}

impl Place {
    /// As `db.system.name` has it.
    pub(crate) fn system(&self) -> &'static str {
        if self.is_mariadb { "mariadb" } else { "mysql" }
    }
}
