//! Who gets in, and what those are told who do not.

use anyhow::Result;
use e2e::{Client, Cluster, Login, Proxy, Setup, Vendor, wait};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    the_accounts_of_the_file,
    refusals_are_the_servers,
    a_schema_at_login,
    every_plugin_a_client_may_begin_with,
    the_greeting_looks_like_the_servers,
    a_unix_socket,
    an_unknown_user_waits_no_less,
    garbage_before_login,
    more_connections_than_allowed,
    accounts_that_the_server_does_not_let_in,
    a_greeting_that_changes,
    the_greeting_of_the_users_servers,
);

fn the_accounts_of_the_file(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    for name in ["admin", "app", "app_ro", "app_nopw", "sbtest"] {
        let mut client = proxy.connect(&cluster.login(name))?;
        let rows = client.rows("SELECT CURRENT_USER()")?;
        assert_eq!(rows, [[Some(format!("{name}@%"))]]);
        client.quit()?;
    }
    Ok(())
}

/// The error that `address` refuses a login with.
fn refusal(address: &str, login: &Login) -> String {
    match Client::connect(address, login) {
        Ok(_) => panic!("{address} lets {:?} in", login.user),
        Err(refused) => refused.to_string(),
    }
}

/// The error must be the same directly and through the proxy.
fn refused(cluster: &Cluster, proxy: &Proxy, login: &Login) {
    let direct = refusal(&cluster.addresses[0], login);
    assert!(direct.starts_with("ERR "), "{direct}");
    assert_eq!(direct, refusal(&proxy.address, login));
}

fn refusals_are_the_servers(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let app = cluster.login("app");
    refused(cluster, &proxy, &Login::new("app", "wrong"));
    refused(cluster, &proxy, &Login::new("app", ""));
    refused(cluster, &proxy, &Login::new("app_nopw", "given although there is none"));
    refused(cluster, &proxy, &app.clone().schema("no_such_schema"));
    refused(cluster, &proxy, &app.schema("mysql"));
    // MySQL asks strangers for a plugin chosen by their name; the text at the end is the same
    for password in ["wrong", ""] {
        let known = refusal(&cluster.addresses[0], &Login::new("app", password));
        let stranger = refusal(&proxy.address, &Login::new("nobody", password));
        assert_eq!(stranger, known.replace("'app'", "'nobody'"));
    }
    Ok(())
}

fn a_schema_at_login(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let schema = cluster.schema()?;
    let admin = cluster.admin();
    // one after the other over the same pool: nothing of the one is left for the next
    for name in [Some(schema.name.as_str()), None, Some("app"), None] {
        let login = name.map_or(admin.clone(), |name| admin.clone().schema(name));
        let mut client = proxy.connect(&login)?;
        assert_eq!(client.rows("SELECT DATABASE()")?, [[name.map(str::to_owned)]]);
        client.quit()?;
    }
    Ok(())
}

fn every_plugin_a_client_may_begin_with(cluster: &Cluster) -> Result<()> {
    for ours in ["mysql_native_password", "caching_sha2_password"] {
        let proxy = Setup::of(cluster)
            .listener(&format!("default_auth = {ours:?}"))
            .listener_tls("prefer")
            .start()?;
        for theirs in ["mysql_native_password", "caching_sha2_password", "unheard_of"] {
            for name in ["admin", "app_nopw"] {
                for login in [cluster.login(name), cluster.login(name).tls()] {
                    let mut client = proxy.connect(&login.plugin(theirs))?;
                    client.must("SELECT 1")?;
                    client.quit()?;
                }
            }
            let wrong = proxy.connect(&Login::new("admin", "wrong").plugin(theirs));
            assert!(wrong.is_err(), "{ours}, {theirs}: a wrong password gets in");
        }
    }
    Ok(())
}

