//! Traces: which commands are told of, and what of them.

use super::{child_of, end, hex, with_rule_7};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Collector, Setup, Vendor, otlp::attribute, wait};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    a_command_s_span_says_what_was_done_for_it,
    a_span_lasts_until_the_reply_has_gone_out,
    a_share_of_the_commands_is_told,
    slow_and_failed_commands_are_told,
    a_query_attribute_names_the_parent,
    a_sticky_session_s_mode_is_seen,
    each_filter_s_time_is_seen_at_level_debug,
    an_absent_collector_hinders_nobody,
);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const COMMENTS: &str = "[trace]\nparents = [\"attributes\", \"comments\"]";

fn has(span: &Span, expected: &[(&str, &str)]) -> Result<()> {
    for (key, value) in expected {
        let found = attribute(&span.attributes, key);
        ensure!(found.as_deref() == Some(value), "{key} is {found:?}, not {value}: {span:?}");
    }
    Ok(())
}

/// Whether `inner` lies in `outer`.
fn nests(outer: &Span, inner: &Span) -> Result<()> {
    let begins = outer.start_time_unix_nano <= inner.start_time_unix_nano;
    let ends = inner.end_time_unix_nano <= outer.end_time_unix_nano;
    ensure!(
        begins && ends && inner.start_time_unix_nano <= inner.end_time_unix_nano,
        "{} is not inside of {}",
        inner.name,
        outer.name
    );
    Ok(())
}

fn is(span: &Span, kind: SpanKind) -> bool {
    span.kind() == kind
}

fn a_command_s_span_says_what_was_done_for_it(cluster: &Cluster) -> Result<()> {
    for protocol in ["grpc", "http"] {
        let collector = Collector::start()?;
        let settings = format!(
            "protocol = \"{protocol}\"\nresource = {{ \"deployment.environment.name\" = \"e2e\" }}\n{COMMENTS}"
        );
        let proxy = with_rule_7(cluster, &collector, &settings)?;
        let mut client = proxy.connect(&cluster.admin())?;
        client.must("SET @first = 1")?;
        client.must("SET SESSION sort_buffer_size = 262144")?;
        let text =
            "SELECT 'a-literal', @@port FROM information_schema.TABLES WHERE TABLE_NAME = 'x'";
        client.must(&child_of(&format!("00-{TRACE}-{PARENT}-01"), text))?;
        let proxy = end(proxy, client)?;

        let span = collector.span("the command", |span| is(span, SpanKind::Server))?;
        ensure!(collector.spans().iter().filter(|one| is(one, SpanKind::Server)).count() == 1);
        ensure!(hex(&span.trace_id) == TRACE && hex(&span.parent_span_id) == PARENT, "{span:?}");
        ensure!(span.name == "SELECT information_schema.TABLES", "{span:?}");
        let system = if cluster.vendor == Vendor::MariaDb { "mariadb" } else { "mysql" };
        let digest = "SELECT ?,@@port FROM information_schema.TABLES WHERE TABLE_NAME = ?";
        let common = [
            ("db.system.name", system),
            ("db.query.summary", "SELECT information_schema.TABLES"),
            ("db.query.text", digest),
            ("db.operation.name", "SELECT"),
        ];
        has(&span, &common)?;
        has(
            &span,
            &[
                ("towpath.rule_ids", "7"),
                ("towpath.hostgroup", "2"),
                ("towpath.server", "replica2"),
                ("towpath.deferred", "2"),
                ("towpath.predicted", "false"),
                ("towpath.fast_forward", "false"),
                ("towpath.command", "COM_QUERY"),
                ("client.address", "127.0.0.1"),
            ],
        )?;
        ensure!(attribute(&span.attributes, "towpath.sticky.mode").is_none(), "{span:?}");
        ensure!(attribute(&span.attributes, "error.type").is_none(), "{span:?}");

        let children = collector.children(&span);
        let names: Vec<_> = children.iter().map(|child| child.name.as_str()).collect();
        ensure!(names == ["checkout", "catch-up", span.name.as_str()], "{names:?}");
        children.iter().try_for_each(|child| nests(&span, child))?;
        ensure!(children.iter().all(|child| is(child, SpanKind::Client)), "{children:?}");
        let [checkout, catch_up, execution] = &children[..] else { unreachable!() };
        ensure!(checkout.end_time_unix_nano <= catch_up.start_time_unix_nano);
        ensure!(catch_up.end_time_unix_nano <= execution.start_time_unix_nano);
        has(checkout, &[("towpath.server", "replica2")])?;
        has(catch_up, &[("towpath.catch_up.lag", "2"), ("towpath.server", "replica2")])?;
        let (host, port) =
            cluster.addresses.last().and_then(|at| at.split_once(':')).context("a port")?;
        has(execution, &common)?;
        has(
            execution,
            &[
                ("server.address", host),
                ("server.port", port),
                ("network.peer.address", "127.0.0.1"),
                ("network.peer.port", port),
            ],
        )?;
        let events: Vec<_> = execution.events.iter().map(|event| event.name.as_str()).collect();
        ensure!(events == ["first_byte", "last_byte"], "{execution:?}");
        let times: Vec<_> = execution.events.iter().map(|event| event.time_unix_nano).collect();
        ensure!(execution.start_time_unix_nano <= times[0] && times[0] <= times[1]);

        let resource = collector.resource();
        for (key, value) in [("service.name", "towpath"), ("deployment.environment.name", "e2e")] {
            ensure!(attribute(&resource, key).as_deref() == Some(value), "{resource:?}");
        }
        ensure!(!collector.everything().contains("a-literal"));
        ensure!(!proxy.log().contains("WARN"), "{}", proxy.log());
    }
    Ok(())
}

