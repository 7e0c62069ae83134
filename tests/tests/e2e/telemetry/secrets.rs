//! No secret and no value of a statement comes out anywhere: spans, metrics, the log with its slow
//! commands, the log of events, the admin port and its page, the command line.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Collector, Login, Proxy, Setup, Throwaway, Vendor, wait};
use std::process::Command;
use wire::{Capabilities, CommandCode};

on_both_vendors!(no_secret_and_no_value_comes_out);

/// What must not be seen, in every form in which it is sent.
const MARK: &str = "s3cr3tMark";

/// The admin port's token.
const TOKEN: &str = "s3cr3tMark-of-the-admin-port";

const SETTINGS: &str = "metrics_interval = \"50ms\"
[trace]
ratio = 1.0
slow = \"1ms\"
level = \"debug\"
parents = [\"attributes\", \"comments\"]
[log]
level = \"debug\"
slow_queries = \"1ms\"
[events]
file = \"events.jsonl\"
commands = \"all\"";

const CHAIN: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'rules', rules = [{ rule_id = 7, match_digest = '^SELECT', cache_ttl = 60000, log = true }] },
  { use = 'hints', allow = ['hostgroup'] },
  { use = 'sticky' },
  { use = 'session-commands', mode = 'predict' },
  { use = 'cache' },
  { use = 'fast-forward' },
  { use = 'route', policy = 'hostgroup' },
]
backend = [{ use = 'catch-up' }]";

fn no_secret_and_no_value_comes_out(cluster: &Cluster) -> Result<()> {
    // Accounts and passwords of servers that others use are left alone.
    let server = Throwaway::start(cluster.vendor)?;
    let here = &server.cluster;
    let login = marked_login(here)?;
    let collector = Collector::start()?;
    let otlp = format!(
        "[otlp]\nendpoint = \"{}\"\nbatch_delay = \"10ms\"\n{SETTINGS}\n{CHAIN}",
        collector.url()
    );
    let mut proxy = Setup::of(here)
        .admin(&format!("digests = 1000\ntoken = {TOKEN:?}"))
        .user(&login.user, &login.password)
        .append(&otlp)
        .start()?;
    let mut client = proxy.connect(&login)?;
    for _ in 0..6 {
        // so often that replies to session commands are known
        let mut other = proxy.connect(&login)?;
        statements(&mut other, here)?;
        other.quit()?;
    }
    statements(&mut client, here)?;
    commands(&mut client)?;
    attributes(&proxy, &login)?;
    logins(&proxy, here)?;
    // As long as the session is there.
    client.must(&format!("SET @kept = '{MARK}'"))?;
    wait::until("metrics", || Ok((!collector.metrics().is_empty()).then_some(())))?;
    let answers = answers(&proxy)? + &orders(&proxy)? + &command_line(&proxy)?;
    client.quit()?;
    proxy.signal("TERM")?;
    proxy.ended()?;
    let events = std::fs::read_to_string(proxy.file("events.jsonl"))?;
    ensure!(collector.spans().len() > 100, "{} spans", collector.spans().len());
    ensure!(events.lines().count() > 100, "{events}");
    let log = proxy.log();
    ensure!(log.contains("\"target\":\"slow\""), "no slow command in {log}");
    for (place, said) in
        [("answers", answers), ("log", log), ("events", events), ("spans", collector.everything())]
    {
        nothing_marked(place, &said)?;
    }
    Ok(())
}

fn nothing_marked(place: &str, said: &str) -> Result<()> {
    let hexadecimal: String = MARK.bytes().map(|byte| format!("{byte:02x}")).collect();
    let all = [MARK.to_owned(), hexadecimal.to_uppercase(), hexadecimal];
    for mark in &all {
        if let Some(at) = said.find(mark) {
            let from = (0..=at.saturating_sub(300)).rev().find(|at| said.is_char_boundary(*at));
            anyhow::bail!("{place}: {}", &said[from.unwrap_or(0)..at + mark.len()]);
        }
    }
    Ok(())
}

