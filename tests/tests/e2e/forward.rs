//! Sessions that leave the chain: what a query rule, a user's setting or a listener's makes of them.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Held, Login, Proxy, Setup, transcript::same, wait};
use wire::{Capabilities, CommandCode, packet::MAX_PAYLOAD};

on_both_vendors!(
    a_rule_switches_by_its_digest,
    true_false_and_absent,
    the_chain_of_rules_runs_to_its_end,
    the_same_user_is_normal_on_another_port,
    same_and_different_hostgroups,
    after_earlier_normal_queries,
    begin_and_create_temporary_table,
    the_trigger_runs_exactly_once,
    the_switch_is_permanent_and_hits_freeze,
    prepared_statements_give_one_warning,
    no_warning_without_prepared_statements,
    h76_statements_of_before_go_on_working,
    h74_state_goes_along_to_another_server,
    every_kind_of_command_is_a_trigger,
    triggers_of_16_mebibytes_and_more,
    ten_commands_behind_the_trigger,
    a_server_that_cannot_be_reached,
    a_user_with_fast_forward,
    a_chain_that_does_nothing_else,
    a_listener_that_reads_nothing,
    change_of_user_inside,
    a_large_result_and_a_file,
    other_connections_are_let_go,
    nothing_stays_behind,
);

/// A chain with these rules; hostgroup 0 is the primary, 1 the replicas.
pub(crate) fn with_rules(cluster: &Cluster, rules: &str) -> Setup {
    Setup::of(cluster).append(&format!(
        "[chain.main]\nsession = [\n  {{ use = \"parse\" }},\n  {{ use = \"rules\", rules = [{rules}] }},\n  \
         {{ use = \"fast-forward\" }},\n  {{ use = \"route\" }},\n]\n"
    ))
}

const SWITCH: &str = "attributes = { switch_to_fast_forward = true }, apply = true";

/// A rule that switches with statements that begin with `SELECT 'go'`.
pub(crate) fn on_go() -> String {
    format!("{{ rule_id = 1, match_pattern = \"^SELECT 'go'\", {SWITCH} }}")
}

pub(crate) fn count(proxy: &Proxy, series: &str) -> Result<u64> {
    let metrics = proxy.get("/metrics")?;
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    Ok(line.with_context(|| format!("no {series} in\n{metrics}"))?.trim().parse()?)
}

fn switches(proxy: &Proxy, cause: &str) -> Result<u64> {
    count(proxy, &format!("towpath_fast_forward_total{{chain=\"main\",cause=\"{cause}\"}}"))
}

fn hits(proxy: &Proxy, rule: u32) -> Result<u64> {
    count(proxy, &format!("towpath_rule_hits_total{{chain=\"main\",rule_id=\"{rule}\"}}"))
}

pub(crate) fn one(client: &mut Client, sql: &str) -> Result<String> {
    let value = client.rows(sql)?.into_iter().flatten().next().flatten();
    value.with_context(|| format!("no value of {sql}"))
}

/// The server's own id is below the proxy's.
pub(crate) fn is_forwarded(client: &mut Client) -> Result<bool> {
    Ok(one(client, "SELECT CONNECTION_ID()")?.parse::<u64>()? < 1 << 31)
}

fn app(cluster: &Cluster) -> Login {
    cluster.login("app")
}

fn a_rule_switches_by_its_digest(cluster: &Cluster) -> Result<()> {
    let rule = format!("{{ rule_id = 7, digest = \"0x1C46AE529DD5A40E\", {SWITCH} }}");
    let proxy = with_rules(cluster, &rule).start()?;
    let mut client = proxy.connect(&app(cluster))?;
    client.must("SELECT 1 + 1")?;
    ensure!(!is_forwarded(&mut client)? && switches(&proxy, "rule")? == 0);
    ensure!(one(&mut client, "SELECT 42")? == "42");
    ensure!(is_forwarded(&mut client)? && switches(&proxy, "rule")? == 1);
    client.quit()
}

