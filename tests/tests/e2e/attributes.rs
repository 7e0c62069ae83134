//! Connection attributes: the client's reach the server, whatever connection its session gets.

use anyhow::Result;
use bytes::BytesMut;
use e2e::{Client, Cluster, Login, Proxy, Setup, Vendor, wait};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};
use wire::{Attributes, Capabilities, LoginRequest, command::ChangeUser, packet};

on_both_vendors!(
    what_a_server_is_told,
    a_connection_used_again_tells_the_next_ones,
    the_server_shows_them,
    logins_that_the_server_checks,
    odd_ones,
);

/// A way to a server that keeps what each connection's client has said.
struct Recorder {
    address: String,
    said: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    fn before(server: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (server, kept) = (server.to_owned(), said.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else {
                    return;
                };
                let at = {
                    let mut kept = kept.lock().expect("no thread has panicked");
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
                let kept = kept.clone();
                thread::spawn(move || {
                    copy(from, to, |bytes| {
                        kept.lock().expect("no thread has panicked")[at].extend_from_slice(bytes);
                    });
                });
                thread::spawn(move || copy(server, client, |_| ()));
            }
        });
        Ok(Self { address, said })
    }

    /// The attributes of all logins so far, those by COM_CHANGE_USER included, connection by
    /// connection. A connection that has not logged in, as to read the greeting, is left out.
    fn told(&self) -> Result<Vec<Vec<Attributes>>> {
        let said = self.said.lock().expect("no thread has panicked");
        let all = said.iter().map(|bytes| logins(bytes)).collect::<Result<Vec<_>>>()?;
        Ok(all.into_iter().filter(|logins| !logins.is_empty()).collect())
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, mut note: impl FnMut(&[u8])) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        note(&chunk[..length]);
        if to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn logins(bytes: &[u8]) -> Result<Vec<Attributes>> {
    let mut bytes = BytesMut::from(bytes);
    let mut found = Vec::new();
    let mut capabilities = Capabilities::EMPTY;
    while let Some(message) = packet::take_message(&mut bytes, 1 << 24)? {
        let payload = message.payload();
        if found.is_empty() {
            let login = LoginRequest::decode(&payload)?;
            capabilities = login.capabilities;
            found.push(login.attributes);
        } else if message.seq == 0 && message.first_byte() == Some(0x11) {
            found.push(ChangeUser::decode(&payload, capabilities)?.attributes);
        }
    }
    Ok(found)
}

fn text(attributes: &Attributes) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    attributes.iter().map(|(name, value)| (text(name), text(value))).collect()
}