/// An account of the server's whose password is marked.
fn marked_login(here: &Cluster) -> Result<Login> {
    let password = format!("{MARK}-login");
    let mut direct = here.direct()?;
    direct.must(&format!("CREATE USER secretive IDENTIFIED BY '{password}'"))?;
    direct.must("GRANT ALL ON *.* TO secretive")?;
    let attributes = [("program_name", MARK), (MARK, "token")];
    let login = Login::new("secretive", &password).attributes(&attributes);
    Ok(login.with(Capabilities::MULTI_STATEMENTS))
}

fn statements(client: &mut Client, here: &Cluster) -> Result<()> {
    let new_password = match here.vendor {
        Vendor::MariaDb => format!("PASSWORD('{MARK}pw')"),
        Vendor::MySql => format!("'{MARK}pw'"),
    };
    let hexadecimal: String = MARK.bytes().map(|byte| format!("{byte:02x}")).collect();
    for text in [
        format!("CREATE USER telemetry IDENTIFIED BY '{MARK}create'"),
        format!("SET PASSWORD FOR telemetry = {new_password}"),
        format!("ALTER USER telemetry IDENTIFIED BY '{MARK}alter'"),
        format!("CREATE USER unfinished IDENTIFIED BY '{MARK}"),
        format!("CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (PASSWORD '{MARK}')"),
        format!("CHANGE MASTER TO MASTER_PASSWORD = '{MARK}'"),
        format!("SELECT '{MARK}', \"{MARK}\", N'{MARK}', _utf8mb4'{MARK}'"),
        format!("SELECT x'{hexadecimal}', 0x{hexadecimal}"),
        format!("SELECT SLEEP(0.01), '{MARK}' /* {MARK} */ -- {MARK}"),
        format!("SELECT SLEEP(0.01) # {MARK}"),
        format!("SET @a = '{MARK}'"),
        format!("SET @a = '{MARK}', @b = \"{MARK}\""),
        format!("PREPARE p FROM 'SELECT ''{MARK}'''"),
        "EXECUTE p".to_owned(),
        format!("SELECT 1; SELECT '{MARK}'"),
        format!("SELECT '{MARK}' FROM no_schema.no_table"),
        format!("SELECT '{MARK} left open"),
        format!("INSERT INTO no_schema.t VALUES ('{MARK}')"),
        format!("SELECT CAST('{MARK}' AS NO_SUCH_TYPE)"),
        format!("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{MARK}'"),
        format!("SELECT 1 /*traceparent='{MARK}'*/"),
        format!("/* hostgroup={MARK} */ SELECT 1"),
        format!("SELECT '{MARK}' INTO @b"),
        "DROP USER telemetry".to_owned(),
    ] {
        // Whether the server takes it is not the question.
        client.query(&text)?;
    }
    client.must("SELECT 1").map(drop)
}

/// Commands with values beside a text.
fn commands(client: &mut Client) -> Result<()> {
    let prepared = client.prepare(&format!("SELECT ?, '{MARK}'"))?;
    client.execute(&prepared, 0, &[Some(MARK.as_bytes())])?;
    client.long_data(&prepared, 0, MARK.as_bytes())?;
    client.execute_with_long_data(&prepared)?;
    client.close_statement(&prepared)?;
    client.command(CommandCode::INIT_DB, format!("no_{MARK}").as_bytes()).map(drop)
}

/// Attributes of queries, which MySQL has.
fn attributes(proxy: &Proxy, login: &Login) -> Result<()> {
    let mut client = proxy.connect(&login.clone().with(Capabilities::QUERY_ATTRIBUTES))?;
    if !client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
        return Ok(());
    }
    let value = format!("00-{MARK}-{MARK}-01");
    for name in ["traceparent", MARK] {
        let mut body = vec![1, 1, 0, 1, 0xFD, 0x00, u8::try_from(name.len())?];
        body.extend(name.as_bytes());
        body.push(u8::try_from(value.len())?);
        body.extend(value.as_bytes());
        body.extend(b"SELECT SLEEP(0.01)");
        ensure!(client.command(CommandCode::QUERY, &body)?.error_code().is_none());
    }
    client.quit()
}

