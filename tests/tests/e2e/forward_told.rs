//! What is told of the statements of forwarded sessions: digests, and spans.

use crate::{
    admin::json,
    forward::{count, on_go},
};
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Collector, Proxy, Setup, Vendor, otlp::attribute, wait};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use serde_json::Value;
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    statements_have_digests,
    a_change_of_user_and_the_end_are_told,
    the_head_of_a_long_statement_is_told,
    commands_have_spans,
    a_query_attribute_names_the_parent,
    what_is_not_wanted_is_not_kept,
);

fn proxy(cluster: &Cluster, settings: &str, digests: u32, more: &str) -> Result<Proxy> {
    let chain = format!(
        "{more}\n[chain.main]\nsession = [\n  {{ use = \"parse\" }},\n  \
         {{ use = \"rules\", rules = [{}] }},\n  {{ use = \"fast-forward\"{settings} }},\n  \
         {{ use = \"route\" }},\n]\n",
        on_go()
    );
    Setup::of(cluster).admin(&format!("digests = {digests}")).append(&chain).start()
}

const OBSERVE: &str = ", observe = true";

/// Waits for an entry with this text and so many calls.
fn digest(proxy: &Proxy, text: &str, calls: u64) -> Result<Value> {
    wait::until(text, || {
        let all = json(proxy, "/digests?limit=1000")?;
        let mut found = all.as_array().context("a list")?.iter().filter(|one| one["text"] == text);
        Ok(found.find(|one| one["calls"] == calls).cloned())
    })
    .with_context(|| proxy.get("/digests?limit=1000").unwrap_or_default())
}

fn statements_have_digests(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, OBSERVE, 100, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'before'")?;
    client.must("SELECT 'go', 'secret-0'")?;
    for number in 0..5 {
        client.must(&format!("SELECT {number}, 'secret-{number}', 2 /* a comment */"))?;
    }
    ensure!(client.query("SELECT nothing_like_it")?.error_code() == Some(1054));
    let statement = client.prepare("SELECT ? AS prepared_one")?;
    for _ in 0..3 {
        client.execute(&statement, 0, &[Some(b"secret-p")])?;
    }
    client.execute(&statement, 1, &[Some(b"secret-p")])?;
    client.fetch(&statement, 9)?;
    client.command(CommandCode::PING, b"")?;

    // The trigger is one of them, and was not given up.
    let trigger = digest(&proxy, "SELECT ?,?", 1)?;
    ensure!(trigger["abandoned"] == 0 && trigger["errors"] == 0, "{trigger}");
    let all = json(&proxy, "/digests?limit=1000")?;
    let all = all.as_array().context("a list")?.iter();
    ensure!(all.filter(|one| one["text"] == "SELECT ?,?").count() == 1, "it is counted twice");
    let selects = digest(&proxy, "SELECT ?,?,?", 5)?;
    ensure!(selects["user"] == cluster.admin().user && selects["hostgroup"] == 0, "{selects}");
    ensure!(selects["bytes"].as_u64() > Some(5 * 50), "{selects}");
    ensure!(selects["seconds"].as_f64() > Some(0.0), "{selects}");
    ensure!(digest(&proxy, "SELECT nothing_like_it", 1)?["errors"] == 1);
    // PREPARE, four EXECUTE, FETCH.
    let prepared = digest(&proxy, "SELECT ? AS prepared_one", 6)?;
    ensure!(prepared["errors"] == 0, "{prepared}");
    let before = digest(&proxy, "SELECT ?", 1)?;
    ensure!(before["digest"] == "0x1C46AE529DD5A40E", "{before}");
    ensure!(!proxy.get("/digests?limit=1000")?.contains("secret"));
    ensure!(count(&proxy, "towpath_observed_dropped_total")? == 0);
    client.quit()
}