fn true_false_and_absent(cluster: &Cluster) -> Result<()> {
    for (attributes, switched) in [
        ("attributes = { switch_to_fast_forward = true },", true),
        ("attributes = '{\"switch_to_fast_forward\": true}',", true),
        ("attributes = { switch_to_fast_forward = false },", false),
        ("attributes = '{}',", false),
        ("", false),
    ] {
        let rule =
            format!("{{ rule_id = 1, match_digest = '^SELECT .go', {attributes} apply = true }}");
        let rule = rule.replace("^SELECT .go", "^SELECT ");
        let proxy = with_rules(cluster, &rule).start()?;
        let mut client = proxy.connect(&app(cluster))?;
        client.must("SELECT 1")?;
        ensure!(is_forwarded(&mut client)? == switched, "{attributes}");
        client.quit()?;
    }
    Ok(())
}

fn the_chain_of_rules_runs_to_its_end(cluster: &Cluster) -> Result<()> {
    let rules =
        "{ rule_id = 1, match_pattern = \"^SELECT 'go'\", flagOUT = 5, destination_hostgroup = 0,
           attributes = { switch_to_fast_forward = true } },
         { rule_id = 2, flagIN = 5, flagOUT = 6, attributes = { switch_to_fast_forward = false } },
         { rule_id = 3, flagIN = 6, destination_hostgroup = 1, apply = true }"
            .replace('\n', " ");
    let proxy = with_rules(cluster, &rules).start()?;
    let mut client = proxy.connect(&app(cluster))?;
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    let primary = one(&mut cluster.direct()?, "SELECT @@server_id")?;
    ensure!(one(&mut client, "SELECT @@server_id")? != primary);
    client.quit()
}

fn the_same_user_is_normal_on_another_port(cluster: &Cluster) -> Result<()> {
    // The unix socket is another listener with the same chain, and has no port.
    let probe = with_rules(cluster, &on_go()).start()?;
    let port = probe.host_and_port().1.parse::<u16>()?;
    drop(probe);
    // Addresses of one process count up by two.
    let rule = format!("{{ rule_id = 1, proxy_port = {}, {SWITCH} }}", port + 2);
    let proxy = with_rules(cluster, &rule).start()?;
    ensure!(proxy.host_and_port().1.parse::<u16>()? == port + 2, "{}", proxy.address);
    let mut client = proxy.connect(&app(cluster))?;
    client.must("SELECT 1")?;
    ensure!(is_forwarded(&mut client)?);
    client.quit()?;
    let socket = format!("unix:{}", proxy.socket.display());
    let mut client = Client::connect(&socket, &app(cluster))?;
    client.must("SELECT 1")?;
    ensure!(!is_forwarded(&mut client)?);
    client.quit()
}

fn same_and_different_hostgroups(cluster: &Cluster) -> Result<()> {
    let primary = one(&mut cluster.direct()?, "SELECT @@server_id")?;
    for (hostgroup, same) in [(0, true), (1, false)] {
        let rule = format!(
            "{{ rule_id = 1, match_pattern = \"^SELECT 'go'\", destination_hostgroup = {hostgroup}, {SWITCH} }}"
        );
        let proxy = with_rules(cluster, &rule).start()?;
        let mut client = proxy.connect(&app(cluster))?;
        ensure!(one(&mut client, "SELECT @@server_id")? == primary);
        client.must("SELECT 'go'")?;
        ensure!(is_forwarded(&mut client)?);
        ensure!((one(&mut client, "SELECT @@server_id")? == primary) == same);
        client.quit()?;
    }
    Ok(())
}

fn after_earlier_normal_queries(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let mut client = proxy.connect(&app(cluster))?;
    for n in 0..100 {
        ensure!(one(&mut client, &format!("SELECT {n}"))? == n.to_string());
    }
    client.must("SET @mine = 'kept', time_zone = '+03:00'")?;
    ensure!(!is_forwarded(&mut client)?);
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    ensure!(one(&mut client, "SELECT @mine")? == "kept");
    ensure!(one(&mut client, "SELECT @@time_zone")? == "+03:00");
    client.quit()
}

