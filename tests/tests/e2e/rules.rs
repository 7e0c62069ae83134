//! Query rules between real servers: hostgroup 0 is the primary, 1 are the replicas.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, Setup, client::Reply, wait};
use std::net::{Ipv4Addr, TcpListener};
use wire::{Capabilities, CommandCode, OkPacket};

on_both_vendors!(
    each_predicate_routes,
    users_and_schemas_are_told_apart,
    listeners_and_clients_are_told_apart,
    labels_lead_from_rule_to_rule,
    the_next_command_is_led_too,
    texts_are_rewritten,
    statements_are_refused_and_answered,
    prepared_statements_keep_their_digest,
    a_prepared_statement_is_rewritten_when_it_is_prepared,
    a_transaction_stays,
    hits_are_counted,
    logged_commands_show_no_value,
    rules_of_proxysql,
    quotes_are_read_as_the_session_has_set_them,
);

/// A proxy with these rules.
fn with_rules(cluster: &Cluster, rules: &str) -> Result<Proxy> {
    Setup::of(cluster).append(&chain(&format!("rules = [{rules}]"))).start()
}

fn chain(settings: &str) -> String {
    format!(
        "[chain.main]\nsession = [\n{{ use = \"parse\" }},\n{{ use = \"rules\", {settings} }},\n\
         {{ use = \"route\" }},\n]\n"
    )
}

/// What runs `sql`, which selects `@@port` first: 0 for the primary, 1 for a replica.
fn hostgroup(cluster: &Cluster, client: &mut Client, sql: &str) -> Result<usize> {
    let rows = client.rows(sql)?;
    let port = rows.into_iter().flatten().next().flatten().context("no row")?;
    let ends = |address: &&String| address.ends_with(&format!(":{port}"));
    let node = cluster.addresses.iter().position(|address| ends(&address));
    Ok(usize::from(node.context("another server")? > 0))
}

fn must_go(cluster: &Cluster, client: &mut Client, cases: &[(&str, usize)]) -> Result<()> {
    for (sql, expected) in cases {
        let went = hostgroup(cluster, client, sql)?;
        ensure!(went == *expected, "{sql} went to {went}");
    }
    Ok(())
}

fn each_predicate_routes(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        r#"
        { rule_id = 1, match_digest = '^SELECT @@PORT AS a$', destination_hostgroup = 1 },
        { rule_id = 2, match_pattern = '/\* to a replica \*/', destination_hostgroup = 1 },
        { rule_id = 3, match_digest = ',[?] AS b', destination_hostgroup = 1 },
        { rule_id = 4, match_digest = 'AS [a-z]', negate_match_pattern = true, destination_hostgroup = 1 },
        { rule_id = 5, match_pattern = 'primary', destination_hostgroup = 0 },
        "#,
    )?;
    let mut client = proxy.connect(&cluster.admin())?;
    must_go(
        cluster,
        &mut client,
        &[
            ("SELECT @@port AS a", 1),
            ("SELECT @@port AS b", 0),
            ("SELECT @@port AS b /* to a replica */", 1),
            ("SELECT @@port AS a, 17 AS b", 1),
            ("SELECT @@port AS a, 'x' AS b", 1),
            ("SELECT @@port AS a, 17 AS c", 0),
            ("SELECT @@port", 1),
            ("SELECT @@port /* to a replica */ AS a /* primary */", 0),
        ],
    )?;
    client.quit()
}

fn users_and_schemas_are_told_apart(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 1, username = 'app', match_digest = 'AS u', destination_hostgroup = 1 },
         { rule_id = 2, schemaname = 'mysql', match_digest = 'AS s', destination_hostgroup = 1 },",
    )?;
    let (by_user, by_schema) = ("SELECT @@port AS u", "SELECT @@port AS s");
    let mut app = proxy.connect(&cluster.login("app"))?;
    must_go(cluster, &mut app, &[(by_user, 1), (by_schema, 0)])?;
    app.quit()?;
    let mut admin = proxy.connect(&cluster.admin())?;
    must_go(cluster, &mut admin, &[(by_user, 0), (by_schema, 0)])?;
    admin.command(CommandCode::INIT_DB, b"mysql")?;
    must_go(cluster, &mut admin, &[(by_schema, 1)])?;
    admin.quit()?;
    let mut there = proxy.connect(&cluster.admin().schema("mysql"))?;
    must_go(cluster, &mut there, &[(by_schema, 1), (by_user, 0)])?;
    there.quit()
}

