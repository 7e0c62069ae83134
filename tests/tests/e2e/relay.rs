//! Listeners whose logins are the servers' to check.

use anyhow::{Result, ensure};
use e2e::{
    Client, Cluster, Login, Proxy, Setup, Vendor, program, skip,
    transcript::{Transcript, same},
    wait,
};
use std::process::Command;
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    accounts_that_the_proxy_does_not_know,
    refusals_are_the_servers_own,
    every_pair_of_hops,
    the_greeting_is_the_servers,
    a_session_like_any_other,
    compression_on_either_hop,
    changes_of_user,
    a_change_of_user_that_is_refused,
    the_connection_is_nobody_elses,
    kill_by_the_clients_id,
    a_server_that_goes_away,
    no_server_at_all,
    full_servers,
    command_lines,
    drivers,
);

/// A proxy that knows no user.
fn relaying(cluster: &Cluster) -> Setup {
    Setup::of(cluster).no_users().listener("login = \"server\"\nhostgroup = 0")
}

fn whoami(client: &mut Client) -> Result<String> {
    let rows = client.rows("SELECT CURRENT_USER()")?;
    Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
}

fn accounts_that_the_proxy_does_not_know(cluster: &Cluster) -> Result<()> {
    let proxy = relaying(cluster).start()?;
    let socket = format!("unix:{}", proxy.socket.display());
    for (name, _) in &cluster.users {
        // The hop to the server has neither TLS nor a certificate, and the cluster no plugins.
        if ["app_ssl", "app_x509", "app_ed", "app_parsec"].contains(&name.as_str()) {
            continue;
        }
        for address in [&proxy.address, &socket] {
            let mut client = Client::connect(address, &cluster.login(name))?;
            ensure!(whoami(&mut client)? == format!("{name}@%"));
            client.quit()?;
        }
    }
    Ok(())
}

fn refusal(address: &str, login: &Login) -> String {
    match Client::connect(address, login) {
        Ok(_) => panic!("{address} lets {:?} in", login.user),
        Err(refused) => refused.to_string(),
    }
}

fn refusals_are_the_servers_own(cluster: &Cluster) -> Result<()> {
    let proxy = relaying(cluster).start()?;
    let app = cluster.login("app");
    for login in [
        Login::new("app", "wrong"),
        Login::new("app", ""),
        Login::new("app_nopw", "given although there is none"),
        Login::new("nobody_at_all", "wrong"),
        Login::new("nobody_at_all", ""),
        Login::new("", ""),
        cluster.login("app_ssl"),
        app.clone().schema("no_such_schema"),
        app.schema("mysql"),
    ] {
        let direct = refusal(&cluster.addresses[0], &login);
        assert!(direct.starts_with("ERR "), "{direct}");
        assert_eq!(direct, refusal(&proxy.address, &login), "{:?}", login.user);
    }
    Ok(())
}

/// An account of the test's own, with a plugin of the vendor's; the server has not seen its
/// password, so that MySQL wants the password itself.
fn fresh(cluster: &Cluster, name: &str, plugin: &str) -> Result<Login> {
    let mut admin = cluster.direct()?;
    admin.must(&format!("DROP USER IF EXISTS {name}@'%'"))?;
    let identified = match cluster.vendor {
        Vendor::MariaDb => format!("IDENTIFIED VIA {plugin} USING PASSWORD('fresh pw')"),
        Vendor::MySql => format!("IDENTIFIED WITH {plugin} BY 'fresh pw'"),
    };
    admin.must(&format!("CREATE USER {name}@'%' {identified}"))?;
    admin.quit()?;
    Ok(Login::new(name, "fresh pw"))
}

