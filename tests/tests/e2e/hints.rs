//! Hints in statements to real servers.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Relay, Setup, client::Reply, transcript::same};
use wire::CommandCode;

on_both_vendors!(
    no_hint_is_ever_an_error,
    comments_are_sent_on_or_taken_out,
    a_statement_runs_out_of_the_time_that_it_asks_for,
    a_prepared_statement_keeps_its_time,
    a_copy_goes_to_the_mirror,
    what_is_ignored_is_told_once_without_its_value,
);

/// A proxy with these settings of the filter.
fn with_hints(cluster: &Cluster, settings: &str) -> Result<Proxy> {
    Setup::of(cluster).append(&chain(settings)).start()
}

fn chain(settings: &str) -> String {
    format!(
        "[chain.main]\nsession = [\n{{ use = \"parse\" }},\n{{ use = \"hints\", {settings} }},\n\
         {{ use = \"sticky\" }},\n{{ use = \"route\" }},\n]\n"
    )
}

fn no_hint_is_ever_an_error(cluster: &Cluster) -> Result<()> {
    for settings in ["strip = false", "strip = true", "allow = []"] {
        let proxy = with_hints(cluster, settings)?;
        same(cluster, &proxy, &cluster.admin(), |client, transcript| {
            for sql in [
                "/* sticky_backend=1 */ SELECT 1",
                "SELECT/* retries=1 */1",
                "SELECT 1 -- sticky_backend=7",
                "SELECT 1 # hostgroup=many",
                "/*;hostgroup=99;query_timeout=x*/ SELECT /*! 2 + */ 1",
                "SELECT 1 /*traceparent='nothing'*/",
                "-- maxscale route to nowhere\nSELECT 1",
                "SELECT '/* sticky_backend=1 */', \"# retries=1\"",
                "SELECT /* retries=1 */ nothing",
                "/* retries=1 */",
                "SET /* sticky_backend=1 */ @a = 1",
                "SET @towpath_sticky_backend = 1",
                "SELECT @towpath_sticky_backend",
                "SET @towpath_sticky_backend = 'x'",
                "BEGIN /* sticky_backend=2 */",
                "COMMIT -- sticky_backend=0",
            ] {
                transcript.add(sql, &client.query(sql)?);
            }
            let statement = client.prepare("SELECT ? /* retries=1 sticky_backend=1 */")?;
            transcript.add("prepare", &statement.reply);
            transcript.add("execute", &client.execute(&statement, 0, &[Some(b"a")])?);
            Ok(())
        })?;
    }
    Ok(())
}

fn comments_are_sent_on_or_taken_out(cluster: &Cluster) -> Result<()> {
    for strip in [false, true] {
        let relay = Relay::start(&cluster.addresses[0])?;
        let mut behind = cluster.clone();
        behind.addresses[0].clone_from(&relay.address);
        let proxy = with_hints(&behind, &format!("strip = {strip}"))?;
        let mut client = proxy.connect(&cluster.admin())?;
        let hint = "/* retries=1 */";
        client.must(&format!("{hint} SELECT 'a query' /* for people */"))?;
        let statement = client.prepare(&format!("SELECT 'prepared', ? {hint}"))?;
        client.execute(&statement, 0, &[Some(b"a")])?;
        client.quit()?;
        let sent: Vec<u8> = relay.passed().into_iter().flat_map(|passed| passed.client).collect();
        let times =
            |text: &str| sent.windows(text.len()).filter(|at| *at == text.as_bytes()).count();
        ensure!(times("SELECT 'a query' /* for people */") == 1, "the query as it is");
        ensure!(times("SELECT 'prepared', ?") == 1, "the statement as it is");
        ensure!(times(hint) == if strip { 0 } else { 2 }, "hints with strip = {strip}");
    }
    Ok(())
}

/// MariaDB says that the statement was interrupted; so does MySQL, but for SLEEP alone, which is 1.
fn must_be_killed(reply: &Reply, client: &Client) -> Result<()> {
    let killed = match reply.error_code() {
        Some(code) => code == 1317,
        None => reply.rows(client.capabilities)? == [[Some("1".to_owned())]],
    };
    ensure!(killed, "{:?}", reply.error());
    Ok(())
}

fn a_statement_runs_out_of_the_time_that_it_asks_for(cluster: &Cluster) -> Result<()> {
    let proxy = with_hints(cluster, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    let reply = client.query("SELECT /* timeout_ms=100 */ SLEEP(600)")?;
    must_be_killed(&reply, &client)?;
    client.must("SELECT 1 /* timeout_ms=60000 */")?;
    client.quit()
}

fn a_prepared_statement_keeps_its_time(cluster: &Cluster) -> Result<()> {
    let proxy = with_hints(cluster, "strip = true")?;
    let mut client = proxy.connect(&cluster.admin())?;
    let statement = client.prepare("SELECT /*;query_timeout=100*/ SLEEP(?)")?;
    for _ in 0..2 {
        let reply = client.execute(&statement, 0, &[Some(b"600")])?;
        let killed = reply.error_code().is_none_or(|code| code == 1317);
        ensure!(killed, "{:?}", reply.error());
    }
    client.quit()
}

fn a_copy_goes_to_the_mirror(cluster: &Cluster) -> Result<()> {
    let relay = Relay::start(&cluster.addresses[1])?;
    let mut behind = cluster.clone();
    behind.addresses.truncate(2);
    behind.addresses[1].clone_from(&relay.address);
    let proxy = with_hints(&behind, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'the copy' /*;mirror=1*/")?;
    client.must("SELECT 'no copy'")?;
    let arrived = |text: &str| {
        let sent = relay.passed().into_iter().flat_map(|passed| passed.client).collect::<Vec<u8>>();
        sent.windows(text.len()).any(|at| at == text.as_bytes())
    };
    e2e::wait::until("the copy at the mirror", || Ok(arrived("'the copy'").then_some(())))?;
    ensure!(!arrived("'no copy'"));
    client.command(CommandCode::PING, b"").context("the session goes on")?;
    client.quit()
}

fn what_is_ignored_is_told_once_without_its_value(cluster: &Cluster) -> Result<()> {
    let proxy = with_hints(cluster, "")?;
    let mut client = proxy.connect(&cluster.admin())?;
    for _ in 0..3 {
        client.must("SELECT 1 /* hostgroup=secret1 sticky_backend=secret2 */")?;
    }
    client.quit()?;
    let counted = "towpath_hints_ignored_total{chain=\"main\",key=\"hostgroup\"} 3";
    let metrics = proxy.get("/metrics")?;
    ensure!(metrics.contains(counted), "{metrics}");
    let log = proxy.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("hints are ignored")).collect();
    let [line] = lines[..] else { anyhow::bail!("{lines:?}") };
    ensure!(line.contains("sticky_backend, hostgroup"), "{line}");
    ensure!(line.contains("session") && !log.contains("secret"), "{line}");
    Ok(())
}
