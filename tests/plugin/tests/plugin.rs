//! The binary as a user starts it: `plugin run plugin.toml`, in front of a real MariaDB.

use anyhow::{Context, Result, bail};
use mysql_async::{Conn, Error, OptsBuilder, prelude::Queryable};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::Write,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicU16, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The statement that it is part of, as the server was sent it.
const WHO_AM_I: &str = "SELECT info FROM information_schema.processlist WHERE id = CONNECTION_ID()";

/// How long anything that must come may take.
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn all_three_filters_work() -> Result<()> {
    let Some(server) = Server::find().await? else { return Ok(()) };
    let plugin = Plugin::start(&server, "")?;
    let mut client = plugin.connect("app", "apppw").await?;

    // by the easy door
    for number in [1, 2] {
        let info: Option<String> = client.query_first(WHO_AM_I).await?;
        assert_eq!(info, Some(format!("/* billing {number} */ {WHO_AM_I}")));
    }
    assert_eq!(error_code(client.query_drop("SELEC").await), Some(1064));

    // tower's own: the reply never came, so what the session had on its connection is lost with it
    let Err(Error::Server(error)) = client.query_drop("SELECT SLEEP(100)").await else {
        bail!("no timeout");
    };
    assert_eq!((error.code, &*error.state, &*error.message), (9005, "HY000", "request timed out"));
    let error = client.query_drop("SELECT 1").await.unwrap_err();
    assert!(!matches!(error, Error::Server(_)), "the session has ended: {error}");

    // the plain tower layer
    plugin.logged(r#""user":"app","done":2,"refused":1,"failed":1,"abandoned":0"#)
}

/// A timeout while the connection is still being opened loses nothing, so the session goes on.
#[tokio::test]
async fn a_session_without_a_connection_survives_a_timeout() -> Result<()> {
    let Some(server) = Server::find().await? else { return Ok(()) };
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let address = silent.local_addr()?;
    let more = format!(
        "[[user]]\nname = \"other\"\npassword = \"pw\"\nhostgroup = 1\n\
         [[server]]\nhostgroup = 1\naddress = \"{address}\"\n"
    );
    let plugin = Plugin::start(&server, &more)?;
    let mut client = plugin.connect("other", "pw").await?;
    for _ in 0..2 {
        assert_eq!(error_code(client.query_drop("SELECT 1").await), Some(9005));
    }
    client.disconnect().await?;
    plugin.logged(r#""user":"other","done":0,"refused":0,"failed":2,"abandoned":0"#)
}

#[test]
fn mistakes_in_its_own_settings_are_shown_at_their_place() -> Result<()> {
    let folder = TempDir::new()?;
    let text = include_str!("../plugin.toml").replace("billing", "a b").replace("${", "$${");
    let file = folder.path().join("wrong.toml");
    fs::write(&file, text.replace("ms = 2000", "seconds = 2"))?;
    let output = command().arg("check").arg(&file).env("NO_COLOR", "1").output()?;
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["tag: `application` takes letters", "application = \"a b\"", "`seconds`"] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    Ok(())
}

#[test]
fn its_schema_knows_its_filters() -> Result<()> {
    let output = command().arg("schema").output()?;
    assert!(output.status.success());
    let schema = String::from_utf8(output.stdout)?;
    for part in ["\"tag\"", "\"application\"", "\"timeout\"", "\"ms\"", "\"route\""] {
        assert!(schema.contains(part), "{part} is not in the schema");
    }
    Ok(())
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plugin"))
}

fn error_code<T>(result: Result<T, Error>) -> Option<u16> {
    match result.err()? {
        Error::Server(error) => Some(error.code),
        _ => None,
    }
}

/// A client that sends nothing of its own.
async fn connect(address: SocketAddr, user: &str, password: &str) -> Result<Conn> {
    let options = OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some(user))
        .pass(Some(password))
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 20))
        .wait_timeout(Some(3600));
    Conn::new(options).await.context("login")
}

