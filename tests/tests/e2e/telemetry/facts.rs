//! A command's spans say exactly what has happened to it, and nothing else.

use super::{child_of, end, hex, with_rules};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Collector, Vendor, otlp::attribute};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use wire::Capabilities;

on_both_vendors!(
    a_reply_from_memory_and_what_is_deferred_with_it,
    an_answer_of_a_rule,
    statements_of_one_text_are_counted,
);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// What is the proxy's own of a span's attributes, but for what differs each time.
fn facts(span: &Span) -> Vec<(String, String)> {
    let ours = span.attributes.iter().map(|attribute| attribute.key.as_str());
    let ours = ours.filter(|key| key.starts_with("towpath."));
    let ours = ours.filter(|key| !["towpath.session.id", "towpath.reply.bytes"].contains(key));
    let mut all: Vec<_> =
        ours.filter_map(|key| Some((key.to_owned(), attribute(&span.attributes, key)?))).collect();
    all.sort();
    all
}

fn are(span: &Span, expected: &[(&str, &str)]) -> Result<()> {
    let found = facts(span);
    let found: Vec<_> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    ensure!(found == expected, "{found:?}");
    Ok(())
}

fn two_session_commands(client: &mut Client) -> Result<()> {
    client.must("SET @first = 1")?;
    client.must("SET SESSION sort_buffer_size = 262144").map(drop)
}

fn a_reply_from_memory_and_what_is_deferred_with_it(cluster: &Cluster) -> Result<()> {
    let parent = format!("00-{TRACE}-{PARENT}-01");
    for protocol in ["grpc", "http"] {
        let collector = Collector::start()?;
        let settings =
            format!("protocol = \"{protocol}\"\n[trace]\nratio = 1.0\nparents = [\"comments\"]");
        let mode = "mode = 'predict', predict.audit_rate = 0";
        let proxy = with_rules(cluster, &collector, &settings, mode)?;
        // What is known of them afterwards makes the replies sure.
        for _ in 0..5 {
            let mut client = proxy.connect(&cluster.admin())?;
            two_session_commands(&mut client)?;
            client.must("SELECT 1")?;
            client.quit()?;
        }
        let mut client = proxy.connect(&cluster.admin())?;
        two_session_commands(&mut client)?;
        client.must(&child_of(&parent, "SELECT 2"))?;
        end(proxy, client)?;

        let mut told = collector.spans();
        told.retain(|span| span.kind() == SpanKind::Server);
        told.sort_by_key(|span| span.start_time_unix_nano);
        let [.., first, second, query] = &told[..] else { anyhow::bail!("{told:?}") };
        ensure!(hex(&query.trace_id) == TRACE && hex(&query.parent_span_id) == PARENT);
        for span in [first, second, query] {
            let system = if cluster.vendor == Vendor::MariaDb { "mariadb" } else { "mysql" };
            let found = attribute(&span.attributes, "db.system.name");
            ensure!(found.as_deref() == Some(system), "{found:?}");
        }
        for (predicted, lsn) in [(first, "1"), (second, "2")] {
            are(
                predicted,
                &[
                    ("towpath.command", "COM_QUERY"),
                    ("towpath.deferred", "0"),
                    ("towpath.fast_forward", "false"),
                    ("towpath.predicted", "true"),
                    ("towpath.session_command.class", "const"),
                    ("towpath.session_command.lsn", lsn),
                ],
            )?;
            ensure!(collector.children(predicted).is_empty(), "no server was asked");
        }
        are(
            query,
            &[
                ("towpath.command", "COM_QUERY"),
                ("towpath.deferred", "2"),
                ("towpath.fast_forward", "false"),
                ("towpath.hostgroup", "2"),
                ("towpath.predicted", "false"),
                ("towpath.rule_ids", "7"),
                ("towpath.server", "replica2"),
            ],
        )?;
        let children = collector.children(query);
        let catch_up = children.iter().find(|child| child.name == "catch-up");
        let lag = catch_up.map(facts).unwrap_or_default();
        let told = |key: &str| lag.iter().find(|(known, _)| known == key).map(|(_, it)| &**it);
        ensure!(told("towpath.catch_up.lag") == Some("2"), "{children:?}");
        let sent = "\x03SET @first = 1\x03SET SESSION sort_buffer_size = 262144".len();
        // The client has asked for no attributes of queries.
        ensure!(told("towpath.catch_up.bytes") == Some(&*sent.to_string()), "{children:?}");
    }
    Ok(())
}

fn an_answer_of_a_rule(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let proxy = with_rules(cluster, &collector, "[trace]\nratio = 1.0", "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("PLEASE")?;
    ensure!(client.query("NEVER")?.error_code() == Some(1148));
    end(proxy, client)?;
    for (summary, rule) in [("PLEASE", "8"), ("NEVER", "9")] {
        let is_it =
            |span: &Span| attribute(&span.attributes, "db.query.text").as_deref() == Some(summary);
        let span =
            collector.span(summary, |span| span.kind() == SpanKind::Server && is_it(span))?;
        are(
            &span,
            &[
                ("towpath.command", "COM_QUERY"),
                ("towpath.deferred", "0"),
                ("towpath.fast_forward", "false"),
                ("towpath.predicted", "false"),
                ("towpath.rule_ids", rule),
            ],
        )?;
        ensure!(collector.children(&span).is_empty(), "no server was asked");
    }
    Ok(())
}

fn statements_of_one_text_are_counted(cluster: &Cluster) -> Result<()> {
    let collector = Collector::start()?;
    let proxy = with_rules(cluster, &collector, "[trace]\nratio = 1.0", "")?;
    let login = cluster.admin().with(Capabilities::MULTI_STATEMENTS);
    let mut client = proxy.connect(&login)?;
    for text in ["DO 1; DO 2 ; DO ';' ;", "DO 3;"] {
        client.query(text)?;
    }
    end(proxy, client)?;
    let mut told = collector.spans();
    told.retain(|span| span.kind() == SpanKind::Server);
    told.sort_by_key(|span| span.start_time_unix_nano);
    let sizes = told.iter().map(|span| attribute(&span.attributes, "db.operation.batch.size"));
    let sizes: Vec<_> = sizes.collect();
    ensure!(sizes == [Some("3".to_owned()), None], "{sizes:?}");
    Ok(())
}
