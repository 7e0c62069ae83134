//! Load balancers in front that say whose a connection is, and servers that are told.

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use e2e::{Client, Cluster, Login, Proxy, Setup, Throwaway, Vendor, skip, wait};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
};
use wire::{
    Capabilities, CommandCode,
    proxy_protocol::{Source, encode},
};

on_both_vendors!(
    clients_are_who_the_header_says,
    checks_of_health_are_nobodys_login,
    from_elsewhere_no_header_is_taken,
    bad_headers_end_in_an_error,
    none_at_all_and_slow_ones,
);

/// Where the load balancer is.
const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 8, 0, 1);

const FROM: &str = "proxy_protocol = { from = [\"127.8.0.0/16\", \"::1\"] }";

/// MariaDB's account that may come from one host alone.
const HOST: &str = "203.0.113.7";

fn v1(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 192.0.2.1 51234 3306\r\n").into_bytes()
}

fn v2(client: &str) -> Vec<u8> {
    let from = SocketAddr::new(client.parse().expect("an address"), 51234);
    let to = SocketAddr::from(([192, 0, 2, 1], 3306));
    let mut header = BytesMut::new();
    encode(Source::Tcp { from, to }, &mut header);
    header.to_vec()
}

/// What a refused login says.
fn refusal(proxy: &Proxy, login: &Login) -> Result<String> {
    Ok(proxy.connect(login).err().context("it lets anybody in")?.to_string())
}

fn clients_are_who_the_header_says(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).listener(FROM).listener_tls("prefer").start()?;
    let wrong = Login::new("app", "wrong").from(BALANCER);
    let six = b"PROXY TCP6 2001:db8::7 ::1 51234 3306\r\n".to_vec();
    for (header, host) in [
        (v1("203.0.113.7"), "203.0.113.7"),
        (v2("203.0.113.8"), "203.0.113.8"),
        (v2("::ffff:203.0.113.9"), "203.0.113.9"),
        (six, "2001:db8::7"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.8.0.1"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "127.8.0.1"),
    ] {
        let refused = refusal(&proxy, &wrong.clone().header(&header))?;
        ensure!(refused.contains(&format!("'app'@'{host}' (using password: YES)")), "{refused}");
        let login = cluster.admin().from(BALANCER).header(&header);
        for login in [login.clone(), login.tls()] {
            let mut client = proxy.connect(&login)?;
            client.must("DO 1")?;
            client.quit()?;
        }
    }
    // What comes with the header is the client's. MySQL's plugin would be asked for.
    let wrong = wrong.without(Capabilities::PLUGIN_AUTH);
    let mut stream = Client::connect_raw(&proxy.address, BALANCER)?;
    stream.write_all(&[v1("203.0.113.7"), Client::login_bytes(&wrong)].concat())?;
    let said = to_the_end(&mut stream)?;
    let expected = match cluster.vendor {
        Vendor::MariaDb => "'app'@'203.0.113.7'",
        Vendor::MySql => "does not support authentication protocol",
    };
    ensure!(said.contains(expected), "{said}");
    Ok(())
}

