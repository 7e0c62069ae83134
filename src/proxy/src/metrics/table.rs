//! The table of all metrics, for a page.

use super::{CountedByFilters, Kind, Metrics, Spans, text::families};
use crate::{backend::health::machine::Lag, config::Config};
use chain::{HostgroupId, topology::ServerState};
use std::{fmt::Write, time::Duration};

/// All metrics that a proxy of this configuration has, as a Markdown table: name, type, labels and
/// what it says, in the order in which the admin port gives them.
pub fn table(config: &Config) -> String {
    let counted = CountedByFilters::default();
    counted.replace(&config.chains);
    let metrics = Metrics::new(counted, &Spans::default());
    // Families show their labels once there is something in them.
    let server = metrics.server(HostgroupId(0), "db1");
    server.answered(Kind::Read, Duration::from_millis(1), false);
    metrics.health.is_in(HostgroupId(0), "db1", ServerState::Online);
    metrics.health.is_member(HostgroupId(0), "db1", true);
    metrics.health.changed("db1", "online", "shunned");
    metrics.health.probed("db1", "ping", true);
    metrics.health.is_behind("db1", Lag::Unknown);
    metrics.pinned(&[("a transaction", 1)].into());
    let text = metrics.render();
    let mut out = "| name | type | labels | what |\n|---|---|---|---|\n".to_owned();
    for family in families(&text) {
        let suffix = match family.kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let labels = family.samples.first().map(|sample| sample.labels.iter());
        let labels = labels.into_iter().flatten().filter(|(label, _)| *label != "le");
        let labels: Vec<_> = labels.map(|(label, _)| format!("`{label}`")).collect();
        let (name, kind, help) = (family.name, family.kind, family.help.trim_end_matches('.'));
        let labels = labels.join(", ");
        writeln!(out, "| `{name}{suffix}` | {kind} | {labels} | {help} |")
            .expect("writing to a string cannot fail");
    }
    out
}