fn listeners_and_clients_are_told_apart(cluster: &Cluster) -> Result<()> {
    let other = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let port = other.port();
    let rules = format!(
        "rules = [
            {{ rule_id = 1, proxy_port = {port}, match_digest = 'AS p', destination_hostgroup = 1 }},
            {{ rule_id = 2, proxy_addr = '127.0.0.1', match_digest = 'AS a', destination_hostgroup = 1 }},
            {{ rule_id = 3, client_addr = '127.0.7.0/24', match_digest = 'AS c', destination_hostgroup = 1 }},
            {{ rule_id = 4, client_addr = '127.0.7.%', match_digest = 'AS d', destination_hostgroup = 1 }},
            {{ rule_id = 5, client_addr = '127.0.7.1', match_digest = 'AS e', destination_hostgroup = 1 }},
        ]"
    );
    let listener = format!("[[listener]]\naddress = \"{other}\"\nchain = \"main\"\n");
    let proxy = Setup::of(cluster).append(&listener).append(&chain(&rules)).start()?;
    let login = |last| cluster.admin().from(Ipv4Addr::new(127, 0, 7, last));
    let there = other.to_string();
    for (address, from, expected) in [
        (&there, login(1), [1, 1, 1, 1, 1]),
        (&there, login(2), [1, 1, 1, 1, 0]),
        (&proxy.address, login(1), [0, 0, 1, 1, 1]),
        (&proxy.address, cluster.admin(), [0, 0, 0, 0, 0]),
    ] {
        let mut client = Client::connect(address, &from)?;
        for (name, expected) in "pacde".chars().zip(expected) {
            must_go(cluster, &mut client, &[(&format!("SELECT @@port AS {name}"), expected)])?;
        }
        client.quit()?;
    }
    Ok(())
}

fn labels_lead_from_rule_to_rule(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 1, username = 'admin', flagOUT = 10 },
         { rule_id = 2, destination_hostgroup = 0 },
         { rule_id = 3, flagIN = 10, match_digest = 'AS a', destination_hostgroup = 1, flagOUT = 20 },
         { rule_id = 4, flagIN = 20, match_digest = ',[?]$', destination_hostgroup = 0, apply = true },
         { rule_id = 5, flagIN = 20, destination_hostgroup = 1 },",
    )?;
    let mut client = proxy.connect(&cluster.admin())?;
    let cases =
        [("SELECT @@port AS a", 1), ("SELECT @@port AS b", 0), ("SELECT @@port AS a, 1", 0)];
    must_go(cluster, &mut client, &cases)?;
    client.quit()
}

fn the_next_command_is_led_too(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 1, match_pattern = 'now replicas', next_query_flagIN = 1 },
         { rule_id = 2, flagIN = 1, match_pattern = 'now the primary', next_query_flagIN = 0 },
         { rule_id = 3, flagIN = 1, destination_hostgroup = 1 },",
    )?;
    let mut client = proxy.connect(&cluster.admin())?;
    must_go(
        cluster,
        &mut client,
        &[
            ("SELECT @@port", 0),
            ("SELECT @@port /* now replicas */", 0),
            ("SELECT @@port", 1),
            ("SELECT @@port", 1),
            ("SELECT @@port /* now the primary */", 1),
            ("SELECT @@port", 0),
            ("SELECT @@port /* now replicas */", 0),
        ],
    )?;
    client.command(CommandCode::RESET_CONNECTION, b"")?;
    must_go(cluster, &mut client, &[("SELECT @@port", 0)])?;
    client.quit()
}

fn texts_are_rewritten(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        r"{ rule_id = 1, match_pattern = '''(\w+) of old''', replace_pattern = '''\1 of new''' },
          { rule_id = 2, match_pattern = 'of new', destination_hostgroup = 1 },
          { rule_id = 3, match_pattern = 'x', re_modifiers = 'GLOBAL', replace_pattern = '2' },",
    );
    let proxy = match proxy {
        Ok(proxy) => proxy,
        Err(error) => return Err(error.context("with literal strings that hold quotes")),
    };
    let mut client = proxy.connect(&cluster.admin())?;
    let rows = client.rows("SELECT 'wine of old', @@port")?;
    ensure!(rows[0][0].as_deref() == Some("wine of new"), "{rows:?}");
    must_go(cluster, &mut client, &[("SELECT @@port, 'wine of old'", 1)])?;
    let rows = client.rows("SELECT x + x")?;
    ensure!(rows == [[Some("4".to_owned())]], "{rows:?}");
    // Byte for byte what a server answers to the text as it was made.
    let made = client.query("SELECT 'a', x")?.raw;
    let mut direct = cluster.direct()?;
    let expected = direct.query("SELECT 'a', 2")?.raw;
    ensure!(made == expected, "{made:?}");
    direct.quit()?;
    client.quit()
}

