//! How forwarded sessions go on and end, and ones that cannot leave their chain.

use crate::forward::{count, is_forwarded, on_go, one, with_rules};
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, Throwaway, wait};
use wire::CommandCode;

on_both_vendors!(
    what_is_not_read_in_time_is_lost_and_counted,
    a_server_that_answers_no_question_ends_its_sessions,
    state_that_cannot_be_had_there,
    kill_finds_them_by_the_servers_ids,
    the_servers_timeout_is_the_one_that_holds,
    a_binlog_reader_leaves_where_it_has_read,
    a_goodbye_opens_nothing,
);

const SWITCH: &str = "attributes = { switch_to_fast_forward = true }, apply = true";

fn until_gone(proxy: &Proxy) -> Result<()> {
    wait::until("no forwarded session", || {
        Ok((count(proxy, "towpath_forwarded_sessions")? == 0).then_some(()))
    })
}

/// A forwarded session whose client asks for so many bytes and reads nothing; its server has sent
/// all of them and closed. What the client gets then, and what is counted as lost.
fn unread(cluster: &Cluster, proxy: &Proxy, size: usize) -> Result<(u64, u64)> {
    let lost = || count(proxy, "towpath_forwarded_lost_bytes_total");
    let before = lost()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'go'")?;
    let thread = one(&mut client, "SELECT CONNECTION_ID()")?;
    let passed = || count(proxy, "towpath_forwarded_bytes_total{direction=\"down\"}");
    let (sql, quiet) = (format!("SELECT REPEAT('x', {size})"), passed()?);
    client.send_command(CommandCode::QUERY, sql.as_bytes())?;
    let mut admin = cluster.direct()?;
    let told = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {thread}");
    let idle = format!("{told} AND COMMAND = 'Sleep'");
    wait::until("the reply", || Ok((passed()? > quiet).then_some(())))?;
    wait::until("all of it to be sent", || Ok((one(&mut admin, &idle)? == "1").then_some(())))?;
    admin.must(&format!("KILL {thread}"))?;
    wait::until("the server's end", || Ok((one(&mut admin, &told)? == "0").then_some(())))?;
    until_gone(proxy)?;
    let mut got = 0;
    while let Ok(bytes) = client.read_below() {
        if bytes.is_empty() {
            break;
        }
        got += bytes.len() as u64;
    }
    Ok((got, lost()? - before))
}

fn what_is_not_read_in_time_is_lost_and_counted(cluster: &Cluster) -> Result<()> {
    let proxy =
        with_rules(cluster, &on_go()).append("[backend]\ngrace_close = \"50ms\"").start()?;
    // What the sockets on the way take differs from system to system: the first size beyond that is
    // looked for.
    let (mut size, mut found) = (256 << 10, None);
    while found.is_none() && size < 16 << 20 {
        let (got, lost) = unread(cluster, &proxy, size)?;
        // Behind the value: its packets' headers, the column, the end.
        let more = (got + lost).checked_sub(size as u64).context("bytes that are not counted")?;
        ensure!(more < 200, "{got} arrived, {lost} lost, of {size}");
        found = (lost > 0).then_some(lost);
        size += 48 << 10;
    }
    found.context("nothing was lost").map(drop)
}

fn a_server_that_answers_no_question_ends_its_sessions(cluster: &Cluster) -> Result<()> {
    let server = Throwaway::start(cluster.vendor)?;
    let monitor = "[monitor]\nuser = 'monitor'\npassword = 'monitorpw'\nping_interval = '100ms'\n\
                   ping_timeout = '300ms'\nfailures = 2";
    let proxy = with_rules(&server.cluster, &on_go()).append(monitor).start()?;
    let mut client = proxy.connect(&server.cluster.admin())?;
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    server.stop()?;
    ensure!(client.query("SELECT 1").is_err(), "it went on");
    until_gone(&proxy)?;
    server.go_on()?;
    wait::until("the server to be used again", || {
        let mut client = proxy.connect(&server.cluster.admin())?;
        Ok(client.query("SELECT 'go'")?.error().is_none().then_some(()))
    })
}

fn state_that_cannot_be_had_there(cluster: &Cluster) -> Result<()> {
    let name = format!("forward_only_{}", std::process::id());
    let chain = format!(
        "[chain.main]\nsession = [\n{{ use = \"parse\" }},\n{{ use = \"rules\", rules = [{}] }},\n\
         {{ use = \"session-commands\" }},\n{{ use = \"fast-forward\" }},\n{{ use = \"route\" }},\n]\n\
         backend = [{{ use = \"catch-up\" }}]\n",
        format_args!(
            "{{ rule_id = 1, match_pattern = \"go away\", destination_hostgroup = 1, {SWITCH} }}"
        )
    );
    let replica = &cluster.addresses[1];
    let table = format!("forward_sent_{}", std::process::id());
    let proxy = Setup::of(cluster).append(&chain).start()?;
    let mut admin = cluster.direct()?;
    admin.must("SET sql_log_bin = 0")?;
    admin.must(&format!("CREATE DATABASE {name}"))?;
    let outcome = || -> Result<()> {
        let mut client = proxy.connect(&cluster.admin())?;
        client.must(&format!("USE {name}"))?;
        // A replica would make it, and then differ from its primary.
        let trigger = format!("CREATE TABLE IF NOT EXISTS app.{table} (a INT) /* go away */");
        let reply = client.query(&trigger)?;
        let error = reply.error().map(|error| error.to_string()).unwrap_or_default();
        ensure!(reply.error_code() == Some(1049), "{error}");
        ensure!(error.contains("deferred session command failed"), "{error}");
        ensure!(count(&proxy, "towpath_fast_forward_total{chain=\"main\",cause=\"rule\"}")? == 0);
        ensure!(count(&proxy, "towpath_forwarded_sessions")? == 0);
        let sql =
            format!("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = '{table}'");
        let sent = one(&mut Client::connect(replica, &cluster.admin())?, &sql)?;
        ensure!(sent == "0", "the trigger was sent");
        Ok(())
    }();
    admin.must(&format!("DROP DATABASE {name}"))?;
    outcome
}