fn every_pair_of_hops(cluster: &Cluster) -> Result<()> {
    let plugins: &[&str] = match cluster.vendor {
        Vendor::MariaDb => &["mysql_native_password"],
        Vendor::MySql => &["caching_sha2_password", "sha256_password"],
    };
    let name = format!("e2e_hops_{}", cluster.vendor);
    for tls in ["disable", "require"] {
        let proxy = relaying(cluster)
            .listener_tls("prefer")
            .server(&format!("tls = {{ mode = {tls:?} }}"))
            .start()?;
        let socket = format!("unix:{}", proxy.socket.display());
        for plugin in plugins {
            for begin in ["caching_sha2_password", "sha256_password", "mysql_native_password"] {
                for (address, by_tls) in
                    [(&proxy.address, false), (&proxy.address, true), (&socket, false)]
                {
                    let login = fresh(cluster, &name, plugin)?.plugin(begin);
                    let login = if by_tls { login.tls() } else { login };
                    let what = format!("{plugin}, server {tls}, {begin}, {address}, TLS {by_tls}");
                    let mut wrong = login.clone();
                    wrong.password = "wrong".into();
                    let refused = refusal(address, &wrong);
                    ensure!(refused.starts_with("ERR 1045 (28000)"), "{what}: {refused}");
                    // Once in full, once by what the server has cached then.
                    for _ in 0..2 {
                        let mut client = Client::connect(address, &login)
                            .map_err(|e| e.context(what.clone()))?;
                        ensure!(whoami(&mut client)? == format!("{name}@%"), "{what}");
                        let cipher = client.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?;
                        let encrypted = cipher[0][1].as_deref() != Some("");
                        ensure!(encrypted == (tls == "require"), "{what}: {cipher:?}");
                        client.quit()?;
                    }
                }
            }
        }
    }
    let mut admin = cluster.direct()?;
    admin.must(&format!("DROP USER {name}@'%'"))?;
    admin.quit()
}

fn the_greeting_is_the_servers(cluster: &Cluster) -> Result<()> {
    let proxy = relaying(cluster).start()?;
    let (direct, client) = (cluster.direct()?, proxy.connect(&cluster.admin())?);
    let (theirs, ours) = (&direct.greeting, &client.greeting);
    assert_eq!(ours.server_version, theirs.server_version);
    assert_eq!(ours.plugin, theirs.plugin);
    assert_eq!(ours.collation, theirs.collation);
    assert_eq!(ours.status, theirs.status);
    for needed in [Capabilities::WIRE_FORMAT, Capabilities::BEHAVIOUR] {
        let offered = ours.capabilities.intersection(needed);
        assert_eq!(offered, theirs.capabilities.intersection(needed));
    }
    client.quit()?;
    direct.quit()
}

fn script(client: &mut Client, transcript: &mut Transcript) -> Result<()> {
    for sql in [
        "SELECT DATABASE() IS NULL, @@character_set_client, @@collation_connection",
        "CREATE TEMPORARY TABLE t (a INT PRIMARY KEY, b VARCHAR(99))",
        "INSERT INTO t VALUES (1, 'one'), (2, NULL)",
        "BEGIN",
        "SELECT * FROM t ORDER BY a",
        "SELECT nonsense",
        "COMMIT",
        "SET NAMES latin1",
        "SELECT REPEAT('x', 100000)",
        "SHOW WARNINGS",
    ] {
        transcript.add(sql, &client.query(sql)?);
    }
    transcript.add("ping", &client.command(CommandCode::PING, b"")?);
    transcript.add("reset", &client.command(CommandCode::RESET_CONNECTION, b"")?);
    transcript.add("gone", &client.query("SELECT * FROM t")?);
    Ok(())
}

fn a_session_like_any_other(cluster: &Cluster) -> Result<()> {
    let proxy = relaying(cluster).listener_tls("prefer").start()?;
    for login in [cluster.admin(), cluster.admin().tls()] {
        same(cluster, &proxy, &login, script)?;
        same(cluster, &proxy, &login.without(Capabilities::DEPRECATE_EOF), script)?;
    }
    Ok(())
}

fn compression_on_either_hop(cluster: &Cluster) -> Result<()> {
    let algorithms: &[&str] = match cluster.vendor {
        Vendor::MariaDb => &["none", "zlib"],
        Vendor::MySql => &["none", "zlib", "zstd"],
    };
    for server in algorithms {
        let proxy = relaying(cluster).server(&format!("compression = {server:?}")).start()?;
        same(cluster, &proxy, &cluster.admin(), script)?;
        same(cluster, &proxy, &cluster.admin().zlib(), script)?;
        same(cluster, &proxy, &cluster.admin().zstd(3), script)?;
    }
    Ok(())
}

