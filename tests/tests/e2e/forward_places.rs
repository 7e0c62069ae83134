//! Where a session goes that leaves its chain, what else it had, and what can end it there.

use crate::forward::{count, is_forwarded, on_go, one, with_rules};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, Setup, Vendor, wait};
use wire::CommandCode;

on_both_vendors!(
    in_a_transaction_the_transaction_wins,
    a_refused_login_leaves_the_session_in_its_chain,
    only_the_server_it_is_on_counts,
    a_mirrors_copy_switches_nothing,
    a_change_of_user_without_attributes,
    a_slow_reader_of_fifty_megabytes,
);

const SWITCH: &str = "attributes = { switch_to_fast_forward = true }, apply = true";

fn switches(proxy: &Proxy) -> Result<u64> {
    count(proxy, "towpath_fast_forward_total{chain=\"main\",cause=\"rule\"}")
}

fn in_a_transaction_the_transaction_wins(cluster: &Cluster) -> Result<()> {
    let rules = format!(
        "{{ rule_id = 1, match_pattern = \"^SELECT 'go'\", destination_hostgroup = 1, {SWITCH} }}"
    );
    let proxy = with_rules(cluster, &rules).start()?;
    let schema = cluster.schema()?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t (a INT)")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t VALUES (1)")?;
    let server = one(&mut client, "SELECT @@server_id")?;
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    ensure!(one(&mut client, "SELECT @@server_id")? == server);
    client.must("INSERT INTO t VALUES (2)")?;
    client.must("ROLLBACK")?;
    ensure!(one(&mut client, "SELECT COUNT(*) FROM t")? == "0");
    client.quit()
}

fn a_refused_login_leaves_the_session_in_its_chain(cluster: &Cluster) -> Result<()> {
    let name = format!("e2e_places_{}", std::process::id());
    let rules = format!(
        "{{ rule_id = 1, match_pattern = \"^SELECT 'go'\", destination_hostgroup = 1, {SWITCH} }}"
    );
    let proxy = with_rules(cluster, &rules).user(&name, "pw").start()?;
    let login = Login::new(&name, "pw").tls();
    cluster.direct()?.must(&format!("CREATE USER {name} IDENTIFIED BY 'pw'"))?;
    let outcome = || -> Result<()> {
        let mut client = Client::connect(&proxy.address, &login)?;
        client.must("SET @mine = 7")?;
        cluster.direct()?.must(&format!("ALTER USER {name} ACCOUNT LOCK"))?;
        let locked = if cluster.vendor == Vendor::MariaDb { 4151 } else { 3118 };
        for address in &cluster.addresses[1..] {
            wait::until("the lock on each replica", || {
                let refused = Client::connect(address, &login).err();
                let code = format!("ERR {locked}");
                Ok(refused.filter(|error| error.to_string().starts_with(&code)))
            })?;
        }
        // also where nothing has run yet
        let mut fresh = Client::connect(&proxy.address, &login)?;
        for _ in 0..2 {
            for client in [&mut client, &mut fresh] {
                let refused = client.query("SELECT 'go'")?;
                ensure!(refused.error_code() == Some(locked), "{:?}", refused.error());
            }
            ensure!(!is_forwarded(&mut client)? && one(&mut client, "SELECT @mine")? == "7");
        }
        ensure!(switches(&proxy)? == 0);
        cluster.direct()?.must(&format!("ALTER USER {name} ACCOUNT UNLOCK"))?;
        wait::until("the switch", || {
            Ok(client.query("SELECT 'go'")?.error().is_none().then_some(()))
        })?;
        ensure!(is_forwarded(&mut client)?);
        fresh.must("SELECT 'go'")?;
        ensure!(is_forwarded(&mut fresh)?);
        fresh.quit()?;
        client.quit()
    }();
    cluster.direct()?.must(&format!("DROP USER {name}"))?;
    outcome
}

fn only_the_server_it_is_on_counts(cluster: &Cluster) -> Result<()> {
    let rules = format!(
        "{{ rule_id = 2, match_pattern = \"^SELECT 'there'\", destination_hostgroup = 1, apply = true }}, {}",
        on_go()
    );
    let proxy = with_rules(cluster, &rules).start()?;
    let order = |server: &str, state: &str| -> Result<()> {
        let path = format!("/servers/{server}/state");
        let (status, body) = proxy.post(&path, &format!("{{\"state\": \"{state}\"}}"))?;
        ensure!(status == 200, "{status} {body}");
        Ok(())
    };
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'there'")?;
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    for replica in &cluster.addresses[1..] {
        order(replica, "offline-hard")?;
    }
    order(&cluster.addresses[0], "offline-soft")?;
    client.must("SELECT 1")?;
    // A new session finds that all of it has been put into use.
    let mut other = proxy.connect(&cluster.admin())?;
    ensure!(other.query("SELECT 'there'")?.error().is_some());
    client.must("SELECT 2")?;
    client.send_command(CommandCode::QUERY, b"SELECT SLEEP(100)")?;
    order(&cluster.addresses[0], "offline-hard")?;
    ensure!(client.receive(CommandCode::QUERY).is_err(), "it went on");
    wait::until("its end", || Ok((count(&proxy, "towpath_forwarded_sessions")? == 0).then_some(())))
}