/// Logins that fail, and a change of user.
fn logins(proxy: &Proxy, here: &Cluster) -> Result<()> {
    let wrong = |name: &str| Login::new(name, &format!("{MARK}wrong"));
    ensure!(proxy.connect(&wrong("admin")).is_err());
    ensure!(proxy.connect(&wrong("nobody")).is_err());
    let mut client = proxy.connect(&here.admin())?;
    ensure!(client.change_user(&wrong("secretive")).is_err());
    let login = Login::new("secretive", &format!("{MARK}-login"));
    let mut client = proxy.connect(&here.admin())?;
    client.change_user(&login.attributes(&[(MARK, MARK)]))?;
    client.must("SELECT 1")?;
    client.quit()
}

/// Whatever the admin port shows.
fn answers(proxy: &Proxy) -> Result<String> {
    let token = format!("Authorization: Bearer {TOKEN}");
    let get = |path: &str| -> Result<String> {
        let (status, head, body) = proxy.request("GET", path, &[&token], "")?;
        ensure!(status == 200 || status == 503, "{path}: {status} {body}");
        Ok(head + &body)
    };
    let (_, _, description) = proxy.request("GET", "/openapi.json", &[&token], "")?;
    let description: serde_json::Value = serde_json::from_str(&description)?;
    let (_, _, sessions) = proxy.request("GET", "/sessions", &[&token], "")?;
    let sessions: serde_json::Value = serde_json::from_str(&sessions)?;
    let id = sessions["sessions"][0]["id"].as_u64().context("a session")?.to_string();
    let mut all = get("/")? + &get("/page.js")?;
    for (path, methods) in description["paths"].as_object().context("no paths")? {
        // The stream has what the overview has.
        if methods.get("get").is_some() && !path.ends_with("/stream") {
            all += &get(&path.replace("{id}", &id))?;
        }
    }
    ensure!(all.contains("SELECT ?") && all.contains("secretive"), "something is shown: {all}");
    Ok(all)
}

/// What is answered to orders, to good ones and to others.
fn orders(proxy: &Proxy) -> Result<String> {
    let wrong = format!("Authorization: Bearer {TOKEN}5");
    let token = format!("Authorization: Bearer {TOKEN}");
    let json = "Content-Type: application/json";
    let mut all = String::new();
    let mut ask = |method: &str, path: &str, headers: &[&str], body: &str| -> Result<()> {
        let (_, head, body) = proxy.request(method, path, headers, body)?;
        all += &(head + &body);
        Ok(())
    };
    ask("GET", "/status", &[&wrong], "")?;
    ask("POST", "/reload", &[&wrong, json], "{}")?;
    proxy.edit(|text| {
        text.replace("[admin]", "[admin]\nadress = 1")
            .replace("password = \"s3cr3tMark", "pasword = \"s3cr3tMark")
    })?;
    ask("POST", "/reload", &[&token, json], "{}")?;
    proxy.edit(|text| text.replace("[admin]\nadress = 1", "[admin]"))?;
    ask("POST", "/reload", &[&token, json], "{}")?;
    proxy.edit(|text| text.replace("pasword = ", "password = "))?;
    ask("POST", "/reload", &[&token, json], "{}")?;
    ensure!(all.contains("mistakes"), "a bad file is refused: {all}");
    Ok(all)
}

fn command_line(proxy: &Proxy) -> Result<String> {
    let (program, admin) = (Proxy::program()?, proxy.admin.to_string());
    let mut all = String::new();
    for arguments in
        [&["status"][..], &["status", "--json"], &["sessions"], &["sessions", "--json"], &["top"]]
    {
        let mut command = Command::new(&program);
        command.args(arguments).args(["--admin", &admin]).env("TOWPATH_TOKEN", TOKEN);
        let output = command.output()?;
        all += &String::from_utf8_lossy(&[output.stdout, output.stderr].concat());
    }
    ensure!(all.contains("secretive"), "{all}");
    Ok(all)
}