fn the_greeting_looks_like_the_servers(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let direct = cluster.direct()?;
    let client = proxy.connect(&cluster.admin())?;
    let (theirs, ours) = (&direct.greeting, &client.greeting);
    assert_eq!(ours.server_version, theirs.server_version);
    assert_eq!(ours.plugin, theirs.plugin);
    assert_eq!(ours.collation, theirs.collation);
    assert_eq!(ours.status, theirs.status);
    // the proxy may offer less (compression), never what the server does not have
    let beyond = ours.capabilities.difference(theirs.capabilities);
    assert_eq!(beyond.difference(Capabilities::SSL), Capabilities::EMPTY);
    for needed in [Capabilities::WIRE_FORMAT, Capabilities::BEHAVIOUR] {
        let offered = ours.capabilities.intersection(needed);
        assert_eq!(offered, theirs.capabilities.intersection(needed));
    }
    assert!(ours.thread_id >= 1 << 31, "ids of the proxy are above those of servers");
    Ok(())
}

fn a_unix_socket(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let address = format!("unix:{}", proxy.socket.display());
    let mut client = Client::connect(&address, &cluster.admin())?;
    assert_eq!(client.rows("SELECT 'socket'")?, [[Some("socket".to_owned())]]);
    client.quit()
}

fn an_unknown_user_waits_no_less(cluster: &Cluster) -> Result<()> {
    // the number and kind of packets must not tell whether an account exists
    let proxy = Proxy::start(cluster)?;
    for plugin in ["mysql_native_password", "caching_sha2_password"] {
        let steps = |user: &str| -> Vec<u8> {
            let login = Login::new(user, "wrong").plugin(plugin);
            let mut seen = Vec::new();
            assert!(Client::connect_seeing(&proxy.address, &login, &mut seen).is_err());
            seen
        };
        assert_eq!(steps("admin"), steps("nobody_of_that_name"), "{plugin}");
    }
    Ok(())
}

fn garbage_before_login(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let random: Vec<u8> =
        (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for garbage in [
        &b""[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\x01",
        b"\0\0\0\x01",
        b"\x01\0\0\x01\x03",
        b"\x20\0\0\x01\xff\xff\xff\xff\0\0\0\x01\xff",
        &random,
        &random[2048..],
    ] {
        e2e::client::throw(&proxy.address, garbage)?;
    }
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 1")?;
    client.quit()
}

fn more_connections_than_allowed(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[limits]\nmax_connections = 2").start()?;
    let mut first = proxy.connect(&cluster.admin())?;
    let second = proxy.connect(&cluster.admin())?;
    let Err(refused) = proxy.connect(&cluster.admin()) else { panic!("a third one gets in") };
    assert!(refused.to_string().contains("1040"), "{refused}");
    // a place is free as soon as one has gone
    second.quit()?;
    wait::until("a free place", || Ok(proxy.connect(&cluster.admin()).ok()))?.quit()?;
    first.command(CommandCode::PING, b"")?;
    first.quit()
}

/// Locked, expired, limited by the hour: the servers' own words reach the client, with a schema as
/// the answer to the login.
fn accounts_that_the_server_does_not_let_in(cluster: &Cluster) -> Result<()> {
    let name = |kind: &str| format!("e2e_{kind}_{}", std::process::id());
    let kinds = [
        ("locked", "ACCOUNT LOCK"),
        ("expired", "PASSWORD EXPIRE"),
        ("hourly", "WITH MAX_CONNECTIONS_PER_HOUR 1"),
    ];
    let mut admin = cluster.direct()?;
    let mut setup = Setup::of(cluster);
    for (kind, how) in kinds {
        let name = name(kind);
        admin.must(&format!("CREATE USER {name} IDENTIFIED BY 'pw' {how}"))?;
        admin.must(&format!("GRANT SELECT ON app.* TO {name}"))?;
        setup = setup.user(&name, "pw");
    }
    let compared = setup.start().and_then(|proxy| {
        for kind in ["locked", "expired", "hourly", "hourly"] {
            let login = Login::new(&name(kind), "pw").tls().schema("app");
            let outcome = |address: &str| match Client::connect(address, &login) {
                Ok(mut client) => client.query("SELECT 1").map(|reply| {
                    reply.error().map_or_else(|| "served".to_owned(), |error| error.to_string())
                }),
                Err(refused) => Ok(refused.to_string()),
            };
            let direct = outcome(&cluster.addresses[0])?;
            let proxied = outcome(&proxy.address)?;
            match kind {
                // one connection in an hour, whoever opens it
                "hourly" => assert!(
                    proxied.contains("1226") && proxied.contains("max_connections_per_hour"),
                    "{proxied}"
                ),
                _ => assert_eq!(proxied, direct, "{kind}"),
            }
        }
        // a client that can, is let in to change its password, and to nothing else
        let able = Login::new(&name("expired"), "pw")
            .tls()
            .with(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS);
        let sandbox = |address: &str| -> Result<Vec<Option<String>>> {
            let mut client = Client::connect(address, &able)?;
            let answers =
                ["SELECT 1", "USE app", "ALTER USER USER() IDENTIFIED BY 'pw'", "SELECT 1"];
            answers
                .iter()
                .map(|sql| Ok(client.query(sql)?.error().map(|e| e.to_string())))
                .collect()
        };
        let direct = sandbox(&cluster.addresses[0])?;
        cluster.direct()?.must(&format!("ALTER USER {} PASSWORD EXPIRE", name("expired")))?;
        let proxied = sandbox(&proxy.address)?;
        assert!(direct[0].as_ref().is_some_and(|error| error.contains("1820")), "{direct:?}");
        assert_eq!(proxied, direct);
        Ok(())
    });
    for (kind, _) in kinds {
        admin.must(&format!("DROP USER {}", name(kind)))?;
    }
    admin.quit()?;
    compared
}

/// A way to a server that gives it another version once it is told to.
fn upgraded(server: &str, upgrade: Arc<AtomicBool>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let server = server.to_owned();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(mut server)) = (client, TcpStream::connect(&server)) else {
                return;
            };
            let mut greeting = vec![0; 4096];
            let Ok(length) = server.read(&mut greeting) else { return };
            greeting.truncate(length);
            if upgrade.load(Relaxed) {
                // the last digit before the NUL or the dash that ends the number
                let end = greeting[5..].iter().position(|byte| [0, b'-'].contains(byte));
                let end = end.map_or(5, |end| end + 5);
                let digit =
                    greeting[5..end].iter().rposition(u8::is_ascii_digit).map_or(5, |at| at + 5);
                greeting[digit] = b'x';
            }
            let copy = |mut from: TcpStream, mut to: TcpStream| {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            };
            let Ok(()) = (&client).write_all(&greeting) else { continue };
            let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
            thread::spawn(move || copy(from, to));
            thread::spawn(move || copy(server, client));
        }
    });
    Ok(address)
}

