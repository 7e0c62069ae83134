//! What a collector of OpenTelemetry is told.

mod facts;
mod metrics;
mod python;
mod secrets;
mod tracing;

use anyhow::Result;
use e2e::{Client, Cluster, Collector, Proxy, Setup};

/// A chain in which rule 7 sends reads to hostgroup 2, where only the second replica is.
fn with_rule_7(cluster: &Cluster, collector: &Collector, more: &str) -> Result<Proxy> {
    with_rules(cluster, collector, more, "")
}

/// The same with settings of `session-commands`; rules answer PLEASE and NEVER.
fn with_rules(
    cluster: &Cluster,
    collector: &Collector,
    more: &str,
    session_commands: &str,
) -> Result<Proxy> {
    let replica = cluster.addresses.last().expect("there are several");
    let text = format!(
        "[otlp]\nendpoint = \"{url}\"\nbatch_delay = \"10ms\"\n{more}\n\
         [[server]]\nhostgroup = 2\naddress = \"{replica}\"\nname = \"replica2\"\n\
         [chain.main]\nsession = [\n{{ use = \"parse\" }},\n\
         {{ use = \"rules\", rules = [{{ rule_id = 7, match_digest = \"^SELECT\", \
         destination_hostgroup = 2, apply = true }}, \
         {{ rule_id = 8, match_pattern = \"^PLEASE\", OK_msg = \"yes\" }}, \
         {{ rule_id = 9, match_pattern = \"^NEVER\", error_msg = \"no\" }}] }},\n\
         {{ use = \"session-commands\"{comma} {session_commands} }},\n{{ use = \"route\" }},\n]\n\
         backend = [{{ use = \"catch-up\" }}]\n",
        url = collector.url(),
        comma = if session_commands.is_empty() { "" } else { "," },
    );
    Setup::of(cluster).append(&text).start()
}

/// A text whose comment names this parent.
fn child_of(parent: &str, text: &str) -> String {
    format!("{text} /*traceparent='{parent}'*/")
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ends the proxy, so that all has been told.
fn end(mut proxy: Proxy, client: Client) -> Result<Proxy> {
    client.quit()?;
    proxy.signal("TERM")?;
    proxy.ended()?;
    Ok(proxy)
}
