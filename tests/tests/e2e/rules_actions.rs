//! What rules do beyond routing, on real servers: killing, copying, labels by weight.

use anyhow::{Result, ensure};
use e2e::{Cluster, Proxy, Setup, Throwaway, client::Reply, wait};

on_both_vendors!(
    a_statement_that_runs_out_of_time_is_killed,
    a_copy_goes_to_another_hostgroup,
    labels_by_weight,
);

fn with_rules(cluster: &Cluster, rules: &str) -> Result<Proxy> {
    let chain = format!(
        "[chain.main]\nsession = [\n{{ use = \"parse\" }},\n{{ use = \"rules\", rules = [{rules}] }},\n\
         {{ use = \"route\" }},\n]\n"
    );
    Setup::of(cluster).append(&chain).start()
}

/// As servers answer a SLEEP that was killed: an error, or 1.
fn was_killed(reply: &Reply, capabilities: wire::Capabilities) -> bool {
    let value = reply.rows(capabilities).ok().and_then(|rows| rows.into_iter().next()?.remove(0));
    // MySQL says 3024 where it has ended a SELECT by itself, which nobody asks it to.
    reply.error_code() == Some(1317) || value.as_deref() == Some("1")
}

fn a_statement_that_runs_out_of_time_is_killed(cluster: &Cluster) -> Result<()> {
    let rules = "{ rule_id = 1, match_pattern = 'briefly', timeout = 100 }, \
                 { rule_id = 2, match_pattern = 'after all', timeout = 3600000 }";
    let proxy = with_rules(cluster, rules)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let reply = client.query("SELECT SLEEP(3600) /* briefly */")?;
    ensure!(was_killed(&reply, client.capabilities), "{reply:?}");
    let statement = client.prepare("SELECT SLEEP(3600) /* briefly */ AS s")?;
    let reply = client.execute(&statement, 0, &[])?;
    let one = reply.packets().iter().any(|packet| packet.starts_with(&[0, 0, 1, 0, 0, 0]));
    ensure!(reply.error_code() == Some(1317) || one, "{reply:?}");
    for still in ["SELECT SLEEP(0.3)", "SELECT SLEEP(0.3) /* briefly after all */"] {
        ensure!(client.rows(still)? == [[Some("0".to_owned())]], "{still}");
    }
    // nothing of it runs on
    let running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%briefly%' \
                   AND ID <> CONNECTION_ID()";
    wait::until("their ends", || Ok((cluster.ask(running)? == "0").then_some(())))?;
    client.quit()
}

/// A server of hostgroup 8 gets copies of what it should and nothing else, and its answers reach
/// nobody.
fn a_copy_goes_to_another_hostgroup(cluster: &Cluster) -> Result<()> {
    let mirror = Throwaway::start(cluster.vendor)?;
    let server =
        format!("[[server]]\nhostgroup = 8\naddress = {:?}\n", mirror.cluster.addresses[0]);
    let chain = "[chain.main]\nsession = [\n{ use = \"parse\" },\n{ use = \"rules\", rules = [\n\
                 { rule_id = 1, match_pattern = 'copied', mirror_hostgroup = 8 },\n\
                 { rule_id = 2, match_pattern = 'otherwise', mirror_hostgroup = 8, mirror_flagOUT = 9 },\n\
                 { rule_id = 3, flagIN = 9, match_pattern = 'otherwise', replace_pattern = 'like this' },\n\
                 ] },\n\
                 { use = \"route\" },\n]\n";
    let proxy = Setup::of(cluster).append(&server).append(chain).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'kept here'")?;
    let reply = client.query("SELECT 'copied', @@port")?;
    let direct = cluster.direct()?.query("SELECT 'copied', @@port")?;
    ensure!(reply.raw == direct.raw, "the original's own reply");
    let missing = client.query("SELECT copied FROM nosuch.nosuch")?;
    ensure!(missing.error_code() == Some(1146) || missing.error_code() == Some(1049));
    ensure!(client.rows("SELECT 'otherwise'")? == [[Some("otherwise".to_owned())]]);
    client.must("SELECT 'the last one'")?;
    let answered = "towpath_mirrored_total{outcome=\"answered\"} 3";
    wait::until("the copies", || Ok(proxy.get("/metrics")?.contains(answered).then_some(())))?;
    ensure!(mirror.times_given("SELECT 'copied', @@port")? == 1);
    ensure!(mirror.times_given("SELECT copied FROM nosuch.nosuch")? == 1);
    ensure!(mirror.times_given("SELECT 'like this'")? == 1);
    ensure!(mirror.times_given("otherwise")? == 0);
    ensure!(mirror.times_given("kept here")? + mirror.times_given("the last one")? == 0);
    client.quit()
}

fn labels_by_weight(cluster: &Cluster) -> Result<()> {
    let rules = "{ rule_id = 1, match_digest = '^SELECT', attributes = \
                 '{\"flagOUTs\": [{\"id\": 5, \"weight\": 1}, {\"id\": 6, \"weight\": 1}]}' }, \
                 { rule_id = 2, flagIN = 5, OK_msg = 'five' }, \
                 { rule_id = 3, flagIN = 6, error_msg = 'six' }";
    let proxy = with_rules(cluster, rules)?;
    let mut client = proxy.connect(&cluster.login("app"))?;
    let (mut five, mut six) = (0, 0);
    for _ in 0..60 {
        match client.query("SELECT 1")?.error_code() {
            None => five += 1,
            Some(1148) => six += 1,
            other => anyhow::bail!("{other:?}"),
        }
    }
    ensure!(five > 0 && six > 0, "{five} and {six}");
    client.quit()
}