fn a_mirrors_copy_switches_nothing(cluster: &Cluster) -> Result<()> {
    let rules = format!(
        "{{ rule_id = 1, match_pattern = \"^SELECT 'copied'\", mirror_flagOUT = 7, apply = true }}, \
         {{ rule_id = 2, flagIN = 7, destination_hostgroup = 1, {SWITCH} }}"
    );
    let proxy = with_rules(cluster, &rules).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'copied'")?;
    wait::until("the copy", || {
        Ok((count(&proxy, "towpath_mirrored_total{outcome=\"answered\"}")? == 1).then_some(()))
    })?;
    ensure!(!is_forwarded(&mut client)? && switches(&proxy)? == 0);
    client.quit()
}

/// The command's form follows what the client has agreed on, and so does the proxy's login.
fn a_change_of_user_without_attributes(cluster: &Cluster) -> Result<()> {
    let admin = cluster.admin();
    let always = "[chain.main]\nsession = [{ use = \"fast-forward\", always = true }]\n";
    let shared = "[chain.main]\nsession = [\n{ use = \"parse\" },\n{ use = \"rules\", rules = [{ rule_id = 1, \
                  match_pattern = \"^SELECT 'go'\", attributes = { switch_to_fast_forward = true }, apply = true }] },\n\
                  { use = \"session-commands\" },\n{ use = \"fast-forward\", observe = true },\n{ use = \"route\" },\n]\n\
                  backend = [{ use = \"catch-up\" }]\n";
    let chains = [
        with_rules(cluster, &on_go()),
        Setup::of(cluster).append(always),
        Setup::of(cluster).append(shared),
    ];
    for setup in chains {
        let proxy = setup.start()?;
        // One with attributes is there first, and leaves its connection behind.
        let told = [("program_name", "first")];
        let mut first = proxy.connect(&admin.clone().attributes(&told))?;
        first.must("SELECT 1")?;
        first.quit()?;
        let login = cluster.login("app");
        let mut client = proxy.connect(&login)?;
        client.must("SELECT 'before'")?;
        client.must("SELECT 'go'")?;
        let id = one(&mut client, "SELECT CONNECTION_ID()")?;
        client.change_user(&admin)?;
        ensure!(one(&mut client, "SELECT CURRENT_USER()")?.starts_with("admin"));
        client.change_user(&login)?;
        ensure!(one(&mut client, "SELECT CURRENT_USER()")?.starts_with("app"));
        ensure!(one(&mut client, "SELECT CONNECTION_ID()")? == id);
        client.quit()?;
    }
    Ok(())
}

const FIFTY: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) \
                     SELECT REPEAT('x', 1000000) FROM n";

/// Asks for the large result, reads nothing, and waits until what is on its way stands still. How
/// many bytes have gone out.
fn ask_and_wait(proxy: &Proxy, client: &mut Client) -> Result<u64> {
    let told = || count(proxy, "towpath_forwarded_bytes_total{direction=\"down\"}");
    let before = told()?;
    client.send_command(CommandCode::QUERY, FIFTY.as_bytes())?;
    let mut last = 0;
    wait::until("back-pressure", || {
        let now = told()? - before;
        let stands = now > 0 && std::mem::replace(&mut last, now) == now;
        Ok(stands.then_some(now))
    })
}

fn a_slow_reader_of_fifty_megabytes(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 'go'")?;
    let thread = one(&mut client, "SELECT CONNECTION_ID()")?;
    // all of it arrives, whenever it is read
    let sent = ask_and_wait(&proxy, &mut client)?;
    ensure!(sent < 50_000_000, "{sent} bytes for one that reads nothing");
    let rows = client.receive(CommandCode::QUERY)?.rows(client.capabilities)?;
    let whole =
        |row: &Vec<Option<String>>| matches!(&row[..], [Some(value)] if value.len() == 1_000_000);
    ensure!(rows.len() == 50 && rows.iter().all(whole));
    // and behind a server that has closed what it had sent
    ask_and_wait(&proxy, &mut client)?;
    cluster.direct()?.must(&format!("KILL {thread}"))?;
    ensure!(client.receive(CommandCode::QUERY).is_err(), "half of a result");
    wait::until("the session to be gone", || {
        Ok((count(&proxy, "towpath_forwarded_sessions")? == 0).then_some(()))
    })
}