fn begin_and_create_temporary_table(cluster: &Cluster) -> Result<()> {
    for trigger in ["BEGIN", "CREATE TEMPORARY TABLE"] {
        let rule = format!("{{ rule_id = 1, match_digest = \"^{trigger}\", {SWITCH} }}");
        let proxy = with_rules(cluster, &rule).start()?;
        let schema = cluster.schema()?;
        let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
        client.must("CREATE TABLE t (a INT)")?;
        ensure!(!is_forwarded(&mut client)?);
        if trigger == "BEGIN" {
            client.must("BEGIN")?;
            client.must("INSERT INTO t VALUES (1)")?;
            ensure!(is_forwarded(&mut client)?);
            client.must("ROLLBACK")?;
            ensure!(one(&mut client, "SELECT COUNT(*) FROM t")? == "0");
        } else {
            client.must("CREATE TEMPORARY TABLE own (a INT)")?;
            ensure!(is_forwarded(&mut client)?);
            client.must("INSERT INTO own VALUES (1)")?;
            ensure!(one(&mut client, "SELECT COUNT(*) FROM own")? == "1");
        }
        client.quit()?;
    }
    Ok(())
}

fn the_trigger_runs_exactly_once(cluster: &Cluster) -> Result<()> {
    let rule = format!("{{ rule_id = 1, match_digest = \"^INSERT\", {SWITCH} }}");
    let proxy = with_rules(cluster, &rule).start()?;
    let schema = cluster.schema()?;
    for n in 1..=20 {
        let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
        client.must("CREATE TABLE IF NOT EXISTS t (a INT)")?;
        client.must("INSERT INTO t VALUES (1)")?;
        ensure!(is_forwarded(&mut client)?);
        ensure!(one(&mut client, "SELECT COUNT(*) FROM t")? == n.to_string());
        client.quit()?;
    }
    Ok(())
}

fn the_switch_is_permanent_and_hits_freeze(cluster: &Cluster) -> Result<()> {
    let rules = format!(
        "{}, {{ rule_id = 2, match_digest = \"blocked\", error_msg = \"not here\", apply = true }}",
        on_go()
    );
    let proxy = with_rules(cluster, &rules).start()?;
    let mut client = proxy.connect(&app(cluster))?;
    ensure!(client.query("SELECT 1 AS blocked")?.error_code() == Some(1148));
    client.must("SELECT 'go'")?;
    let id = one(&mut client, "SELECT CONNECTION_ID()")?;
    ensure!((hits(&proxy, 1)?, hits(&proxy, 2)?) == (1, 1));
    for _ in 0..20 {
        client.must("SELECT 'go'")?;
        client.must("SELECT 1 AS blocked")?;
        ensure!(one(&mut client, "SELECT CONNECTION_ID()")? == id);
    }
    ensure!((hits(&proxy, 1)?, hits(&proxy, 2)?) == (1, 1));
    ensure!(switches(&proxy, "rule")? == 1);
    client.quit()
}

fn warnings(proxy: &Proxy) -> Vec<String> {
    let log = proxy.log();
    log.lines().filter(|line| line.contains("prepared statements")).map(str::to_owned).collect()
}

fn prepared_statements_give_one_warning(cluster: &Cluster) -> Result<()> {
    for (binary, side) in [(true, "both"), (false, "backend")] {
        let proxy = with_rules(cluster, &on_go()).start()?;
        let mut client = proxy.connect(&app(cluster))?;
        if binary {
            client.prepare("SELECT 'a secret'")?;
        } else {
            client.must("PREPARE p FROM 'SELECT 1'")?;
        }
        client.must("SELECT 'go'")?;
        ensure!(is_forwarded(&mut client)?);
        client.must("SELECT 'go'")?;
        let lines = warnings(&proxy);
        let [line] = lines.as_slice() else { anyhow::bail!("{lines:?}") };
        ensure!(line.contains("WARN") && line.contains("session") && line.contains(side), "{line}");
        ensure!(!line.contains("secret"), "{line}");
        client.quit()?;
    }
    Ok(())
}

