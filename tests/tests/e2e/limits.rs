//! What a client can make grow is bounded; beyond a bound it is told what a server says.

use anyhow::{Context, Result};
use e2e::{Client, Cluster, Login, Proxy, Setup, Vendor, client::Statement, wait};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};
use wire::CommandCode;

on_both_vendors!(
    hosts_whose_logins_break_off,
    pending_logins,
    the_packets_of_a_login,
    prepared_statements,
    buffered_commands,
    connections_of_a_user,
);

/// A TCP connection that comes from `host`, one of the loopback addresses.
fn from(host: [u8; 4], to: &str) -> Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((host, 0)).into())?;
    socket.connect(&to.parse::<SocketAddr>()?.into())?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(wait::LIMIT))?;
    Ok(stream)
}

/// The next packet: its sequence id and its payload.
fn packet(stream: &mut TcpStream) -> Result<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let [a, b, c, seq] = header;
    let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    stream.read_exact(&mut payload)?;
    Ok((seq, payload))
}

/// The value of a metric without labels.
fn metric(proxy: &Proxy, name: &str) -> Result<u64> {
    let metrics = proxy.get("/metrics")?;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.with_context(|| format!("no {name}"))?.parse()?)
}

fn hosts_whose_logins_break_off(cluster: &Cluster) -> Result<()> {
    let limits = "[limits]\nmax_connect_errors = 2\nconnect_errors_expire = \"1s\"";
    let proxy = Setup::of(cluster).append(limits).start()?;
    proxy.connect(&cluster.admin())?.quit()?;
    let (bad, good) = ([127, 9, 9, 9], [127, 9, 9, 8]);
    let failed = || metric(&proxy, "towpath_login_failures_total");
    let breaks_off = |bytes: &[u8]| -> Result<()> {
        let before = failed()?;
        let mut stream = from(bad, &proxy.address)?;
        assert_eq!(packet(&mut stream)?.1[0], 10, "a greeting");
        stream.write_all(bytes)?;
        drop(stream);
        wait::until("the login to fail", || Ok((failed()? > before).then_some(())))
    };
    breaks_off(b"")?;
    breaks_off(b"\x01\0\0\x01\x03")?;
    let tool = if cluster.vendor == Vendor::MariaDb { "mariadb-admin" } else { "mysqladmin" };
    let refusal = format!(
        "Host '127.9.9.9' is blocked because of many connection errors; unblock with '{tool} flush-hosts'"
    );
    // before the login an ERR packet has no SQLSTATE
    let expected = [&[0xFF, 0x69, 0x04], refusal.as_bytes()].concat();
    assert_eq!(packet(&mut from(bad, &proxy.address)?)?, (0, expected));
    assert_eq!(metric(&proxy, "towpath_hosts_refused_total")?, 1);
    assert_eq!(packet(&mut from(good, &proxy.address)?)?.1[0], 10, "another host is greeted");
    wait::until("the host to be forgiven", || {
        Ok((packet(&mut from(bad, &proxy.address)?)?.1[0] == 10).then_some(()))
    })
}

fn pending_logins(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[limits]\nmax_pending_logins = 1").start()?;
    let first = proxy.connect(&cluster.admin())?;
    let mut waits = TcpStream::connect(&proxy.address)?;
    packet(&mut waits)?;
    let Err(refused) = proxy.connect(&cluster.admin()) else { panic!("a second login goes on") };
    assert!(refused.to_string().contains("1040"), "{refused}");
    drop(waits);
    wait::until("the place", || Ok(proxy.connect(&cluster.admin()).ok()))?.quit()?;
    first.quit()
}

/// Malformed, out of order, too large: directly and through the proxy.
fn the_packets_of_a_login(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[limits]\nmax_login_packet = \"1MiB\"").start()?;
    let answer = |address: &str, bytes: &[u8]| -> Result<(u8, Vec<u8>)> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(wait::LIMIT))?;
        packet(&mut stream)?;
        stream.write_all(bytes)?;
        packet(&mut stream)
    };
    for bytes in
        [&b"\0\0\0\x01"[..], b"\x01\0\0\x01\x03", b"\x20\0\0\x03", b"GET / HTTP/1.1\r\n\r\n"]
    {
        let direct = answer(&cluster.addresses[0], bytes)?;
        assert_eq!(direct.1[0], 0xFF);
        assert_eq!(answer(&proxy.address, bytes)?, direct, "{}", bytes.escape_ascii());
    }
    let (_, refusal) = answer(&proxy.address, b"\xFF\xFF\x7F\x01and so on")?;
    let text = "Got a packet bigger than 'max_allowed_packet' bytes";
    assert_eq!(refusal, [&b"\xFF\x81\x04#08S01"[..], text.as_bytes()].concat());
    Ok(())
}