/// All that still comes, up to the end.
fn to_the_end(stream: &mut TcpStream) -> Result<String> {
    let mut said = Vec::new();
    stream.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn checks_of_health_are_nobodys_login(cluster: &Cluster) -> Result<()> {
    let limits = "[limits]\nmax_connect_errors = 1";
    let proxy = Setup::of(cluster).listener(FROM).append(limits).start()?;
    proxy.connect(&cluster.admin())?.quit()?;
    let failed = || -> Result<u64> {
        let (metrics, name) = (proxy.get("/metrics")?, "towpath_login_failures_total ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        Ok(value.context("no such metric")?.parse()?)
    };
    let breaks_off = |header: &[u8]| -> Result<()> {
        let before = failed()?;
        let mut stream = Client::connect_raw(&proxy.address, BALANCER)?;
        stream.write_all(header)?;
        drop(stream);
        wait::until("the login to fail", || Ok((failed()? > before).then_some(())))
    };
    for header in [&b""[..], b"PROXY", b"PROXY UNKNOWN\r\n", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        breaks_off(header)?;
    }
    let login = cluster.admin().from(BALANCER);
    proxy.connect(&login.clone().header(b"PROXY UNKNOWN\r\n"))?.quit()?;
    breaks_off(&v1("203.0.113.7"))?;
    let blocked = refusal(&proxy, &login.clone().header(&v1("203.0.113.7")))?;
    ensure!(blocked.contains("Host '203.0.113.7' is blocked"), "{blocked}");
    proxy.connect(&login.header(&v1("203.0.113.8")))?.quit()
}

fn from_elsewhere_no_header_is_taken(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).listener(FROM).start()?;
    proxy.connect(&cluster.admin())?.quit()?;
    let socket = format!("unix:{}", proxy.socket.display());
    Client::connect(&socket, &cluster.admin())?.quit()?;
    let refused = refusal(&proxy, &cluster.admin().header(&v2("203.0.113.7")))?;
    ensure!(!refused.contains("203.0.113.7") && !refused.contains("PROXY"), "{refused}");
    proxy.connect(&cluster.admin())?.quit()
}

fn bad_headers_end_in_an_error(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).listener(FROM).start()?;
    let mut long = v2("203.0.113.7");
    (long[14], long[15]) = (0xFF, 0xFF);
    for (bytes, reason) in [
        (Client::login_bytes(&cluster.admin()), "there is no PROXY protocol header"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "there is no PROXY protocol header"),
        (b"PROXY TCP4 203.0.113.7 nowhere 1 2\r\n".to_vec(), "wrong destination address"),
        (format!("PROXY UNKNOWN {}", "x".repeat(200)).into_bytes(), "more than 107 bytes"),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0".to_vec(), "wrong version"),
        (long, "more than 4096 bytes"),
    ] {
        let mut stream = Client::connect_raw(&proxy.address, BALANCER)?;
        stream.write_all(&bytes)?;
        let said = to_the_end(&mut stream)?;
        ensure!(said.contains("Bad handshake: ") && said.contains(reason), "{said:?} for {reason}");
        ensure!(!said.contains("nowhere"), "what was sent is not repeated: {said}");
    }
    proxy.connect(&cluster.admin().from(BALANCER).header(&v1("203.0.113.7")))?.quit()
}

fn none_at_all_and_slow_ones(cluster: &Cluster) -> Result<()> {
    let limits = "[limits]\nlogin_timeout = \"1s\"\nmax_pending_logins = 1";
    let raw = "[chain.main]\nsession = [{ use = \"fast-forward\", always = true }]";
    let untouched = "login = \"untouched\"\nhostgroup = 0";
    let proxied = || Setup::of(cluster).listener(FROM).append(limits);
    for proxy in [proxied().start()?, proxied().no_users().listener(untouched).append(raw).start()?]
    {
        for begun in [&b""[..], b"PROXY TCP4 203.0.113.7 ", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C"] {
            let mut stream = Client::connect_raw(&proxy.address, BALANCER)?;
            stream.write_all(begun)?;
            let said = to_the_end(&mut stream)?;
            ensure!(said.contains("no PROXY protocol header within 1s"), "{said:?}");
        }
        let login = cluster.admin().from(BALANCER).header(&v1("203.0.113.7"));
        let waiting = wait::until("one that waits to take the place", || {
            let waiting = Client::connect_raw(&proxy.address, BALANCER)?;
            let refused = proxy.connect(&login).err().map(|error| error.to_string());
            Ok(refused.is_some_and(|refused| refused.contains("1040")).then_some(waiting))
        })?;
        drop(waiting);
        wait::until("its place", || Ok(proxy.connect(&login).ok()))?.quit()?;
    }
    Ok(())
}

/// MySQL's servers have no PROXY protocol.
mod servers {
    #[test]
    fn see_the_client() -> anyhow::Result<()> {
        crate::with(e2e::Vendor::MariaDb, |_| super::servers_see_the_client())
    }
}

/// The one value of a query.
fn one(client: &mut Client, sql: &str) -> Result<String> {
    let mut rows = client.rows(sql)?;
    let row = rows.pop().with_context(|| format!("no row for {sql}"))?;
    row.into_iter().next().flatten().context("NULL")
}

