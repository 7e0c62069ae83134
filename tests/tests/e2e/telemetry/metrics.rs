//! Metrics: on the admin port, and sent by OTLP.

use super::{end, with_rule_7};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Collector, Vendor, otlp::attribute, wait};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data};

on_both_vendors!(durations_are_told_by_server_and_kind, metrics_are_sent);

fn value(metrics: &str, line: &str) -> Option<f64> {
    let rest = metrics.lines().find_map(|one| one.strip_prefix(line))?;
    rest.trim().parse().ok()
}

fn durations_are_told_by_server_and_kind(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let proxy = with_rule_7(cluster, &collector, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    for _ in 0..4 {
        client.must("DO SLEEP(0.1)")?;
    }
    client.must("SELECT 1")?;
    ensure!(client.query("UPDATE no_schema.t SET a = 1")?.error_code().is_some());
    let metrics = proxy.get("/metrics")?;
    let primary = &cluster.addresses[0];
    let writes = format!("hostgroup=\"0\",server=\"{primary}\",kind=\"write\"");
    let reads = "hostgroup=\"2\",server=\"replica2\",kind=\"read\"";
    let name = "towpath_backend_command_duration_seconds";
    ensure!(value(&metrics, &format!("{name}_count{{{writes}}}")) == Some(5.0), "{metrics}");
    ensure!(value(&metrics, &format!("{name}_count{{{reads}}}")) == Some(1.0), "{metrics}");
    let sum = value(&metrics, &format!("{name}_sum{{{writes}}}")).context("a sum")?;
    ensure!(sum >= 0.4, "{sum}");
    let quantile = "towpath_backend_command_duration_quantile_seconds";
    for (share, least) in [("0.5", 0.099), ("0.999", 0.099)] {
        let line = format!("{quantile}{{{writes},quantile=\"{share}\"}}");
        let found = value(&metrics, &line).with_context(|| format!("no {line} in {metrics}"))?;
        ensure!(found >= least, "{line} {found}");
    }
    let errors = format!("towpath_backend_errors_total{{hostgroup=\"0\",server=\"{primary}\"}}");
    ensure!(value(&metrics, &errors) == Some(1.0), "{metrics}");
    for direction in ["received", "sent"] {
        let line = format!("towpath_client_bytes_total{{direction=\"{direction}\"}}");
        ensure!(value(&metrics, &line).is_some_and(|bytes| bytes > 50.0), "{line}: {metrics}");
    }
    client.quit()
}

fn find(metrics: &[Metric], name: &str) -> Result<Data> {
    let found = metrics.iter().find(|metric| metric.name == name);
    found.and_then(|metric| metric.data.clone()).with_context(|| format!("no {name}"))
}

fn metrics_are_sent(cluster: &Cluster) -> Result<()> {
    let protocol = if cluster.vendor == Vendor::MySql { "http" } else { "grpc" };
    let collector = Collector::start()?;
    let settings = format!("protocol = \"{protocol}\"\nmetrics_interval = \"20ms\"");
    let proxy = with_rule_7(cluster, &collector, &settings)?;
    let mut client = proxy.connect(&cluster.admin())?;
    for _ in 0..3 {
        client.must("SELECT 1")?;
    }
    wait::until("metrics", || Ok((!collector.metrics().is_empty()).then_some(())))?;
    // The last ones are sent at the end.
    end(proxy, client)?;
    let metrics = collector.metrics();
    let Data::Histogram(operations) = find(&metrics, "db.client.operation.duration")? else {
        anyhow::bail!("no histogram: {metrics:?}");
    };
    let point = operations.data_points.iter().find(|point| {
        attribute(&point.attributes, "towpath.server").as_deref() == Some("replica2")
    });
    let point = point.with_context(|| format!("{operations:?}"))?;
    let (host, port) =
        cluster.addresses.last().and_then(|at| at.split_once(':')).context("a port")?;
    let system = if cluster.vendor == Vendor::MariaDb { "mariadb" } else { "mysql" };
    for (key, expected) in [
        ("db.system.name", system),
        ("server.address", host),
        ("server.port", port),
        ("towpath.hostgroup", "2"),
        ("towpath.kind", "read"),
    ] {
        let found = attribute(&point.attributes, key);
        ensure!(found.as_deref() == Some(expected), "{key} is {found:?}, not {expected}");
    }
    ensure!(point.count == 3 && point.bucket_counts.iter().sum::<u64>() == 3, "{point:?}");
    ensure!(point.explicit_bounds == [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0]);
    let Data::Sum(commands) = find(&metrics, "towpath.commands")? else {
        anyhow::bail!("no sum: {metrics:?}");
    };
    ensure!(commands.is_monotonic && commands.data_points.len() > 10, "{commands:?}");
    find(&metrics, "towpath.sessions").map(drop)
}
