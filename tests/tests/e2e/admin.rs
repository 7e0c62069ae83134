//! The admin port: what it shows, what it does, and for whom.

mod page;
mod tools;

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, wait};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

on_both_vendors!(
    sessions_and_what_they_hold,
    sessions_that_have_left_the_chain,
    a_session_is_ended,
    a_statement_is_ended,
    digests_are_counted,
    rules_and_counters,
    a_token_is_wanted,
    orders_in_another_form,
    the_description_is_complete,
    overviews_come_by_themselves,
    nothing_secret_is_shown,
);

/// Both hostgroups, and whatever shows something.
const CHAIN: &str = r#"[chain.main]
session = [
  { use = "parse" },
  { use = "rules", rules = [
    { rule_id = 7, match_digest = "^SELECT .* FROM t7", destination_hostgroup = 1, comment = "to replicas" },
    { rule_id = 8, match_pattern = "^LEAVE", attributes = { switch_to_fast_forward = true } },
  ] },
  { use = "hints", allow = ["hostgroup", "sticky_backend"] },
  { use = "sticky" },
  { use = "session-commands" },
  { use = "fast-forward" },
  { use = "route", policy = "hostgroup" },
]
backend = [{ use = "catch-up" }]"#;

pub(crate) fn start(cluster: &Cluster) -> Result<Proxy> {
    Setup::of(cluster).admin("digests = 100").append(CHAIN).start()
}

pub(crate) fn json(proxy: &Proxy, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&proxy.get(path)?)?)
}

/// The id by which others see this client.
fn id(client: &mut Client) -> Result<u64> {
    let rows = client.rows("SELECT CONNECTION_ID()")?;
    Ok(rows[0][0].as_deref().context("no id")?.parse()?)
}

fn sessions_and_what_they_hold(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let schema = cluster.schema()?;
    let mut idle = proxy.connect(&cluster.admin().schema(&schema.name))?;
    let mut busy = proxy.connect(&cluster.admin())?;
    busy.must("SET @a = 'x'")?;
    busy.must("/* sticky_backend=2 */ SELECT 1")?;
    busy.must("BEGIN")?;
    busy.must("SELECT 1")?;
    let (idle_id, busy_id) = (id(&mut idle)?, id(&mut busy)?);
    let all = json(&proxy, "/sessions")?;
    ensure!(all["total"] == 2, "{all}");
    let one = json(&proxy, &format!("/sessions/{busy_id}"))?;
    for (key, expected) in [
        ("user", Value::from(cluster.admin().user)),
        ("client", "127.0.0.1".into()),
        ("listener", proxy.address.clone().into()),
        ("chain", "main".into()),
        ("in_transaction", true.into()),
        ("fast_forward", false.into()),
        ("running", false.into()),
        ("schema", Value::Null),
        ("commands", 5.into()),
        ("sticky", "strict".into()),
    ] {
        ensure!(one[key] == expected, "{key} of {one}");
    }
    let first = &cluster.addresses[0];
    ensure!(one["connections"][0]["server"] == **first, "{one}");
    ensure!(one["connections"][0]["thread_id"].as_u64().is_some_and(|id| id > 0), "{one}");
    ensure!(one["sticky_servers"][0]["server"] == **first, "{one}");
    ensure!(one["log_entries"].as_u64() >= Some(1) && one["log_bytes"].as_u64() > Some(5), "{one}");
    let pins = json(&proxy, "/pins")?;
    let transactions = pins.as_array().context("a list")?.iter();
    let transactions = transactions.filter(|pin| pin["cause"] == "transaction");
    ensure!(transactions.map(|pin| &pin["sessions"]).eq([&Value::from(1)]), "{pins}");
    idle.must("CREATE TEMPORARY TABLE own (a INT)")?;
    let metrics = proxy.get("/metrics")?;
    for cause in ["a transaction", "a temporary table"] {
        let one = format!("towpath_sessions_pinned{{cause=\"{cause}\"}} 1\n");
        ensure!(metrics.contains(&one), "{metrics}");
    }
    idle.must("DROP TEMPORARY TABLE own")?;
    let only = json(&proxy, "/sessions?busy=true")?;
    ensure!(only["total"] == 1 && only["sessions"][0]["id"] == busy_id, "{only}");
    let other = json(&proxy, &format!("/sessions/{idle_id}"))?;
    ensure!(other["schema"] == *schema.name, "{other}");
    idle.must("USE information_schema")?;
    let other = json(&proxy, &format!("/sessions/{idle_id}"))?;
    ensure!(other["schema"] == "information_schema", "{other}");
    ensure!(json(&proxy, "/sessions?user=nobody")?["total"] == 0);
    ensure!(proxy.ask("/sessions?users=x")?.0 == 400);
    ensure!(proxy.ask("/sessions/1")?.0 == 404);
    busy.quit()?;
    wait::until("the session to be gone", || {
        Ok((json(&proxy, "/sessions")?["total"] == 1).then_some(()))
    })
}