fn prepared_statements(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[limits]\nmax_prepared_statements = 2").start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let prepare = |client: &mut Client, sql: &str| -> Result<Result<Statement, String>> {
        let statement = client.prepare(sql)?;
        let error = statement.reply.error().map(|error| error.to_string());
        Ok(error.map_or(Ok(statement), Err))
    };
    let close = |client: &mut Client, id: u32| {
        client.send_command(CommandCode::STMT_CLOSE, &id.to_le_bytes())
    };
    let first = prepare(&mut client, "SELECT 1")?.expect("there is room");
    let second = prepare(&mut client, "SELECT ?")?.expect("there is room");
    let refused = prepare(&mut client, "SELECT 3")?.err().context("a third one")?;
    let text = "Can't create more than max_prepared_stmt_count statements (current value: 2)";
    for part in ["1461", "42000", text] {
        assert!(refused.contains(part), "{refused}");
    }
    // an id that is not there makes no room, nor does a statement that fails take any
    close(&mut client, 77)?;
    assert!(prepare(&mut client, "SELECT 3")?.is_err());
    close(&mut client, first.id)?;
    assert!(prepare(&mut client, "SELEC")?.is_err_and(|error| error.contains("1064")));
    assert!(prepare(&mut client, "SELECT 3")?.is_ok());
    assert!(prepare(&mut client, "SELECT 4")?.is_err());
    close(&mut client, second.id)?;
    assert!(prepare(&mut client, "SELECT 5")?.is_ok());
    client.command(CommandCode::RESET_CONNECTION, b"")?;
    assert!(prepare(&mut client, "SELECT 6")?.is_ok());
    assert!(prepare(&mut client, "SELECT 7")?.is_ok());
    client.change_user(&cluster.admin())?;
    assert!(prepare(&mut client, "SELECT 8")?.is_ok());
    client.quit()
}

fn buffered_commands(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).append("[limits]\nmax_buffered = \"2MiB\"").start()?;
    let large = |length: usize| format!("SELECT LENGTH('{}')", "x".repeat(length));
    let mut one = proxy.connect(&cluster.admin())?;
    let mut other = proxy.connect(&cluster.admin())?;
    assert_eq!(one.rows(&large(1_500_000))?, [[Some("1500000".to_owned())]]);
    // half a command is in memory too
    let half = one.framed(CommandCode::QUERY, large(1_500_000).as_bytes());
    one.send(&half[..1_400_000])?;
    wait::until("the other to be refused", || {
        let mut third = proxy.connect(&cluster.admin())?;
        let reply = third.query(&large(1_000_000))?;
        Ok(reply.error_code().map(|code| assert_eq!(code, 1153)))
    })?;
    other.must("SELECT 'small ones are free'")?;
    one.send(&half[1_400_000..])?;
    let reply = one.receive(CommandCode::QUERY)?;
    assert_eq!(reply.error_code(), None);
    one.quit()?;
    other.must(&large(1_000_000))?;
    other.quit()
}

/// As an account with MAX_USER_CONNECTIONS is refused.
fn connections_of_a_user(cluster: &Cluster) -> Result<()> {
    let name = format!("e2e_limited_{}", std::process::id());
    let mut admin = cluster.direct()?;
    admin.must(&format!("CREATE USER {name} IDENTIFIED BY '' WITH MAX_USER_CONNECTIONS 1"))?;
    let refusal = |address: &str| -> Result<String> {
        let login = Login::new(&name, "");
        let _first = Client::connect(address, &login)?;
        let refused = Client::connect(address, &login).err().context("a second one")?;
        Ok(refused.to_string())
    };
    let direct = refusal(&cluster.addresses[0]);
    let user =
        format!("[[user]]\nname = {name:?}\npassword = \"\"\nhostgroup = 0\nmax_connections = 1");
    let proxied =
        Setup::of(cluster).append(&user).start().and_then(|proxy| refusal(&proxy.address));
    admin.must(&format!("DROP USER {name}"))?;
    assert_eq!(proxied?, direct?);
    admin.quit()
}