fn servers_see_the_client() -> Result<()> {
    let server = Throwaway::start_with(Vendor::MariaDb, "proxy-protocol-networks=*")?;
    let cluster = &server.cluster;
    let setup = Setup::of(cluster).listener(FROM).server("send_proxy_protocol = true");
    let proxy = setup.clone().user("bound", "boundpw").start()?;
    let from = |login: Login, host: &str| login.from(BALANCER).header(&v2(host));
    let opened = || -> Result<u64> {
        let metrics = proxy.get("/metrics")?;
        let name = "towpath_backend_connects_total{";
        let line = metrics.lines().find(|line| {
            line.starts_with(name) && line.contains("hostgroup=\"0\"") && line.contains("ok")
        });
        let value = line.and_then(|line| line.rsplit(' ').next());
        Ok(value.with_context(|| format!("no {name}"))?.parse()?)
    };

    let mut first = proxy.connect(&from(cluster.admin(), HOST))?;
    assert_eq!(one(&mut first, "SELECT USER()")?, format!("admin@{HOST}"));
    let shown = "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = @@pseudo_thread_id";
    assert_eq!(one(&mut first, shown)?, format!("{HOST}:51234"));
    first.quit()?;
    pooled(&proxy)?;
    let before = opened()?;
    let mut same = proxy.connect(&from(cluster.admin(), HOST))?;
    assert_eq!(one(&mut same, "SELECT USER()")?, format!("admin@{HOST}"));
    assert_eq!(opened()?, before, "the connection of the same host serves again");
    same.quit()?;
    pooled(&proxy)?;
    let mut other = proxy.connect(&from(cluster.admin(), "203.0.113.8"))?;
    assert_eq!(one(&mut other, "SELECT USER()")?, "admin@203.0.113.8");
    assert_eq!(opened()?, before + 1, "another host has one of its own");
    // What is no load balancer's client is the proxy's own host, or the host that it is.
    let mut own = proxy.connect(&cluster.admin().from(BALANCER).header(b"PROXY UNKNOWN\r\n"))?;
    assert_eq!(one(&mut own, "SELECT USER()")?, "admin@127.8.0.1");
    let socket = format!("unix:{}", proxy.socket.display());
    let mut local = Client::connect(&socket, &cluster.admin())?;
    assert_eq!(one(&mut local, "SELECT USER()")?, "admin@127.0.0.1");

    other.must(&format!("CREATE USER bound@'{HOST}' IDENTIFIED BY 'boundpw'"))?;
    other.must(&format!("GRANT ALL ON app.* TO bound@'{HOST}'"))?;
    other.must("CREATE TABLE app.t (v INT)")?;
    other.must("INSERT INTO app.t VALUES (1)")?;
    let bound = Login::new("bound", "boundpw");
    let refused = proxy.connect(&from(bound.clone(), "203.0.113.8"))?.query("DO 1")?;
    assert_eq!(refused.error_code(), Some(1045));
    // While it waits for a row, the server does not notice that its client has gone.
    let mut holder = cluster.direct()?;
    holder.must("BEGIN")?;
    holder.must("UPDATE app.t SET v = 2")?;
    let mut running = proxy.connect(&from(bound, HOST))?;
    let waits = format!("UPDATE app.t SET v = 3 /* {} */", skip::test_name());
    running.send_command(CommandCode::QUERY, waits.as_bytes())?;
    let sql = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = '{waits}'");
    let mut until = |count: &str| {
        wait::until("the statement", || Ok((one(&mut other, &sql)? == count).then_some(())))
    };
    until("1")?;
    drop(running);
    until("0").context("the account may kill from its own host only")?;

    let relayed = setup.clone().no_users().listener("login = \"server\"\nhostgroup = 0").start()?;
    let mut client = relayed.connect(&from(cluster.admin(), HOST))?;
    assert_eq!(one(&mut client, "SELECT USER()")?, format!("admin@{HOST}"));
    let raw = "[chain.main]\nsession = [{ use = \"fast-forward\", always = true }]";
    let untouched = setup.no_users().listener("login = \"untouched\"\nhostgroup = 0").append(raw);
    let untouched = untouched.start()?;
    let mut client = untouched.connect(&from(cluster.admin(), HOST).tls())?;
    assert_eq!(one(&mut client, "SELECT USER()")?, format!("admin@{HOST}"));
    Ok(())
}

/// Waits until a connection is in the pool.
fn pooled(proxy: &Proxy) -> Result<()> {
    wait::until("a pooled connection", || {
        let metrics = proxy.get("/metrics")?;
        let mut idle =
            metrics.lines().filter(|line| line.starts_with("towpath_backend_connections{"));
        Ok(idle.any(|line| line.contains("idle") && !line.ends_with(" 0")).then_some(()))
    })
}