fn a_span_lasts_until_the_reply_has_gone_out(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let proxy = with_rule_7(cluster, &collector, "[trace]\nratio = 1.0")?;
    let mut client = proxy.connect(&cluster.admin())?;
    let digits = "(SELECT 1 AS n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5)";
    client.must(&format!(
        "SELECT REPEAT('x', 9000) AS wide FROM {digits} a, {digits} b, {digits} c, {digits} d"
    ))?;
    end(proxy, client)?;
    let span = collector.span("the command", |span| is(span, SpanKind::Server))?;
    let children = collector.children(&span);
    ensure!(children.len() == 2, "{children:?}");
    children.iter().try_for_each(|child| nests(&span, child))
}

fn a_share_of_the_commands_is_told(cluster: &Cluster) -> Result<()> {
    for (ratio, expected) in [("1.0", 20), ("0.0", 0)] {
        let collector = Collector::start()?;
        let proxy = with_rule_7(cluster, &collector, &format!("[trace]\nratio = {ratio}"))?;
        let mut client = proxy.connect(&cluster.admin())?;
        for _ in 0..20 {
            client.must("DO 1")?;
        }
        end(proxy, client)?;
        let told = collector.spans().iter().filter(|span| is(span, SpanKind::Server)).count();
        ensure!(told == expected, "{told}, not {expected}");
    }
    Ok(())
}

fn slow_and_failed_commands_are_told(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let proxy = with_rule_7(cluster, &collector, "[trace]\nslow = \"300ms\"")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("DO 1")?;
    client.must("DO SLEEP(0.4)")?;
    ensure!(client.query("INSERT INTO no_schema.t VALUES (1)")?.error_code().is_some());
    let slow = client.prepare("SELECT SLEEP(0.4) AS x")?;
    client.execute(&slow, 0, &[])?;
    end(proxy, client)?;
    let mut told: Vec<_> =
        collector.spans().into_iter().filter(|span| is(span, SpanKind::Server)).collect();
    told.sort_by_key(|span| span.start_time_unix_nano);
    let names: Vec<_> = told.iter().map(|span| span.name.as_str()).collect();
    ensure!(names == ["DO", "INSERT no_schema.t", "SELECT"], "{names:?}");
    let took = told[0].end_time_unix_nano - told[0].start_time_unix_nano;
    ensure!(took >= 300_000_000, "{took} ns");
    for span in &told {
        let children = collector.children(span);
        ensure!(!children.is_empty(), "{span:?}");
        children.iter().try_for_each(|child| nests(span, child))?;
    }
    let failed = &told[1];
    let status = failed.status.as_ref().context("a status")?;
    ensure!(status.code() == StatusCode::Error, "{failed:?}");
    // MySQL: unknown database or no such table
    let code = attribute(&failed.attributes, "db.response.status_code").context("a code")?;
    ensure!(["1049", "1146"].contains(&code.as_str()), "{failed:?}");
    has(failed, &[("error.type", &code)])?;
    has(
        &told[2],
        &[("towpath.command", "COM_STMT_EXECUTE"), ("db.query.text", "SELECT SLEEP(?) AS x")],
    )
}