fn a_change_of_user_and_the_end_are_told(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, OBSERVE, 100, "")?;
    let told = [("program_name", "told")];
    let mut client = proxy.connect(&cluster.login("app").attributes(&told))?;
    client.must("SELECT 'go'")?;
    client.change_user(&cluster.admin().attributes(&told))?;
    client.must("SELECT 1, 2")?;
    ensure!(digest(&proxy, "SELECT ?,?", 1)?["user"] == cluster.admin().user);
    ensure!(digest(&proxy, "SELECT ?", 1)?["user"] == "app");
    client.send_command(CommandCode::QUERY, b"SELECT SLEEP(3600)")?;
    wait::until("it is on its way", || {
        let seen = count(&proxy, "towpath_observed_commands_total{command=\"COM_QUERY\"}")?;
        Ok((seen == 3).then_some(()))
    })?;
    let id = json(&proxy, "/sessions")?["sessions"][0]["id"].clone();
    let ended = proxy.post(&format!("/sessions/{id}/kill"), r#"{"what": "session"}"#)?;
    ensure!(ended.0 == 200, "{ended:?}");
    let given_up = digest(&proxy, "SELECT SLEEP(?)", 1)?;
    ensure!(given_up["abandoned"] == 1 && given_up["errors"] == 0, "{given_up}");
    ensure!(count(&proxy, "towpath_observed_stopped_total")? == 0);
    Ok(())
}

fn the_head_of_a_long_statement_is_told(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, OBSERVE, 100, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'go'")?;
    let long = "x".repeat(3 << 20);
    ensure!(client.rows(&format!("SELECT 7 AS lucky, LENGTH('{long}')"))?[0][1].is_some());
    let told = digest(&proxy, "SELECT ? AS lucky,LENGTH(?", 1)?;
    ensure!(told["errors"] == 0, "{told}");
    client.quit()
}

fn traced(cluster: &Cluster, settings: &str, collector: &Collector) -> Result<Proxy> {
    let url = collector.url();
    let otlp = format!(
        "[otlp]\nendpoint = \"{url}\"\nbatch_delay = \"10ms\"\n[trace]\nratio = 1.0\n\
         parents = [\"attributes\", \"comments\"]"
    );
    proxy(cluster, settings, 0, &otlp)
}

/// The value of an attribute.
fn says(span: &Span, key: &str) -> String {
    attribute(&span.attributes, key).unwrap_or_default()
}

fn server_span(collector: &Collector, text: &str) -> Result<Span> {
    collector
        .span(text, |span| span.kind() == SpanKind::Server && says(span, "db.query.text") == text)
}