fn kill_finds_them_by_the_servers_ids(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let start = || -> Result<(Client, String)> {
        let mut client = proxy.connect(&cluster.admin())?;
        client.must("SELECT 'go'")?;
        let id = one(&mut client, "SELECT CONNECTION_ID()")?;
        Ok((client, id))
    };
    let ((mut killer, _), (mut victim, id)) = (start()?, start()?);
    victim.send_command(CommandCode::QUERY, b"SELECT SLEEP(3600), 'killed'")?;
    let running = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE '%killed%'"
    );
    wait::until("it to run", || Ok((one(&mut killer, &running)? == "1").then_some(())))?;
    killer.must(&format!("KILL QUERY {id}"))?;
    let reply = victim.receive(CommandCode::QUERY)?;
    // MySQL's SLEEP answers 1, MariaDB's is an error.
    let value = reply.rows(victim.capabilities).ok().and_then(|rows| rows[0][0].clone());
    ensure!(reply.error_code() == Some(1317) || value.as_deref() == Some("1"), "{reply:?}");
    ensure!(one(&mut victim, "SELECT 7")? == "7", "the session goes on");
    killer.must(&format!("KILL {id}"))?;
    ensure!(victim.query("SELECT 7").is_err() || victim.query("SELECT 7").is_err());
    ensure!(one(&mut killer, "SELECT 7")? == "7");
    killer.quit()?;
    until_gone(&proxy)
}

fn the_servers_timeout_is_the_one_that_holds(cluster: &Cluster) -> Result<()> {
    let rules = format!(
        "{{ rule_id = 1, timeout = 50 }}, {{ rule_id = 2, match_pattern = \"^SELECT 'go'\", {SWITCH} }}"
    );
    let proxy = with_rules(cluster, &rules).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let killed = client.query("SELECT SLEEP(3600)")?;
    let value = killed.rows(client.capabilities).ok().and_then(|rows| rows[0][0].clone());
    ensure!(killed.error().is_some() || value.as_deref() == Some("1"), "the rule does nothing");
    client.must("SELECT 'go'")?;
    ensure!(one(&mut client, "SELECT SLEEP(0.3)")? == "0", "a rule's timeout");
    client.must("SET wait_timeout = 1")?;
    // A reply may say why.
    let ended = client.receive(CommandCode::PING);
    ensure!(ended.is_err() || ended.is_ok_and(|reply| reply.error().is_some()));
    until_gone(&proxy)
}

fn a_binlog_reader_leaves_where_it_has_read(cluster: &Cluster) -> Result<()> {
    let rule = "{ rule_id = 1, match_pattern = 'there', destination_hostgroup = 1, apply = true }";
    let proxy = with_rules(cluster, rule).start()?;
    // Not its id: a reader's session has the reader's own.
    let primary = one(&mut cluster.direct()?, "SELECT @@port")?;
    for (last, stays) in [("SELECT 'here'", true), ("SELECT 'there'", false)] {
        let mut client = proxy.connect(&cluster.login("repl"))?;
        client.must("SELECT 'here'")?;
        client.must(last)?;
        // server id, three empty texts, port, rank, the source's id
        let body = [&4711u32.to_le_bytes()[..], &[0; 3], &[0; 2], &[0; 4], &[0; 4]].concat();
        let reply = client.command(CommandCode::REGISTER_SLAVE, &body)?;
        ensure!(reply.error().is_none(), "{:?}", reply.error());
        ensure!(is_forwarded(&mut client)?);
        ensure!((one(&mut client, "SELECT @@port")? == primary) == stays, "{last}");
        client.quit()?;
    }
    let binlog = "towpath_fast_forward_total{chain=\"main\",cause=\"binlog\"}";
    ensure!(count(&proxy, binlog)? == 2);
    Ok(())
}

fn a_goodbye_opens_nothing(cluster: &Cluster) -> Result<()> {
    let server = Throwaway::start(cluster.vendor)?;
    let admin = server.cluster.admin();
    let user = format!(
        "[[user]]\nname = {:?}\npassword = {:?}\nhostgroup = 0\nfast_forward = true\n",
        admin.user, admin.password
    );
    let proxy = with_rules(&server.cluster, &on_go()).no_users().append(&user).start()?;
    let opened = || -> Result<usize> {
        let log = server.log()?;
        let logins = log.lines().filter(|line| line.contains("Connect"));
        Ok(logins.filter(|line| line.contains(&format!("{}@", admin.user))).count())
    };
    let before = opened()?;
    for _ in 0..3 {
        proxy.connect(&admin)?.quit()?;
    }
    wait::until("their ends", || Ok((count(&proxy, "towpath_sessions")? == 0).then_some(())))?;
    ensure!(opened()? == before, "a connection for nobody");
    let mut client = proxy.connect(&admin)?;
    client.must("SELECT 1")?;
    ensure!(opened()? == before + 1);
    client.quit()
}