fn no_warning_without_prepared_statements(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let mut client = proxy.connect(&app(cluster))?;
    let statement = client.prepare("SELECT 1")?;
    client.close_statement(&statement)?;
    client.must("PREPARE p FROM 'SELECT 1'")?;
    client.must("DEALLOCATE PREPARE p")?;
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    ensure!(warnings(&proxy).is_empty(), "{:?}", warnings(&proxy));
    client.quit()
}

fn h76_statements_of_before_go_on_working(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let mut client = proxy.connect(&app(cluster))?;
    let statement = client.prepare("SELECT 11 + 4")?;
    client.must("SELECT 'go'")?;
    for _ in 0..2 {
        let reply = client.execute(&statement, 0, &[])?;
        ensure!(reply.error().is_none(), "{:?}", reply.error());
    }
    ensure!(is_forwarded(&mut client)?);
    client.close_statement(&statement)?;
    client.must("SELECT 1")?;
    client.quit()
}

/// With the session's state in a log, the switch may lead to a server that knew nothing of it.
fn h74_state_goes_along_to_another_server(cluster: &Cluster) -> Result<()> {
    let chain = format!(
        "[chain.main]\nsession = [\n  {{ use = \"parse\" }},\n  {{ use = \"rules\", rules = [{}] }},\n  \
         {{ use = \"session-commands\" }},\n  {{ use = \"fast-forward\" }},\n  {{ use = \"route\" }},\n]\n\
         backend = [{{ use = \"catch-up\" }}]\n",
        on_go().replace("apply", "destination_hostgroup = 1, apply")
    );
    let proxy = Setup::of(cluster).append(&chain).start()?;
    let primary = one(&mut cluster.direct()?, "SELECT @@server_id")?;
    let mut client = proxy.connect(&app(cluster))?;
    let statement = client.prepare("SELECT 11 + 4")?;
    ensure!(statement.id() >= 1 << 31, "the id is the session's");
    client.must("SET @mine = 'kept', time_zone = '+03:00'")?;
    ensure!(one(&mut client, "SELECT @@server_id")? == primary);
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    ensure!(one(&mut client, "SELECT @@server_id")? != primary);
    ensure!(one(&mut client, "SELECT CONCAT(@mine, @@time_zone)")? == "kept+03:00");
    for _ in 0..2 {
        let reply = client.execute(&statement, 0, &[])?;
        ensure!(reply.error().is_none(), "{:?}", reply.error());
    }
    let other = client.prepare("SELECT 1")?;
    ensure!(other.id() < 1 << 31, "the id is the server's");
    client.close_statement(&statement)?;
    let gone = client.execute(&statement, 0, &[])?;
    ensure!(gone.error_code() == Some(1243), "{:?}", gone.error());
    client.close_statement(&other)?;
    client.must("SELECT 1")?;
    client.quit()
}

fn every_kind_of_command_is_a_trigger(cluster: &Cluster) -> Result<()> {
    // A rule without a text matches any command; the statements before it do not get so far.
    let rules = format!(
        "{{ rule_id = 1, match_pattern = \"stay\", apply = true }}, {{ rule_id = 2, {SWITCH} }}"
    );
    let schema = cluster.schema()?;
    let triggers: [(CommandCode, &[u8]); 7] = [
        (CommandCode::QUERY, b"SELECT 1"),
        (CommandCode::INIT_DB, schema.name.as_bytes()),
        (CommandCode::PING, b""),
        (CommandCode::STMT_PREPARE, b"SELECT ?"),
        (CommandCode::STATISTICS, b""),
        (CommandCode::RESET_CONNECTION, b""),
        (CommandCode::SET_OPTION, &[1, 0]),
    ];
    for (code, body) in triggers {
        let proxy = with_rules(cluster, &rules).start()?;
        let mut client = proxy.connect(&cluster.admin())?;
        client.must("SELECT 'stay'")?;
        ensure!(one(&mut client, "SELECT CONNECTION_ID() AS stay")?.parse::<u64>()? >= 1 << 31);
        let reply = client.command(code, body)?;
        ensure!(reply.error().is_none(), "{code:?}: {:?}", reply.error());
        ensure!(is_forwarded(&mut client)?, "{code:?}");
        client.quit()?;
    }
    Ok(())
}