fn sessions_that_have_left_the_chain(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let id = id(&mut client)?;
    ensure!(client.query("LEAVE")?.error_code().is_some());
    let one = json(&proxy, &format!("/sessions/{id}"))?;
    ensure!(one["fast_forward"] == true && one["connections"] == Value::Array(vec![]), "{one}");
    let (status, body) = proxy.post(&format!("/sessions/{id}/kill"), r#"{"what": "query"}"#)?;
    ensure!(status == 409, "{status} {body}");
    let (status, body) = proxy.post(&format!("/sessions/{id}/kill"), r#"{"what": "session"}"#)?;
    ensure!(status == 200, "{status} {body}");
    ensure!(client.query("SELECT 1").is_err());
    Ok(())
}

fn a_session_is_ended(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut sleeps = proxy.connect(&cluster.admin())?;
    let mut rests = proxy.connect(&cluster.admin())?;
    let ids = [id(&mut sleeps)?, id(&mut rests)?];
    let mark = format!("SELECT SLEEP(1000), 'ended-{}'", ids[0]);
    sleeps.send_command(wire::CommandCode::QUERY, mark.as_bytes())?;
    let runs = format!("/sessions/{}", ids[0]);
    wait::until("it to run", || Ok((json(&proxy, &runs)?["running"] == true).then_some(())))?;
    for id in ids {
        let (status, body) =
            proxy.post(&format!("/sessions/{id}/kill"), r#"{"what": "session"}"#)?;
        ensure!(status == 200, "{status} {body}");
    }
    ensure!(sleeps.receive(wire::CommandCode::QUERY).is_err());
    ensure!(rests.query("SELECT 1").is_err());
    // and what it ran is over on its server
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
         WHERE INFO LIKE '%ended-{}%' AND INFO LIKE 'SELECT SLEEP%'",
        ids[0]
    );
    wait::until("the statement's end", || Ok((cluster.ask(&sql)? == "0").then_some(())))?;
    let again = format!("/sessions/{}/kill", ids[0]);
    wait::until("nobody to be there", || {
        let (status, _) = proxy.post(&again, r#"{"what": "session"}"#)?;
        Ok((status == 404).then_some(()))
    })?;
    let log = proxy.log();
    ensure!(log.contains(&format!("/sessions/{}/kill", ids[0])), "who did what is in the log");
    Ok(())
}

fn a_statement_is_ended(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let id = id(&mut client)?;
    let order = || proxy.post(&format!("/sessions/{id}/kill"), r#"{"what": "query"}"#);
    let mine = format!("/sessions/{id}");
    // the client has its reply a little before the session rests
    wait::until("it to rest", || Ok((json(&proxy, &mine)?["running"] == false).then_some(())))?;
    ensure!(order()?.0 == 409, "it runs nothing");
    client.send_command(wire::CommandCode::QUERY, b"SELECT SLEEP(1000)")?;
    wait::until("it to be killed", || Ok((order()?.0 == 200).then_some(())))?;
    // SLEEP says 1, or the error 1317
    client.receive(wire::CommandCode::QUERY)?;
    client.must("SELECT 1")?;
    let wrong = proxy.post(&format!("/sessions/{id}/kill"), r#"{"what": "everything"}"#)?;
    ensure!(wrong.0 == 400, "{wrong:?}");
    Ok(())
}

fn digests_are_counted(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    for number in 0..5 {
        client.must(&format!("SELECT {number}, 'value-{number}'"))?;
    }
    ensure!(client.query("SELECT nothing_like_it")?.error_code() == Some(1054));
    let statement = client.prepare("SELECT ? AS prepared_one")?;
    client.execute(&statement, 0, &[])?;
    let digests = wait::until("all of them", || {
        let digests = json(&proxy, "/digests?by=calls&limit=10")?;
        Ok((digests.as_array().map(Vec::len) >= Some(3)).then_some(digests))
    })?;
    let first = &digests[0];
    ensure!(first["text"] == "SELECT ?,?" && first["calls"] == 5, "{digests}");
    ensure!(first["user"] == cluster.admin().user && first["hostgroup"] == 0, "{digests}");
    ensure!(first["errors"] == 0 && first["seconds"].as_f64() > Some(0.0), "{digests}");
    ensure!(first["p99_seconds"].as_f64() <= first["longest_seconds"].as_f64(), "{digests}");
    ensure!(first["digest"].as_str().is_some_and(|hash| hash.starts_with("0x")), "{digests}");
    let failed = json(&proxy, "/digests?by=errors&limit=1")?;
    ensure!(failed[0]["errors"] == 1 && failed[0]["text"] == "SELECT nothing_like_it", "{failed}");
    ensure!(!digests.to_string().contains("value-"), "{digests}");
    let (status, body) = proxy.post("/digests/reset", "{}")?;
    ensure!(status == 200, "{status} {body}");
    ensure!(json(&proxy, "/digests")? == Value::Array(vec![]));
    // what has no room is counted together
    let small = Setup::of(cluster).admin("digests = 16").append(CHAIN).start()?;
    let mut client = small.connect(&cluster.admin())?;
    for number in 0..200 {
        client.must(&format!("SELECT 1 AS column_{number}"))?;
    }
    let digests = json(&small, "/digests?limit=1000")?;
    let digests = digests.as_array().context("a list")?;
    ensure!(digests.len() <= 17, "{}", digests.len());
    let calls = digests.iter().filter_map(|digest| digest["calls"].as_u64());
    ensure!(calls.sum::<u64>() >= 200);
    ensure!(digests.iter().any(|digest| digest["digest"] == ""));
    let off = Proxy::start(cluster)?;
    ensure!(off.ask("/digests")?.0 == 409);
    Ok(())
}

fn rules_and_counters(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    for _ in 0..3 {
        client.query("SELECT 1 FROM t7")?;
    }
    client.must("/* hostgroup=1 */ SELECT 2")?;
    let rules = json(&proxy, "/rules")?;
    ensure!(
        rules[0]["rule_id"] == 7 && rules[0]["hits"] == 3 && rules[0]["chain"] == "main",
        "{rules}"
    );
    ensure!(rules[0]["rule"]["comment"] == "to replicas", "{rules}");
    ensure!(rules[1]["rule_id"] == 8 && rules[1]["hits"] == 0, "{rules}");
    let chains = json(&proxy, "/chains")?;
    let names = chains[0]["filters"].as_array().context("a list")?.iter();
    let names: Vec<_> = names.filter_map(|filter| filter["name"].as_str()).collect();
    let expected = [
        "parse",
        "rules",
        "hints",
        "sticky",
        "session-commands",
        "fast-forward",
        "route",
        "catch-up",
    ];
    ensure!(names == expected, "{names:?}");
    times(&chains[0])?;
    let counters = json(&proxy, "/counters")?;
    let hints = counters.as_array().context("a list")?.iter().find(|one| one["name"] == "hints");
    ensure!(hints.is_some_and(|hints| hints["filter"] == "hints"), "{counters}");
    let pools = json(&proxy, "/pools")?;
    ensure!(pools[0]["attached"] == 0 && pools[0]["max_connections"] == 1000, "{pools}");
    let all = pools.as_array().context("a list")?;
    ensure!(all.len() == cluster.addresses.len(), "{pools}");
    let sum = |key: &str| all.iter().filter_map(|pool| pool[key].as_u64()).sum::<u64>();
    ensure!(sum("answered") == 4 && sum("attached") == 1 && sum("commands") >= 4, "{pools}");
    Ok(())
}

/// Something is known of each filter's time, and of what is below them.
fn times(chain: &Value) -> Result<()> {
    let mut all = 0.0;
    for filter in chain["filters"].as_array().context("a list")? {
        let time = &filter["time"];
        ensure!(time["commands"].as_u64() > Some(0), "{filter}");
        all += time["seconds"].as_f64().context("a time")?;
    }
    let servers = chain["servers"]["seconds"].as_f64().context("a time")?;
    ensure!(all > 0.0 && servers > 0.0, "{chain}");
    ensure!(chain["dispatch"]["seconds"].as_f64() > Some(0.0), "a login: {chain}");
    Ok(())
}

fn a_token_is_wanted(cluster: &Cluster) -> Result<()> {
    const TOKEN: &str = "a-token-of-the-tests-1234";
    let proxy = Setup::of(cluster).admin(&format!("token = {TOKEN:?}")).start()?;
    let right = format!("Authorization: Bearer {TOKEN}");
    let wrong = format!("Authorization: Bearer {TOKEN}5");
    let json_type = "Content-Type: application/json";
    for path in ["/status", "/metrics", "/sessions", "/overview", "/overview/stream", "/nowhere"] {
        for headers in [&[][..], &[wrong.as_str()][..]] {
            let (status, head, body) = proxy.request("GET", path, headers, "")?;
            ensure!(status == 401, "{path}: {status} {body}");
            ensure!(head.to_lowercase().contains("www-authenticate: bearer"), "{head}");
        }
    }
    for path in
        ["/", "/page.js", "/draw.js", "/page.css", "/icon.svg", "/openapi.json", "/live", "/ready"]
    {
        ensure!(proxy.ask(path)?.0 == 200, "{path}");
    }
    ensure!(proxy.request("GET", "/status", &[&right], "")?.0 == 200);
    ensure!(proxy.request("GET", "/status", &["Host: proxy.example", &right], "")?.0 == 200);
    let path = format!("/servers/{}/state", cluster.addresses[0]);
    let state = r#"{"state": "online"}"#;
    ensure!(proxy.request("POST", &path, &[json_type], state)?.0 == 401);
    ensure!(proxy.request("POST", &path, &[json_type, &right], state)?.0 == 200);
    let log = proxy.log();
    ensure!(log.contains("admin: refused") && log.contains("admin: an order"), "{log}");
    ensure!(!log.contains(TOKEN), "{log}");
    Ok(())
}

fn orders_in_another_form(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let path = format!("/servers/{}/state", cluster.addresses[0]);
    let json_type = "Content-Type: application/json";
    let state = r#"{"state": "online"}"#;
    ensure!(proxy.request("POST", &path, &[], state)?.0 == 415);
    ensure!(proxy.request("POST", &path, &["Content-Type: text/plain"], state)?.0 == 415);
    let made = ["Host: evil.example", json_type];
    ensure!(proxy.request("POST", &path, &made, state)?.0 == 403);
    ensure!(proxy.request("GET", "/status", &["Host: evil.example"], "")?.0 == 403);
    ensure!(proxy.request("POST", "/status", &[json_type], "{}")?.0 == 405);
    ensure!(proxy.request("GET", &path, &[], "")?.0 == 405);
    ensure!(proxy.request("DELETE", "/sessions", &[], "")?.0 == 405);
    ensure!(proxy.request("GET", "/nowhere", &[], "")?.0 == 404);
    Ok(())
}

fn the_description_is_complete(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 1")?;
    let id = id(&mut client)?;
    let description = json(&proxy, "/openapi.json")?;
    let paths = description["paths"].as_object().context("no paths")?;
    for (path, methods) in paths {
        let there = path.replace("{id}", &id.to_string());
        if there.contains("/stream") || methods.get("get").is_none() {
            continue;
        }
        let (status, head, body) = proxy.request("GET", &there, &[], "")?;
        ensure!(status == 200, "{path}: {status} {body}");
        let content = methods["get"]["responses"]["200"]["content"].as_object();
        let (kind, content) =
            content.and_then(|content| content.iter().next()).context("no type")?;
        ensure!(head.to_lowercase().contains(kind), "{path} is not {kind}: {head}");
        if kind == "application/json" {
            let body = serde_json::from_str(&body)?;
            fits(&description, &content["schema"], &body).with_context(|| path.clone())?;
        }
    }
    Ok(())
}

/// Whether a value has the keys that its type must have, and no others.
fn fits(description: &Value, schema: &Value, value: &Value) -> Result<()> {
    let mut schema = schema;
    while let Some(name) = schema["$ref"].as_str() {
        schema = description.pointer(&name[1..]).context("a type that is not there")?;
    }
    if let Some(items) = value.as_array() {
        return items.iter().try_for_each(|item| fits(description, &schema["items"], item));
    }
    let (Some(properties), Some(keys)) = (schema["properties"].as_object(), value.as_object())
    else {
        return Ok(());
    };
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        ensure!(keys.contains_key(key), "{key} is missing in {value}");
    }
    for (key, value) in keys {
        let property = properties.get(key).with_context(|| format!("{key} is not described"))?;
        fits(description, property, value)?;
    }
    Ok(())
}

/// The next overview of a stream.
fn event(stream: &mut impl BufRead) -> Result<Value> {
    let mut line = String::new();
    loop {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data:") {
            return Ok(serde_json::from_str(data.trim())?);
        }
    }
}

fn overviews_come_by_themselves(cluster: &Cluster) -> Result<()> {
    let mut proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let mut stream = TcpStream::connect(proxy.admin)?;
    stream.set_read_timeout(Some(wait::LIMIT))?;
    let request = format!("GET /overview/stream HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.admin);
    stream.write_all(request.as_bytes())?;
    let mut stream = BufReader::new(stream);
    let first = event(&mut stream)?;
    client.must("SELECT 1")?;
    let second = event(&mut stream)?;
    for overview in [&first, &second] {
        ensure!(overview["status"]["state"] == "running", "{overview}");
        ensure!(overview["sessions"]["total"] == 1 && overview["digests"].is_array(), "{overview}");
    }
    ensure!(second["unix_time"].as_f64() > first["unix_time"].as_f64());
    // it ends with the process
    client.quit()?;
    proxy.signal("TERM")?;
    while event(&mut stream).is_ok() {}
    ensure!(proxy.ended()?.success());
    Ok(())
}

fn nothing_secret_is_shown(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster)
        .admin("digests = 100")
        .user("nobody", "marked-password")
        .append(CHAIN)
        .start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    for text in [
        "SELECT 'marked-literal', 0x6D61726B6564",
        "SET @v = 'marked-variable'",
        "SET PASSWORD FOR nobody_such@localhost = 'marked-word'",
        "CREATE USER 'nobody such'@'%' IDENTIFIED BY 'marked-word' REQUIRE X",
        "SELECT 'marked-open",
    ] {
        client.query(text)?;
    }
    let statement = client.prepare("SELECT 'marked-prepared'")?;
    client.execute(&statement, 0, &[])?;
    let description = json(&proxy, "/openapi.json")?;
    for (path, methods) in description["paths"].as_object().context("no paths")? {
        if methods.get("get").is_some() && !path.contains("stream") && !path.contains('{') {
            let body = proxy.get(path)?;
            ensure!(!body.contains("marked"), "{path}: {body}");
        }
    }
    let passwords = cluster.users.iter().filter(|(_, password)| password.len() > 6);
    let overview = proxy.get("/overview")?;
    for (user, password) in passwords {
        ensure!(!overview.contains(&format!("\"{password}\"")), "the password of {user}");
    }
    ensure!(!proxy.log().contains("marked"), "{}", proxy.log());
    Ok(())
}