/// `theirs`, and what the proxy adds for a client of this machine.
fn with_ours(theirs: &[(&str, &str)], host: &str) -> Vec<(String, String)> {
    let ours = [("_towpath_version", env!("CARGO_PKG_VERSION")), ("_towpath_client_host", host)];
    let all = theirs.iter().chain(&ours);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn behind(recorder: &Recorder, cluster: &Cluster) -> Setup {
    let mut cluster = cluster.clone();
    cluster.addresses[0].clone_from(&recorder.address);
    Setup::of(&cluster)
}

/// The host that a client at `address` connects from: these are all loopback addresses.
fn host(proxy: &Proxy) -> Result<String> {
    let client = TcpStream::connect(&proxy.address)?;
    Ok(client.local_addr()?.ip().to_string())
}

/// A session that has run a statement; its connection is in the pool again when this ends.
fn session(proxy: &Proxy, login: &Login) -> Result<()> {
    let mut client = proxy.connect(login)?;
    client.must("SELECT 1")?;
    client.quit()?;
    wait::until("the connection to be idle", || {
        Ok(proxy.get("/status")?.contains("\"idle\":1").then_some(()))
    })
}

fn what_a_server_is_told(cluster: &Cluster) -> Result<()> {
    let recorder = Recorder::before(&cluster.addresses[0])?;
    let proxy = behind(&recorder, cluster).start()?;
    let theirs = [("program_name", "billing"), ("_pid", "17"), ("empty", "")];
    session(&proxy, &cluster.admin().attributes(&theirs))?;
    let told = recorder.told()?;
    assert_eq!(told.len(), 1);
    assert_eq!(text(&told[0][0]), with_ours(&theirs, &host(&proxy)?));
    Ok(())
}

fn a_connection_used_again_tells_the_next_ones(cluster: &Cluster) -> Result<()> {
    let recorder = Recorder::before(&cluster.addresses[0])?;
    let proxy = behind(&recorder, cluster).start()?;
    let (one, other) = ([("program_name", "one")], [("program_name", "other")]);
    let login = cluster.admin();
    let host = host(&proxy)?;
    // the second one says the same: nothing has to be said again
    session(&proxy, &login.clone().attributes(&one))?;
    session(&proxy, &login.clone().attributes(&one))?;
    session(&proxy, &login.clone().attributes(&other))?;
    session(&proxy, &login)?;
    // COM_CHANGE_USER has attributes of its own
    let mut client = proxy.connect(&login.clone().attributes(&one))?;
    client.change_user(&login.clone().attributes(&other))?;
    client.must("SELECT 1")?;
    client.quit()?;
    let told = recorder.told()?;
    assert_eq!(told.len(), 1, "one connection for all of them");
    let told: Vec<_> = told[0].iter().map(text).collect();
    let expected = [&one[..], &other, &[], &other].map(|theirs| with_ours(theirs, &host));
    assert_eq!(told, expected);
    Ok(())
}

fn the_server_shows_them(cluster: &Cluster) -> Result<()> {
    if cluster.ask("SELECT @@performance_schema")? != "1" {
        assert_eq!(cluster.vendor, Vendor::MariaDb, "MySQL's is on by default");
        return Ok(());
    }
    let proxy = Proxy::start(cluster)?;
    let shown = |client: &mut Client| -> Result<Vec<Vec<Option<String>>>> {
        client.rows(
            "SELECT ATTR_NAME, ATTR_VALUE, ORDINAL_POSITION \
             FROM performance_schema.session_connect_attrs \
             WHERE PROCESSLIST_ID = CONNECTION_ID() AND ATTR_NAME NOT LIKE '\\_towpath%' \
             ORDER BY ORDINAL_POSITION",
        )
    };
    for program in ["one", "other", "one"] {
        let login = cluster.admin().attributes(&[("program_name", program), ("_pid", "1")]);
        let direct = shown(&mut Client::connect(&cluster.addresses[0], &login)?)?;
        assert_eq!(direct[0][1].as_deref(), Some(program));
        let mut client = proxy.connect(&login)?;
        assert_eq!(shown(&mut client)?, direct);
        client.quit()?;
    }
    Ok(())
}

/// The client's own and the proxy's, in whichever chain. In one that sessions leave, a client that
/// has none keeps its form of COM_CHANGE_USER: none are told for it.
fn logins_that_the_server_checks(cluster: &Cluster) -> Result<()> {
    let forwarding = "[chain.main]\nsession = [{ use = \"fast-forward\", always = true }]\n";
    let theirs = [("program_name", "billing"), ("_pid", "17")];
    let other = [("program_name", "other")];
    for (chain, forwards) in [("", false), (forwarding, true)] {
        let recorder = Recorder::before(&cluster.addresses[0])?;
        let setup = behind(&recorder, cluster).no_users().append(chain);
        let proxy = setup.listener("login = \"server\"\nhostgroup = 0").start()?;
        let host = host(&proxy)?;
        for (own, later) in [(&theirs[..], &other[..]), (&[], &[])] {
            // One without any does not agree on them either.
            let with = |login: Login, some: &[(&str, &str)]| match some.is_empty() {
                true => login,
                false => login.attributes(some),
            };
            let mut client = proxy.connect(&with(cluster.admin(), own))?;
            client.must("SELECT 1")?;
            client.change_user(&with(cluster.login("app"), later))?;
            let rows = client.rows("SELECT CURRENT_USER()")?;
            assert!(rows[0][0].as_deref().is_some_and(|user| user.starts_with("app")), "{rows:?}");
            client.quit()?;
        }
        let told: Vec<Vec<_>> =
            recorder.told()?.iter().map(|logins| logins.iter().map(text).collect()).collect();
        let ours = |theirs: &[(&str, &str)]| with_ours(theirs, &host);
        let plain = |theirs: &[(&str, &str)]| -> Vec<(String, String)> {
            theirs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let expected = match forwards {
            // The second login of each is the client's own, forwarded as it is.
            true => [vec![ours(&theirs), plain(&other)], vec![vec![], vec![]]],
            false => [vec![ours(&theirs), ours(&other)], vec![ours(&[]), ours(&[])]],
        };
        assert_eq!(told, expected, "{chain}");
    }
    Ok(())
}

/// What servers let in is let in, and what they do not is refused in their words.
fn odd_ones(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let long = |length: usize| Login::attributes(cluster.admin(), &[("a", &"v".repeat(length))]);
    // with name and lengths 65535 bytes, which servers take, and one more
    for (length, let_in) in [(65_530, true), (65_531, false)] {
        let outcome = |address: &str| match Client::connect(address, &long(length)) {
            Ok(mut client) => client.must("SELECT 1").map(|()| "let in".to_owned()),
            Err(refused) => Ok(refused.to_string()),
        };
        let direct = outcome(&cluster.addresses[0])?;
        assert_eq!(direct == "let in", let_in, "{length}: {direct}");
        assert_eq!(outcome(&proxy.address)?, direct, "{length}");
    }
    let login = cluster.admin().all_attributes(Attributes::raw(&b"\x01a\x05b"[..]));
    for address in [&cluster.addresses[0], &proxy.address] {
        Client::connect(address, &login)?.must("SELECT 1")?;
    }
    Ok(())
}