fn triggers_of_16_mebibytes_and_more(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let rest = "SELECT 'go', LENGTH('')".len() + 1;
    for size in [MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 40 << 20] {
        let mut client = proxy.connect(&cluster.admin())?;
        let value = size - rest;
        let sql = format!("SELECT 'go', LENGTH('{}')", "x".repeat(value));
        let rows = client.rows(&sql)?;
        ensure!(rows.len() == 1 && rows[0][1].as_deref() == Some(value.to_string().as_str()));
        ensure!(is_forwarded(&mut client)?, "{size}");
        client.quit()?;
    }
    Ok(())
}

fn ten_commands_behind_the_trigger(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let mut client = proxy.connect(&app(cluster))?;
    let texts: Vec<_> = (0..10).map(|n| format!("SELECT {n}, 'behind'")).collect();
    let mut bytes = client.framed(CommandCode::QUERY, b"SELECT 'before'");
    bytes.extend(client.framed(CommandCode::QUERY, b"SELECT 'go'"));
    for text in &texts {
        bytes.extend(client.framed(CommandCode::QUERY, text.as_bytes()));
    }
    client.send(&bytes)?;
    for _ in 0..2 {
        ensure!(client.receive(CommandCode::QUERY)?.error().is_none());
    }
    let mut direct = Client::connect(&cluster.addresses[0], &app(cluster))?;
    for text in &texts {
        ensure!(client.receive(CommandCode::QUERY)?.raw == direct.query(text)?.raw, "{text}");
    }
    ensure!(is_forwarded(&mut client)?);
    client.quit()
}

fn a_server_that_cannot_be_reached(cluster: &Cluster) -> Result<()> {
    let rules = format!(
        "{{ rule_id = 1, match_pattern = \"^SELECT 'go'\", destination_hostgroup = 9, {SWITCH} }}"
    );
    let proxy = with_rules(cluster, &rules)
        .append("[[server]]\nhostgroup = 9\naddress = \"127.0.0.1:1\"\n[backend]\nconnect_budget = \"200ms\"")
        .start()?;
    let mut client = proxy.connect(&app(cluster))?;
    client.must("SET @mine = 7")?;
    for _ in 0..2 {
        ensure!(client.query("SELECT 'go'")?.error_code() == Some(9001));
        // Nothing has changed: the session is a normal one.
        ensure!(!is_forwarded(&mut client)?);
        ensure!(one(&mut client, "SELECT @mine")? == "7");
    }
    ensure!(switches(&proxy, "rule")? == 0);
    client.quit()
}

fn a_user_with_fast_forward(cluster: &Cluster) -> Result<()> {
    let admin = cluster.admin();
    let proxy = with_rules(cluster, &on_go())
        .no_users()
        .append(&format!(
            "[[user]]\nname = {:?}\npassword = {:?}\nhostgroup = 0\nfast_forward = true\n",
            admin.user, admin.password
        ))
        .start()?;
    let held = Held::at_start(&proxy)?;
    let quitter = proxy.connect(&admin)?;
    quitter.quit()?;
    ensure!(switches(&proxy, "user")? == 0, "one that only says goodbye");
    let mut client = proxy.connect(&admin)?;
    ensure!(is_forwarded(&mut client)?);
    client.must("SELECT 'go'")?;
    ensure!(hits(&proxy, 1)? == 0, "no rule is asked after the first command");
    ensure!(switches(&proxy, "user")? == 1 && switches(&proxy, "rule")? == 0);
    client.quit()?;
    held.until_again(&proxy)
}

fn a_chain_that_does_nothing_else(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster)
        .append("[chain.main]\nsession = [{ use = \"fast-forward\", always = true }]")
        .start()?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        for sql in [
            "SELECT 1",
            "CREATE TABLE t (a INT)",
            "INSERT INTO t VALUES (1), (2)",
            "SELECT * FROM t",
        ] {
            let reply = client.query(sql)?;
            transcript.add(sql, &reply);
        }
        Ok(())
    })?;
    ensure!(switches(&proxy, "always")? == 1);
    Ok(())
}

