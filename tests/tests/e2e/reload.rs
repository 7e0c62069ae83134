//! Another configuration, another process: what a reload changes and what it leaves alone.

mod ending;
mod load;
mod servers;
mod sessions;
mod sysbench;
mod taking_over;
mod watching;

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, Setup, wait};
use std::net::TcpListener;

on_both_vendors!(
    a_bad_file_changes_nothing,
    what_cannot_be_had_changes_nothing,
    listeners_come_and_go,
    users_come_and_go,
    limits_hold_at_once,
    what_needs_a_restart_is_said,
);

/// The command line's `reload` and `drain` of the proxy; the exit code and what it printed.
fn order(proxy: &Proxy, name: &str) -> Result<(Option<i32>, String)> {
    let program = std::env::var_os("TOWPATH_BIN").map(std::path::PathBuf::from);
    let program = match program {
        Some(program) => program,
        None => std::fs::read_link(format!("/proc/{}/exe", proxy.pid()))?,
    };
    let mut command = std::process::Command::new(program);
    let output = command.args([name, "--admin", &proxy.admin.to_string()]).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

/// The number of the server that answers.
fn server(client: &mut Client, sql: &str) -> Result<String> {
    let rows = client.rows(sql)?;
    rows.into_iter().flatten().next().flatten().context("no row")
}

fn serves(proxy: &Proxy, login: &Login) -> Result<()> {
    let mut client = proxy.connect(login)?;
    client.must("SELECT 1")?;
    client.quit()
}

fn with_user(text: String) -> String {
    text + "[[user]]\nname = \"guest\"\npassword = \"first\"\nhostgroup = 0\n\
            backend_user = \"admin\"\nbackend_password = \"ADMIN\"\n"
}

/// Adds the user `guest`, whom servers know as the account with all privileges.
fn add_guest(cluster: &Cluster, proxy: &Proxy) -> Result<()> {
    let (_, password) = cluster.users.iter().find(|(name, _)| name == "admin").context("admin")?;
    proxy.edit(|text| with_user(text).replace("ADMIN", password))
}

fn a_bad_file_changes_nothing(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let good = std::fs::read_to_string(proxy.config())?;
    add_guest(cluster, &proxy)?;
    proxy.edit(|text| {
        text.replace("[admin]", "[admin]\nadress = 1") + "hostgruop = 0\nweight = 'x'\n"
    })?;
    let (status, body) = proxy.post("/reload", "{}")?;
    ensure!(status == 422, "{status} {body}");
    let answer: serde_json::Value = serde_json::from_str(&body)?;
    let mistakes = answer["mistakes"].as_array().context("mistakes")?;
    ensure!(mistakes.len() >= 2, "all mistakes: {body}");
    ensure!(mistakes[0]["line"] == 2 && body.contains("did you mean `address`"), "{body}");
    ensure!(!body.contains("first"), "a password: {body}");
    proxy.signal("HUP")?;
    wait::until("SIGHUP to be refused", || {
        Ok(proxy.log().contains("asked_by\":\"SIGHUP").then_some(()))
    })?;
    ensure!(proxy.log().contains("not reloaded, nothing has changed"), "{}", proxy.log());
    let (code, text) = order(&proxy, "reload")?;
    ensure!(code == Some(1) && text.contains(":2:1: unknown key `adress`"), "{code:?} {text}");
    ensure!(proxy.connect(&Login::new("guest", "first")).is_err(), "the file was bad");
    client.must("SELECT 1")?;
    serves(&proxy, &cluster.admin())?;

    proxy.edit(|_| good)?;
    add_guest(cluster, &proxy)?;
    let (code, text) = order(&proxy, "reload")?;
    ensure!(code == Some(0) && text.contains("1 users added"), "{code:?} {text}");
    serves(&proxy, &Login::new("guest", "first"))?;
    client.quit()
}

fn what_cannot_be_had_changes_nothing(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?;
    let free = { TcpListener::bind("127.0.0.1:0")?.local_addr()? };
    add_guest(cluster, &proxy)?;
    proxy.edit(|text| {
        let listener = |at| format!("[[listener]]\naddress = \"{at}\"\nchain = \"main\"\n\n");
        listener(free) + &listener(address) + &text
    })?;
    let (status, body) = proxy.post("/reload", "{}")?;
    ensure!(status == 422 && body.contains(&format!("cannot listen on {address}")), "{body}");
    ensure!(std::net::TcpStream::connect(free).is_err(), "what was bound is closed again");
    ensure!(proxy.connect(&Login::new("guest", "first")).is_err(), "nothing has changed");
    serves(&proxy, &cluster.admin())?;
    drop(taken);
    proxy.reload()?;
    serves(&proxy, &Login::new("guest", "first"))?;
    Client::connect(&free.to_string(), &cluster.admin())?.quit()
}

fn listeners_come_and_go(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut early = proxy.connect(&cluster.admin())?;
    early.must("SET @early = 7")?;
    let socket = format!("unix:{}", proxy.socket.display());
    let mut local = Client::connect(&socket, &cluster.admin())?;
    let other = format!("unix:{}", proxy.file("other.sock").display());
    proxy.edit(|text| text.replace("proxy.sock", "other.sock"))?;
    let body = proxy.reload()?;
    let answer: serde_json::Value = serde_json::from_str(&body)?;
    ensure!(answer["listeners"]["added"] == 1 && answer["listeners"]["removed"] == 1, "{body}");
    Client::connect(&other, &cluster.admin())?.quit()?;
    wait::until("the listener to be closed", || Ok((!proxy.socket.exists()).then_some(())))?;
    ensure!(Client::connect(&socket, &cluster.admin()).is_err(), "it takes no more clients");
    let status = proxy.get("/status")?;
    ensure!(status.contains("other.sock") && !status.contains("proxy.sock"), "{status}");
    local.must("SELECT 1")?;
    local.quit()?;
    ensure!(server(&mut early, "SELECT @early")? == "7", "the session is the same");
    // The same address again, and TLS for those who come from now on.
    let (certificate, key) = cluster.certificates.of_server();
    let tls = format!("tls = {{ mode = 'require', certificate = {certificate:?}, key = {key:?} }}");
    let line = format!("address = {:?}\n", proxy.address);
    proxy.edit(|text| text.replace(&line, &format!("{line}{tls}\n")))?;
    proxy.reload()?;
    ensure!(proxy.connect(&cluster.admin()).is_err(), "TLS is required");
    serves(&proxy, &cluster.admin().tls())?;
    ensure!(server(&mut early, "SELECT @early")? == "7");
    early.quit()
}

fn users_come_and_go(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let (first, second) = (Login::new("guest", "first"), Login::new("guest", "second"));
    ensure!(proxy.connect(&first).is_err());
    add_guest(cluster, &proxy)?;
    proxy.reload()?;
    let mut early = proxy.connect(&first)?;
    early.must("SET @early = 7")?;
    proxy.edit(|text| {
        text.replace("\"first\"\nhostgroup = 0", "\"second\"\nmax_connections = 2\nhostgroup = 0")
    })?;
    proxy.reload()?;
    ensure!(proxy.connect(&first).is_err(), "the old password");
    let one_more = proxy.connect(&second)?;
    let refused = proxy.connect(&second).err().context("a third one")?.to_string();
    ensure!(refused.contains("1226"), "who was there before is counted: {refused}");
    one_more.quit()?;
    proxy.edit(|text| text.replace("\"guest\"", "\"somebody\""))?;
    proxy.reload()?;
    let refused = proxy.connect(&second).err().context("no such user")?.to_string();
    ensure!(refused.contains("1045"), "{refused}");
    ensure!(server(&mut early, "SELECT @early")? == "7", "who is there stays");
    early.quit()
}

fn limits_hold_at_once(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[limits]\nmax_connections = 3").start()?;
    let mut early = proxy.connect(&cluster.admin())?;
    let others = [proxy.connect(&cluster.admin())?, proxy.connect(&cluster.admin())?];
    let refused = |proxy: &Proxy| proxy.connect(&cluster.admin()).err().map(|e| e.to_string());
    ensure!(refused(&proxy).context("a fourth one")?.contains("1040"));
    proxy.edit(|text| text.replace("max_connections = 3", "max_connections = 4"))?;
    proxy.reload()?;
    let fourth = proxy.connect(&cluster.admin())?;
    ensure!(refused(&proxy).context("a fifth one")?.contains("1040"));
    let shorter = "max_connections = 2\nmax_allowed_packet = '2 KiB'";
    proxy.edit(|text| text.replace("max_connections = 4", shorter))?;
    proxy.reload()?;
    early.must("SELECT 1")?;
    for one in others.into_iter().chain([fourth]) {
        one.quit()?;
    }
    wait::until("room for one more", || Ok(proxy.connect(&cluster.admin()).ok()))?.quit()?;
    let long = format!("SELECT '{}'", "x".repeat(4096));
    ensure!(early.query(&long)?.error_code() == Some(1153), "for those who were there too");
    Ok(())
}

fn what_needs_a_restart_is_said(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let other = format!("\"{}\"", { TcpListener::bind("127.0.0.1:0")?.local_addr()? });
    let admin = format!("\"{}\"", proxy.admin);
    add_guest(cluster, &proxy)?;
    let more = "[log]\nlevel = 'debug'\n[otlp]\nendpoint = 'http://127.0.0.1:4317'\n[trace]\nratio = 0.5\n\
                [events]\nfile = 'events.jsonl'\n";
    proxy.edit(|text| text.replace(&admin, &other) + more)?;
    for _ in 0..2 {
        let answer: serde_json::Value = serde_json::from_str(&proxy.reload()?)?;
        let needs = ["[log] level and format", "[admin]", "[otlp]", "[trace]", "[events]"];
        let needs = serde_json::json!(needs);
        ensure!(answer["needs_restart"] == needs, "{answer}");
    }
    serves(&proxy, &Login::new("guest", "first")).context("the rest is in use")
}
