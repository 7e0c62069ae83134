//! A program in Python that is traced itself: its spans and the proxy's are one trace.

use super::{end, with_rule_7};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Collector, otlp::attribute, program, skip, wait};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use std::process::Command;

on_both_vendors!(a_client_with_sqlcommenter_is_in_one_trace_with_the_proxy);

const PROGRAM: &str = include_str!("python/client.py");

fn a_client_with_sqlcommenter_is_in_one_trace_with_the_proxy(cluster: &Cluster) -> Result<()> {
    let Some(python) = program::python() else {
        skip::report("there is no Python of the tests' own");
        return Ok(());
    };
    let imports = "import opentelemetry.instrumentation.pymysql, opentelemetry.exporter.otlp";
    let has_them = Command::new(&python).args(["-c", imports]).output()?.status.success();
    if !has_them {
        skip::report("OpenTelemetry's packages for Python are not installed");
        return Ok(());
    }
    let collector = Collector::start()?;
    let settings = "[trace]\nparents = [\"comments\"]";
    let proxy = with_rule_7(cluster, &collector, settings)?;
    let login = cluster.admin();
    let (host, port) = proxy.host_and_port();
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, host, port, &login.user, &login.password]);
    command.arg(format!("{}/v1/traces", collector.url()));
    program::run(&mut command, "")?.good()?;
    end(proxy, cluster.direct()?)?;

    let spans = wait::until("the client's span", || {
        let spans = collector.spans();
        let found = spans.iter().any(|span| span.name == "work");
        Ok(found.then_some(spans))
    })?;
    let work = spans.iter().find(|span| span.name == "work").context("no span of the program")?;
    let ours = spans.iter().find(|span| {
        span.kind() == SpanKind::Server && attribute(&span.attributes, "towpath.command").is_some()
    });
    let ours = ours.context("no span of the proxy")?;
    ensure!(ours.trace_id == work.trace_id, "{ours:?}");
    let theirs = spans.iter().find(|span| span.span_id == ours.parent_span_id);
    let theirs = theirs.context("the parent is not there")?;
    ensure!(theirs.kind() == SpanKind::Client && theirs.parent_span_id == work.span_id);
    let text = attribute(&ours.attributes, "db.query.text");
    ensure!(text.as_deref() == Some("SELECT ?"), "{text:?}");
    Ok(())
}