fn a_query_attribute_names_the_parent(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let proxy = with_rule_7(cluster, &collector, "")?;
    let login = cluster.admin().with(Capabilities::QUERY_ATTRIBUTES);
    let mut client = proxy.connect(&login)?;
    if !client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
        // MariaDB has none.
        ensure!(cluster.vendor == Vendor::MariaDb);
        return Ok(());
    }
    for (at, flags) in ["01", "00"].into_iter().enumerate() {
        let parent = format!("00-{TRACE}-{PARENT}-{flags}");
        let mut body = vec![1, 1, 0, 1, 0xFD, 0x00, 11];
        body.extend(b"traceparent");
        body.push(parent.len() as u8);
        body.extend(parent.as_bytes());
        body.extend(format!("DO {at}").as_bytes());
        client.command(CommandCode::QUERY, &body)?;
    }
    end(proxy, client)?;
    let told: Vec<_> =
        collector.spans().into_iter().filter(|span| is(span, SpanKind::Server)).collect();
    let [span] = &told[..] else { anyhow::bail!("{told:?}") };
    ensure!(hex(&span.trace_id) == TRACE && hex(&span.parent_span_id) == PARENT, "{span:?}");
    Ok(())
}

fn a_sticky_session_s_mode_is_seen(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let text = format!(
        "[trace]\nratio = 1.0\n[otlp]\nendpoint = {:?}\nbatch_delay = '10ms'\n[chain.main]\n\
         session = [{{ use = 'parse' }}, {{ use = 'hints' }}, {{ use = 'sticky' }}, \
         {{ use = 'route' }}]\n",
        collector.url()
    );
    let proxy = Setup::of(cluster).append(&text).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let mode = "towpath.sticky.mode";
    for text in ["DO 1", "/* sticky_backend=2 */ SELECT 1", "SHOW TABLES FROM mysql"] {
        client.must(text)?;
    }
    end(proxy, client)?;
    for (verb, expected) in [("DO", None), ("SELECT", Some("strict")), ("SHOW", Some("strict"))] {
        let span = collector
            .span(verb, |span| is(span, SpanKind::Server) && span.name.starts_with(verb))?;
        let found = attribute(&span.attributes, mode);
        ensure!(found.as_deref() == expected, "{verb}: {found:?}");
    }
    Ok(())
}

fn each_filter_s_time_is_seen_at_level_debug(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let proxy = with_rule_7(cluster, &collector, "[trace]\nratio = 1.0\nlevel = \"debug\"")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 1")?;
    end(proxy, client)?;
    let mut above = collector.span("SELECT", |span| is(span, SpanKind::Server))?;
    // One inside of the other, in the order of the chain.
    for filter in ["parse", "rules", "session-commands", "route", "catch-up"] {
        let children = collector.children(&above);
        let inner = children.into_iter().find(|child| child.name == filter);
        let inner = inner.with_context(|| format!("no span of {filter} in {}", above.name))?;
        nests(&above, &inner)?;
        above = inner;
    }
    Ok(())
}

fn an_absent_collector_hinders_nobody(cluster: &Cluster) -> Result<()> {
    // Nobody listens on port 9 of loopback; room for one span.
    let settings = "[otlp]\nendpoint = \"http://127.0.0.1:9\"\nqueue = 1\n[trace]\nratio = 1.0\n";
    let proxy = Setup::of(cluster).append(settings).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    for _ in 0..50 {
        client.must("DO 1")?;
    }
    wait::until("dropped spans to be counted", || {
        let metrics = proxy.get("/metrics")?;
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("towpath_spans_total{outcome=\"dropped\"} "));
        let count: u64 = line.context("no counter")?.parse()?;
        Ok((count >= 40).then_some(()))
    })?;
    client.must("DO 2")
}