fn ok(client: &Client, reply: &Reply) -> Result<OkPacket> {
    Ok(OkPacket::decode(&reply.packets()[0], client.capabilities)?)
}

fn statements_are_refused_and_answered(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 1, match_digest = '^DROP', error_msg = 'not through this proxy' },
         { rule_id = 2, match_digest = '^SET GLOBAL', OK_msg = 'as you say' },
         { rule_id = 3, match_digest = '^SELECT', delay = 1 },",
    )?;
    let mut client = proxy.connect(&cluster.admin())?;
    let refused = client.query("DROP TABLE no_such_table_of_anybodys")?;
    let error = refused.error().context("an ERR")?.to_string();
    ensure!(error == "ERR 1148 (42000): not through this proxy", "{error}");
    ensure!(refused.raw[3] == 1, "the sequence id");
    let refused = client.prepare("DROP TABLE no_such_table_of_anybodys")?;
    ensure!(refused.reply.error_code() == Some(1148));

    let answered = client.query("SET GLOBAL max_connections = 1")?;
    ensure!(ok(&client, &answered)?.info == b"as you say");
    client.must("BEGIN")?;
    let answered = client.query("SET GLOBAL max_connections = 1")?;
    let status = ok(&client, &answered)?.status;
    ensure!(status.contains(wire::Status::IN_TRANS), "{status:?}");
    client.must("ROLLBACK")?;
    must_go(cluster, &mut client, &[("SELECT @@port", 0)])?;
    client.quit()
}

/// What runs a prepared `SELECT CONCAT('port ', @@port)`, by its reply's bytes.
fn ran_on(cluster: &Cluster, reply: &Reply) -> Result<usize> {
    let has = |port: &str| {
        let text = format!("port {port}");
        reply.raw.windows(text.len()).any(|bytes| bytes == text.as_bytes())
    };
    let ports = cluster.addresses.iter().filter_map(|address| address.rsplit_once(':'));
    let node = ports.map(|(_, port)| port).position(has).context("no server's port in it")?;
    Ok(usize::from(node > 0))
}

fn prepared_statements_keep_their_digest(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 1, match_digest = 'AS replicas$', destination_hostgroup = 1 },
         { rule_id = 2, match_pattern = 'with a comment', destination_hostgroup = 1 },",
    )?;
    // Each in a session of its own: two servers may give two statements one id.
    for (tail, expected) in [
        ("AS replicas", 1),
        ("AS others", 0),
        ("/* with a comment */ AS more", 1),
        ("AS replicas", 1),
    ] {
        let mut client = proxy.connect(&cluster.admin())?;
        let statement = client.prepare(&format!("SELECT CONCAT('port ', @@port), ? {tail}"))?;
        for _ in 0..2 {
            let reply = client.execute(&statement, 0, &[Some(b"7")])?;
            ensure!(ran_on(cluster, &reply)? == expected, "{tail}");
        }
        client.close_statement(&statement)?;
        must_go(cluster, &mut client, &[("SELECT @@port", 0)])?;
        client.quit()?;
    }
    let hits = proxy.get("/metrics")?;
    let first = "towpath_rule_hits_total{chain=\"main\",rule_id=\"1\"} 6";
    ensure!(hits.contains(first), "prepared twice, run four times: {hits}");
    Ok(())
}

fn a_prepared_statement_is_rewritten_when_it_is_prepared(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 1, match_pattern = 'made_up', replace_pattern = '\"real\"' },",
    )?;
    let mut client = proxy.connect(&cluster.admin())?;
    let statement = client.prepare("SELECT made_up, ?")?;
    let reply = client.execute(&statement, 0, &[Some(b"7")])?;
    ensure!(reply.raw.windows(4).any(|bytes| bytes == b"real"), "{:?}", reply.error_code());
    client.quit()
}

