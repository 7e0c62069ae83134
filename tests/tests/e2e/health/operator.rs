//! An operator's word: in the file, and by the admin port.

use super::{Bed, CHAIN, CLUSTER, MONITOR, error, server_id};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, wait};
use serde_json::Value;
use wire::CommandCode;

on_both_vendors!(
    offline_soft_lets_things_end,
    offline_hard_cuts_everything,
    a_word_that_makes_no_sense,
);

impl Bed {
    fn order(&self, at: usize, state: &str) -> Result<()> {
        let path = format!("/servers/{}/state", self.cluster().addresses[at]);
        let (status, body) = self.proxy.post(&path, &format!("{{\"state\": {state:?}}}"))?;
        ensure!(status == 200, "{status} {body}");
        let answer: Value = serde_json::from_str(&body)?;
        ensure!(answer[0]["state"] == state, "{body}");
        Ok(())
    }
}

fn offline_soft_lets_things_end(cluster: &Cluster) -> Result<()> {
    let bed = Bed::with(cluster.vendor, "1", &[CLUSTER, MONITOR, CHAIN], "500ms")?;
    let mut open = bed.connect()?;
    open.must("BEGIN")?;
    open.must("INSERT INTO cluster_ready VALUES (2)")?;
    let mut idle = bed.connect()?;
    idle.must("SELECT 1")?;
    bed.order(0, "offline-soft")?;
    bed.has_told(0, "online", "offline-soft", "operator")?;
    // what has begun goes on
    open.must("INSERT INTO cluster_ready VALUES (3)")?;
    open.must("COMMIT")?;
    // nothing begins
    let mut fresh = bed.proxy.connect(&bed.cluster().login("app"))?;
    for client in [&mut open, &mut idle, &mut fresh] {
        let text = error(client, "SELECT 1")?;
        ensure!(text.contains("ERR 9001") && text.contains("OFFLINE_SOFT"), "{text}");
    }
    wait::until("no connection to be left", || {
        let sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'";
        Ok((bed.cluster().ask(sql)? == "0").then_some(()))
    })?;
    // a command that waits is served when the word is taken back
    bed.order(0, "online")?;
    for client in [&mut open, &mut idle, &mut fresh] {
        client.must("SELECT 1")?;
    }
    ensure!(bed.cluster().ask("SELECT COUNT(*) FROM app.cluster_ready")? == "3");
    Ok(())
}

fn offline_hard_cuts_everything(cluster: &Cluster) -> Result<()> {
    let forwarded = "[[listener]]\naddress = '127.0.0.1:0'\nchain = 'raw'\nlogin = 'untouched'\n\
                     hostgroup = 0\n[chain.raw]\nsession = [{ use = 'fast-forward', always = true }]";
    let bed = Bed::with(cluster.vendor, "1", &[CLUSTER, MONITOR, forwarded, CHAIN], "500ms")?;
    let status: Value = serde_json::from_str(&bed.proxy.get("/status")?)?;
    let raw = status["listeners"].as_array().and_then(|all| all.last()).cloned();
    let raw = raw.unwrap_or_default()["address"].as_str().unwrap_or_default().to_owned();

    let mut running = bed.connect()?;
    running.must("SELECT 1")?;
    running.send_command(CommandCode::QUERY, b"SELECT SLEEP(100)")?;
    let mut open = bed.connect()?;
    open.must("BEGIN")?;
    open.must("INSERT INTO cluster_ready VALUES (2)")?;
    let mut idle = bed.connect()?;
    idle.must("SET @kept = 1")?;
    let mut untouched = Client::connect(&raw, &bed.login())?;
    untouched.must("SELECT 1")?;
    wait::until("the statement to run", || {
        let sql =
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'";
        Ok((bed.cluster().ask(sql)? == "1").then_some(()))
    })?;
    bed.order(0, "offline-hard")?;
    let reply = running.receive(CommandCode::QUERY)?;
    ensure!(reply.error_code() == Some(9007), "{:?}", reply.error());
    // told once, and then its session has ended
    let told = error(&mut open, "COMMIT");
    ensure!(told.is_err() || told.is_ok_and(|text| text.contains("ERR 9007")));
    ensure!(open.query("SELECT 1").is_err(), "a session went on without its transaction");
    ensure!(untouched.query("SELECT 1").is_err(), "a forwarded session went on");
    // an idle one has lost nothing that its log does not have
    let text = error(&mut idle, "SELECT @kept")?;
    ensure!(text.contains("ERR 9001") && text.contains("OFFLINE_HARD"), "{text}");
    // its statement is killed, its transaction rolled back
    wait::until("no connection to be left", || {
        let sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'";
        Ok((bed.cluster().ask(sql)? == "0").then_some(()))
    })?;
    ensure!(bed.cluster().ask("SELECT COUNT(*) FROM app.cluster_ready")? == "1");
    bed.order(0, "online")?;
    ensure!(idle.rows("SELECT @kept")? == [[Some("1".to_owned())]]);
    let mut fresh = bed.connect()?;
    ensure!(server_id(&mut fresh, "")? == "1");
    Client::connect(&raw, &bed.login())?.quit()
}

fn a_word_that_makes_no_sense(cluster: &Cluster) -> Result<()> {
    let soft = "state = 'offline-soft'";
    let proxy = e2e::Setup::of(cluster).server(soft).start()?;
    let name = &cluster.addresses[0];
    let report = super::report(&proxy, name)?;
    ensure!(report["state"] == "offline-soft", "the file's word: {report:#}");
    for (path, body, status, says) in [
        (format!("/servers/{name}/state"), "{\"state\": \"gone\"}", 400, "offline-hard"),
        (format!("/servers/{name}/state"), "state=online", 400, "online"),
        ("/servers/nobody/state".to_owned(), "{\"state\": \"online\"}", 404, name.as_str()),
    ] {
        let (got, text) = proxy.post(&path, body)?;
        ensure!(got == status && text.contains("error") && text.contains(says), "{got} {text}");
    }
    ensure!(super::report(&proxy, name)?["state"] == "offline-soft");
    let (status, _) = proxy.post(&format!("/servers/{name}/state"), "{\"state\": \"online\"}")?;
    ensure!(status == 200);
    proxy.connect(&cluster.admin())?.quit()
}