/// The primary that `./tests/run` keeps up.
struct Server {
    address: String,
}

impl Server {
    /// `None` after a loud line where there is no server.
    #[allow(clippy::print_stderr)]
    async fn find() -> Result<Option<Self>> {
        let env = cache().join("mariadb/env");
        let text = fs::read_to_string(env).unwrap_or_default();
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        let values: HashMap<_, _> = pairs.collect();
        if let (Some(host), Some(port)) = (values.get("HOST"), values.get("PORT1")) {
            let address = format!("{}:{}", host.trim_matches('\''), port.trim_matches('\''));
            if let Ok(client) = connect(address.parse()?, "app", "apppw").await {
                client.disconnect().await?;
                return Ok(Some(Self { address }));
            }
        }
        let test = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let line = format!("plugin {test}: no mariadb cluster; ./tests/run starts it");
        eprintln!("SKIPPED  {line}");
        if let Some(path) = std::env::var_os("TOWPATH_SKIPS") {
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            file.write_all(format!("{line}\n").as_bytes())?;
        }
        Ok(None)
    }
}

/// Where servers are kept between runs.
fn cache() -> PathBuf {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let home = || Some(std::env::home_dir()?.join(".cache"));
    folder("TOWPATH_TEST_CACHE").unwrap_or_else(|| {
        let cache = folder("XDG_CACHE_HOME").or_else(home);
        cache.unwrap_or_else(std::env::temp_dir).join("towpath")
    })
}

/// The running binary. It is killed when this value goes.
struct Plugin {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    _folder: TempDir,
}

impl Plugin {
    /// Starts it with `plugin.toml`, and `more` TOML, and waits until it takes connections.
    fn start(server: &Server, more: &str) -> Result<Self> {
        let folder = TempDir::with_prefix("towpath-plugin-")?;
        let (address, admin) = own_addresses();
        let config = folder.path().join("towpath.toml");
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugin.toml");
        fs::write(&config, format!("include = [{own:?}]\n{more}"))?;
        let log = folder.path().join("log");
        let child = command()
            .arg("run")
            .arg(&config)
            .env("LISTEN_ADDRESS", address.to_string())
            .env("ADMIN_ADDRESS", admin.to_string())
            .env("SERVER_ADDRESS", &server.address)
            .env("APP_USER", "app")
            .env("APP_PASSWORD", "apppw")
            .stdin(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut plugin = Self { child, address, log, _folder: folder };
        plugin.until_ready()?;
        Ok(plugin)
    }

    fn until_ready(&mut self) -> Result<()> {
        let (address, log) = (self.address, self.log.clone());
        until("it listens", || {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}:\n{}", fs::read_to_string(&log)?);
            }
            Ok(TcpStream::connect(address).is_ok())
        })
    }

    async fn connect(&self, user: &str, password: &str) -> Result<Conn> {
        connect(self.address, user, password).await
    }

    /// Waits until the log has a line with `part`.
    fn logged(&self, part: &str) -> Result<()> {
        let found = until(part, || Ok(fs::read_to_string(&self.log)?.contains(part)));
        found.with_context(|| fs::read_to_string(&self.log).unwrap_or_default())
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two addresses that no other process uses at the same time: all of 127.0.0.0/8 is loopback, and
/// a process id fits into it.
fn own_addresses() -> (SocketAddr, SocketAddr) {
    static STARTED: AtomicU16 = AtomicU16::new(0);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let host = IpAddr::from([127, 0x40 | high, middle, low]);
    let port = 6033 + 2 * STARTED.fetch_add(1, Relaxed);
    (SocketAddr::new(host, port), SocketAddr::new(host, port + 1))
}

/// Asks until `check` says yes.
fn until(what: &str, mut check: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !check()? {
        if Instant::now() > end {
            bail!("waited {LIMIT:?} for: {what}");
        }
        // a short pause, so that asking does not take the processor from the answer
        let (_open, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(Duration::from_millis(10));
    }
    Ok(())
}