fn a_greeting_that_changes(cluster: &Cluster) -> Result<()> {
    let upgrade = Arc::new(AtomicBool::new(false));
    let mut behind = cluster.clone();
    behind.addresses[0] = upgraded(&cluster.addresses[0], upgrade.clone())?;
    let proxy = Setup::of(&behind).append("[backend]\npool_max_idle = 0").start()?;
    let version = || -> Result<Vec<u8>> {
        let mut client = proxy.connect(&cluster.admin())?;
        client.must("SELECT 1")?;
        let version = client.greeting.server_version.clone();
        client.quit()?;
        Ok(version)
    };
    let before = version()?;
    assert_eq!(before, cluster.direct()?.greeting.server_version);
    upgrade.store(true, Relaxed);
    let after =
        wait::until("the new version", || Ok(Some(version()?).filter(|now| *now != before)))?;
    assert!(after.contains(&b'x'), "{}", after.escape_ascii());
    upgrade.store(false, Relaxed);
    wait::until("the old version", || Ok((version()? == before).then_some(())))
}

/// The first server of the file is another vendor's, and no user goes there.
fn the_greeting_of_the_users_servers(cluster: &Cluster) -> Result<()> {
    let other = match cluster.vendor {
        Vendor::MariaDb => Vendor::MySql,
        Vendor::MySql => Vendor::MariaDb,
    };
    let Some(other) = Cluster::find(other)? else { return Ok(()) };
    let mut both = cluster.clone();
    both.addresses = vec![other.addresses[0].clone()];
    // the cluster's own server comes behind it, and the users' hostgroup is its
    let user = "[[user]]\nname = \"of_two\"\npassword = \"\"\nhostgroup = 2\n";
    let server = format!("[[server]]\nhostgroup = 2\naddress = {:?}\n", cluster.addresses[0]);
    both.users.clear();
    let proxy = Setup::of(&both).append(user).append(&server).start()?;
    let client = Client::connect(&proxy.address, &Login::new("of_two", ""))?;
    assert_eq!(client.greeting.server_version, cluster.direct()?.greeting.server_version);
    client.quit()
}