fn changes_of_user(cluster: &Cluster) -> Result<()> {
    let name = format!("e2e_change_{}", cluster.vendor);
    for tls in ["disable", "require"] {
        let setup = relaying(cluster).server(&format!("tls = {{ mode = {tls:?} }}"));
        let proxy = setup.listener_tls("prefer").start()?;
        for base in [cluster.admin(), cluster.admin().tls()] {
            let plugin = match cluster.vendor {
                Vendor::MariaDb => "mysql_native_password",
                Vendor::MySql => "caching_sha2_password",
            };
            let fresh = fresh(cluster, &name, plugin)?;
            let mut client = proxy.connect(&base)?;
            client.must("CREATE TEMPORARY TABLE app.left_behind (a INT)")?;
            for login in [cluster.login("app").schema("app"), fresh, cluster.login("app_nopw")] {
                client.change_user(&login)?;
                ensure!(whoami(&mut client)? == format!("{}@%", login.user));
                let gone = client.query("SELECT * FROM app.left_behind")?;
                ensure!(gone.error().is_some(), "a temporary table of the user before");
            }
            client.change_user(&cluster.login("app").schema("app"))?;
            ensure!(client.rows("SELECT DATABASE()")? == [[Some("app".to_owned())]]);
            client.quit()?;
        }
    }
    let mut admin = cluster.direct()?;
    admin.must(&format!("DROP USER {name}@'%'"))?;
    admin.quit()
}

fn a_change_of_user_that_is_refused(cluster: &Cluster) -> Result<()> {
    let proxy = relaying(cluster).start()?;
    let outcome = |address: &str| -> Result<(String, Option<String>)> {
        let mut client = Client::connect(address, &cluster.admin())?;
        let refused = client.change_user(&Login::new("app", "wrong")).expect_err("refused");
        // MariaDB keeps the connection for the user before, MySQL closes it.
        Ok((refused.to_string(), whoami(&mut client).ok()))
    };
    let direct = outcome(&cluster.addresses[0])?;
    assert_eq!(direct, outcome(&proxy.address)?);
    Ok(())
}

/// How many connections the server has of this account.
fn connections(cluster: &Cluster, user: &str) -> Result<String> {
    let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ";
    cluster.ask(&format!("{sql}'{user}'"))
}

fn the_connection_is_nobody_elses(cluster: &Cluster) -> Result<()> {
    let name = format!("e2e_alone_{}", cluster.vendor);
    let plugin = match cluster.vendor {
        Vendor::MariaDb => "mysql_native_password",
        Vendor::MySql => "caching_sha2_password",
    };
    let login = fresh(cluster, &name, plugin)?;
    let proxy = relaying(cluster).start()?;
    let mut first = proxy.connect(&login)?;
    first.must("SET @mine = 1")?;
    let second = proxy.connect(&login)?;
    ensure!(connections(cluster, &name)? == "2");
    first.quit()?;
    wait::until("the first session's connection to be closed", || {
        Ok((connections(cluster, &name)? == "1").then_some(()))
    })?;
    // One that vanishes without a word takes its connection along too.
    drop(second);
    wait::until("the second session's connection to be closed", || {
        Ok((connections(cluster, &name)? == "0").then_some(()))
    })?;
    let mut third = proxy.connect(&login)?;
    ensure!(third.rows("SELECT @mine")? == [[None]]);
    third.quit()?;
    let mut admin = cluster.direct()?;
    admin.must(&format!("DROP USER {name}@'%'"))?;
    admin.quit()
}

fn kill_by_the_clients_id(cluster: &Cluster) -> Result<()> {
    let proxy = relaying(cluster).start()?;
    let mut victim = proxy.connect(&cluster.login("app"))?;
    let id = victim.greeting.thread_id;
    ensure!(victim.rows("SELECT CONNECTION_ID()")? == [[Some(id.to_string())]]);
    // Before and after a change of user: the connection is the same.
    victim.change_user(&cluster.login("app_ro"))?;
    ensure!(victim.rows("SELECT CONNECTION_ID()")? == [[Some(id.to_string())]]);
    let mut killer = proxy.connect(&cluster.login("app"))?;
    let denied = killer.query(&format!("KILL {id}"))?;
    ensure!(denied.error_code() == Some(1095), "another account's: {:?}", denied.error());
    killer.change_user(&cluster.login("app_ro"))?;
    killer.must(&format!("KILL {id}"))?;
    ensure!(victim.query("SELECT 1").map_or(true, |reply| reply.error().is_some()), "it is gone");
    killer.must("SELECT 1")?;
    killer.quit()
}

fn a_server_that_goes_away(cluster: &Cluster) -> Result<()> {
    let proxy = relaying(cluster).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let id = client
        .rows("SELECT id FROM information_schema.processlist WHERE info LIKE '%goes away%'")?;
    let id = id[0][0].clone().unwrap_or_default();
    let mut admin = cluster.direct()?;
    admin.must(&format!("KILL {id}"))?;
    admin.quit()?;
    ensure!(client.read_some().is_err() || client.query("SELECT 1").is_err(), "it ends");
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 1")?;
    client.quit()
}