fn a_transaction_stays(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 1, match_digest = '^SELECT', destination_hostgroup = 1 }",
    )?;
    let several = cluster.admin().with(Capabilities::MULTI_STATEMENTS);
    let mut client = proxy.connect(&several)?;
    must_go(cluster, &mut client, &[("SELECT @@port", 1)])?;
    // also one of a text that has failed behind its begin
    for begin in ["BEGIN", "BEGIN; INSERT INTO nosuch.nosuch VALUES (1); COMMIT"] {
        client.query(begin)?;
        must_go(cluster, &mut client, &[("SELECT @@port", 0)])?;
        client.must("COMMIT")?;
        must_go(cluster, &mut client, &[("SELECT @@port", 1)])?;
    }
    client.quit()
}

fn hits_are_counted(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 10, match_digest = '^SELECT' },
         { rule_id = 20, match_digest = 'FROM nowhere', error_msg = 'no' },
         { rule_id = 30, match_digest = '^TRUNCATE' },",
    )?;
    let mut client = proxy.connect(&cluster.login("app").schema("app"))?;
    for sql in ["SELECT 1", "SELECT 2 FROM nowhere", "SELECT 3", "DO 1"] {
        client.query(sql)?;
    }
    let metrics = proxy.get("/metrics")?;
    for (rule, hits) in [(10, 3), (20, 1), (30, 0)] {
        let line = format!("towpath_rule_hits_total{{chain=\"main\",rule_id=\"{rule}\"}} {hits}");
        ensure!(metrics.contains(&line), "{line}: {metrics}");
    }
    client.quit()
}

fn logged_commands_show_no_value(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(
        cluster,
        "{ rule_id = 7, match_digest = 'AS logged', log = true, destination_hostgroup = 1 }",
    )?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'a-value', 4711 AS logged /* a-comment */")?;
    client.must("SELECT 'a-value', 4711 AS unlogged")?;
    client.query("SELECT no_such_column, 'a-value' AS logged")?;
    client.quit()?;
    let log = wait::until("both events", || {
        let log = proxy.log();
        Ok((log.matches("\"target\":\"query\"").count() >= 2).then_some(log))
    })?;
    for part in [
        r#""rules":"[7]""#,
        r#""hostgroup":1"#,
        r#""digest":"0x"#,
        r#""digest_text":"SELECT ?,? AS logged""#,
        r#""error":1054"#,
        r#""message":"done""#,
        r#""command":"COM_QUERY""#,
    ] {
        ensure!(log.contains(part), "{part} in {log}");
    }
    for value in ["a-value", "4711", "a-comment", "unlogged"] {
        ensure!(!log.contains(value), "{value} in {log}");
    }
    Ok(())
}

fn rules_of_proxysql(cluster: &Cluster) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("proxysql.cnf");
    let text = "
        mysql_query_rules: (
            { rule_id=1 active=1 match_digest=\"^SELECT .* FOR UPDATE$\" destination_hostgroup=0 apply=1 },
            { rule_id=2 active=1 match_digest=\"^SELECT\" destination_hostgroup=1 apply=1 }
        )";
    std::fs::write(&path, text)?;
    let chain = chain(&format!("rules = {{ proxysql = {path:?} }}"));
    let proxy = Setup::of(cluster).append(&chain).start()?;
    let mut client = proxy.connect(&Login::with(cluster.admin(), Capabilities::default()))?;
    must_go(cluster, &mut client, &[("SELECT @@port", 1), ("SELECT @@port FOR UPDATE", 0)])?;
    client.quit()
}

/// MySQL's replies do not say that ANSI_QUOTES is on: the proxy has read it.
fn quotes_are_read_as_the_session_has_set_them(cluster: &Cluster) -> Result<()> {
    let rules = r#"{ rule_id = 1, match_digest = 'AS "r"$', destination_hostgroup = 1 }"#;
    let proxy = with_rules(cluster, rules)?;
    let sql = r#"SELECT @@port AS "r""#;
    let mut client = proxy.connect(&cluster.admin())?;
    must_go(cluster, &mut client, &[(sql, 0)])?;
    client.must("SET sql_mode = 'ANSI_QUOTES'")?;
    must_go(cluster, &mut client, &[(sql, 1)])?;
    client.must("SET sql_mode = ''")?;
    must_go(cluster, &mut client, &[(sql, 0)])?;
    client.quit()
}