fn commands_have_spans(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let mut proxy = traced(cluster, OBSERVE, &collector)?;
    let login = cluster.admin();
    let mut client = proxy.connect(&login)?;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    client.must("SELECT 'go', 'secret'")?;
    client.must("USE information_schema")?;
    client.must(&format!("SELECT 'secret', 2, 3 /*traceparent='{parent}'*/"))?;
    let statement = client.prepare("SELECT ?, ?, ?, 4")?;
    client.execute(&statement, 0, &[Some(b"secret"), None, None])?;
    ensure!(client.query("SELECT nothing_like_it")?.error_code() == Some(1054));
    client.command(CommandCode::PING, b"")?;
    client.quit()?;
    proxy.signal("TERM")?;
    proxy.ended()?;

    let trigger = server_span(&collector, "SELECT ?,?")?;
    ensure!(says(&trigger, "towpath.rule_ids") == "1", "{trigger:?}");
    ensure!(says(&trigger, "towpath.reply.bytes").parse::<u64>()? > 50, "{trigger:?}");
    let system = if cluster.vendor == Vendor::MariaDb { "mariadb" } else { "mysql" };
    for (text, bytes, children) in
        [("SELECT ?,?", true, 2), ("SELECT ?,?,?", true, 1), ("USE information_schema", false, 1)]
    {
        let span = server_span(&collector, text)?;
        ensure!(says(&span, "towpath.fast_forward") == "true", "{span:?}");
        ensure!(says(&span, "db.system.name") == system, "{span:?}");
        ensure!(says(&span, "towpath.hostgroup") == "0" && says(&span, "error.type").is_empty());
        ensure!(!bytes || says(&span, "towpath.reply.bytes").parse::<u64>()? > 50, "{span:?}");
        let inner = collector.children(&span);
        ensure!(inner.len() == children, "{text}: {inner:?}");
        let exchange = inner.last().context("a child")?;
        ensure!(exchange.kind() == SpanKind::Client && exchange.name == span.name, "{exchange:?}");
        ensure!(says(exchange, "network.peer.port").parse::<u16>().is_ok(), "{exchange:?}");
        ensure!(span.start_time_unix_nano <= exchange.start_time_unix_nano, "{span:?}");
        ensure!(exchange.end_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        let events: Vec<_> = exchange.events.iter().map(|event| &event.name[..]).collect();
        ensure!(events == ["first_byte", "last_byte"], "{exchange:?}");
    }
    let named = server_span(&collector, "SELECT ?,?,?")?;
    let ids: String = named.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(ids == parent[3..35], "{named:?}");
    ensure!(says(&named, "db.namespace") == "information_schema", "{named:?}");
    let failed = server_span(&collector, "SELECT nothing_like_it")?;
    ensure!(says(&failed, "db.response.status_code") == "1054", "{failed:?}");
    ensure!(failed.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error));
    let mut spans = collector.spans();
    spans.retain(|span| span.kind() == SpanKind::Server);
    let mut commands: Vec<_> = spans.iter().map(|span| says(span, "towpath.command")).collect();
    commands.sort_unstable();
    let query = ["COM_QUERY"; 4];
    let others = ["COM_PING", "COM_STMT_EXECUTE", "COM_STMT_PREPARE"];
    let mut expected = [&query[..], &others].concat();
    expected.sort_unstable();
    ensure!(commands == expected, "{commands:?}");
    let executed = spans.iter().find(|span| says(span, "towpath.command") == "COM_STMT_EXECUTE");
    let executed = executed.context("the execution")?;
    ensure!(says(executed, "db.query.text") == "SELECT ?,?,?,?", "{executed:?}");
    ensure!(!collector.everything().contains("secret"));
    Ok(())
}

fn a_query_attribute_names_the_parent(cluster: &Cluster) -> Result<()> {
    if cluster.vendor != Vendor::MySql {
        return Ok(()); // it has none
    }
    let collector = Collector::start()?;
    let proxy = traced(cluster, OBSERVE, &collector)?;
    let login = cluster.admin().with(Capabilities::QUERY_ATTRIBUTES);
    let mut client = proxy.connect(&login)?;
    let trigger = client.command(CommandCode::QUERY, b"\0\x01SELECT 'go'")?;
    ensure!(trigger.error().is_none(), "{:?}", trigger.error());
    let parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let head = [&[1, 1, 0, 1, 0xFE, 0, 11][..], b"traceparent", &[parent.len() as u8]].concat();
    let body = [&head[..], parent, b"SELECT 1, 2, 3"].concat();
    ensure!(client.command(CommandCode::QUERY, &body)?.error().is_none());
    let span = server_span(&collector, "SELECT ?,?,?")?;
    let ids: String = span.parent_span_id.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(ids == "b7ad6b7169203331", "{span:?}");
    client.quit()
}

/// Without `observe` there is nothing but the trigger, as its chain saw it.
fn what_is_not_wanted_is_not_kept(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let url = collector.url();
    let otlp =
        format!("[otlp]\nendpoint = \"{url}\"\nbatch_delay = \"10ms\"\n[trace]\nratio = 1.0");
    let mut proxy = proxy(cluster, "", 100, &otlp)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'go'")?;
    client.must("SELECT 1, 2")?;
    client.must("SELECT 1, 2, 3")?;
    let digests = json(&proxy, "/digests?limit=1000")?;
    ensure!(digests.as_array().map(Vec::len) == Some(1), "{digests}");
    client.quit()?;
    proxy.signal("TERM")?;
    proxy.ended()?;
    let mut spans = collector.spans();
    spans.retain(|span| span.kind() == SpanKind::Server);
    ensure!(spans.len() == 1 && says(&spans[0], "towpath.fast_forward") == "true", "{spans:?}");
    Ok(())
}