fn no_server_at_all(cluster: &Cluster) -> Result<()> {
    let nowhere = Cluster { addresses: vec!["127.0.0.1:1".into()], ..cluster.clone() };
    let proxy = relaying(&nowhere).append("[backend]\nconnect_budget = \"100ms\"").start()?;
    let refused = refusal(&proxy.address, &cluster.admin());
    ensure!(refused.starts_with("ERR 9001"), "{refused}");
    Ok(())
}

fn full_servers(cluster: &Cluster) -> Result<()> {
    let setup = relaying(cluster).server("max_connections = 1");
    let proxy = setup.append("[backend]\nconnect_budget = \"200ms\"").start()?;
    let first = proxy.connect(&cluster.admin())?;
    let refused = refusal(&proxy.address, &cluster.admin());
    ensure!(refused.starts_with("ERR 9001"), "{refused}");
    first.quit()?;
    wait::until("room for another", || Ok(proxy.connect(&cluster.admin()).ok()))?.quit()
}

fn command_lines(cluster: &Cluster) -> Result<()> {
    for (server, tls) in
        [("disable", false), ("disable", true), ("require", false), ("require", true)]
    {
        let setup = relaying(cluster).server(&format!("tls = {{ mode = {server:?} }}"));
        let proxy = setup.listener_tls("prefer").start()?;
        let (host, port) = proxy.host_and_port();
        for (program, arguments) in [
            (program::mariadb(), ["--skip-ssl", "--ssl"]),
            (program::mysql(), ["--ssl-mode=DISABLED", "--ssl-mode=REQUIRED"]),
        ] {
            let Some(program) = program else { continue };
            let login = cluster.login("app");
            let mut command = Command::new(&program);
            command.args(["--no-defaults", "--batch", "--skip-column-names", "-h", host]);
            command.args(["-P", port, "-u", &login.user, &format!("-p{}", login.password)]);
            command.arg(arguments[usize::from(tls)]);
            if program.ends_with("mysql") {
                command.arg("--get-server-public-key");
            }
            command.args(["-e", "SELECT CURRENT_USER()", "app"]);
            let output = program::run(&mut command, "")?.good()?;
            ensure!(output.stdout.trim() == "app@%", "{output:?}");
        }
    }
    Ok(())
}

fn drivers(cluster: &Cluster) -> Result<()> {
    let Some(python) = program::python() else {
        skip::report("Python's drivers are not installed");
        return Ok(());
    };
    let proxy = relaying(cluster).server("tls = { mode = \"require\" }").start()?;
    let (host, port) = proxy.host_and_port();
    let login = cluster.login("app");
    let code = "import sys, pymysql\n\
                c = pymysql.connect(host=sys.argv[1], port=int(sys.argv[2]), user=sys.argv[3], password=sys.argv[4])\n\
                k = c.cursor(); k.execute('SELECT CURRENT_USER()'); print(k.fetchone()[0])\n";
    let mut command = Command::new(python);
    command.args(["-c", code, host, port, &login.user, &login.password]);
    let output = program::run(&mut command, "")?.good()?;
    ensure!(output.stdout.trim() == "app@%", "{output:?}");
    Ok(())
}

/// The proxy cannot log in by itself: it is asked nothing that it would need another connection for.
fn signed(cluster: &Cluster, user: &str) -> Result<()> {
    let whoever = format!("{user}@%");
    for tls in ["disable", "require"] {
        let setup = relaying(cluster).server(&format!("tls = {{ mode = {tls:?} }}"));
        let proxy: Proxy = setup.listener_tls("prefer").start()?;
        for login in [cluster.login(user), cluster.login(user).tls()] {
            let mut client = proxy.connect(&login)?;
            ensure!(whoami(&mut client)? == whoever);
            client.change_user(&cluster.login("app"))?;
            client.change_user(&login)?;
            ensure!(whoami(&mut client)? == whoever);
            client.quit()?;
        }
    }
    Ok(())
}

#[test]
fn mariadbs_ed25519() -> Result<()> {
    crate::plugins::ed25519_server()?.map_or(Ok(()), |cluster| signed(&cluster, "app_ed"))
}

#[test]
fn mariadbs_parsec() -> Result<()> {
    crate::plugins::parsec_server()?.map_or(Ok(()), |cluster| signed(&cluster, "app_parsec"))
}