fn a_listener_that_reads_nothing(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster)
        .no_users()
        .listener("login = \"untouched\"\nhostgroup = 0")
        .append("[chain.main]\nsession = [{ use = \"fast-forward\", always = true }]")
        .start()?;
    let certificate = {
        let direct = Client::connect(&cluster.addresses[0], &app(cluster).tls())?;
        direct.certificate()
    };
    let mut client = proxy.connect(&app(cluster).tls())?;
    ensure!(client.certificate() == certificate && certificate.is_some(), "TLS ends at the server");
    ensure!(is_forwarded(&mut client)?);
    client.quit()?;
    for name in ["app", "admin"] {
        let mut client = proxy.connect(&cluster.login(name))?;
        ensure!(one(&mut client, "SELECT CURRENT_USER()")?.starts_with(name));
        client.quit()?;
    }
    let refused = proxy.connect(&Login::new("app", "wrong")).err().context("it lets anybody in")?;
    ensure!(refused.to_string().contains("1045"), "{refused}");
    wait::until("no forwarded session", || {
        Ok((count(&proxy, "towpath_forwarded_sessions")? == 0).then_some(()))
    })
}

fn change_of_user_inside(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    // The command's form is that of a client with attributes: the proxy has logged in with some.
    let told = [("program_name", "forward")];
    let mut client = proxy.connect(&app(cluster).attributes(&told))?;
    client.must("SELECT 'go'")?;
    let id = one(&mut client, "SELECT CONNECTION_ID()")?;
    client.change_user(&cluster.admin().attributes(&told))?;
    ensure!(one(&mut client, "SELECT CURRENT_USER()")?.starts_with("admin"));
    ensure!(one(&mut client, "SELECT CONNECTION_ID()")? == id);
    client.quit()
}

fn a_large_result_and_a_file(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let login = cluster.admin().with(Capabilities::LOCAL_FILES);
    let file = "abc\n".repeat(500_000);
    same(cluster, &proxy, &login, |client, transcript| {
        for sql in ["SELECT 'go'", "CREATE TABLE t (a VARCHAR(10))"] {
            let reply = client.query(sql)?;
            transcript.add(sql, &reply);
        }
        let sql = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t";
        let reply = client.upload(sql, file.as_bytes())?;
        transcript.add(sql, &reply);
        let sql = "SELECT a, REPEAT('x', 40) FROM t";
        let reply = client.query(sql)?;
        transcript.add(sql, &reply);
        Ok(())
    })
}

fn other_connections_are_let_go(cluster: &Cluster) -> Result<()> {
    let rules = format!(
        "{{ rule_id = 5, match_pattern = \"elsewhere\", destination_hostgroup = 1, apply = true }}, {}",
        on_go()
    );
    let proxy = with_rules(cluster, &rules).start()?;
    let mut client = proxy.connect(&app(cluster))?;
    client.must("SELECT 'elsewhere'")?;
    client.must("SELECT 1")?;
    client.must("SELECT 'go'")?;
    wait::until("one connection", || {
        let metrics = proxy.get("/metrics")?;
        let attached = metrics.lines().filter(|line| {
            line.starts_with("towpath_backend_connections{") && line.contains("state=\"attached\"")
        });
        let sum: u64 =
            attached.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
        Ok((sum == 1).then_some(()))
    })?;
    ensure!(is_forwarded(&mut client)?);
    client.quit()
}

fn nothing_stays_behind(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let held = Held::at_start(&proxy)?;
    for quits in [true, false] {
        let clients = (0..20).map(|_| {
            let mut client = proxy.connect(&app(cluster))?;
            client.must("SELECT 'go'")?;
            Ok(client)
        });
        let clients = clients.collect::<Result<Vec<_>>>()?;
        for client in clients {
            if quits {
                client.quit()?;
            }
        }
    }
    held.until_again(&proxy)
}
