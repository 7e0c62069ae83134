//! One Towpath process with a configuration of its own.

use crate::{
    client::{Client, Login},
    cluster::Cluster,
    wait,
};
use anyhow::{Context, Result, bail};
use std::{
    fmt::Write as _,
    fs::File,
    io::{Read, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};
use tempfile::TempDir;

/// What the process is to be started with.
#[derive(Clone, Debug)]
pub struct Setup {
    cluster: Cluster,
    listener: String,
    servers: String,
    more: String,
    users: Vec<(String, String)>,
}

impl Setup {
    /// All accounts of the cluster; the primary is hostgroup 0, the replicas are hostgroup 1.
    pub fn of(cluster: &Cluster) -> Self {
        Self {
            users: cluster.users.clone(),
            cluster: cluster.clone(),
            listener: String::new(),
            servers: String::new(),
            more: String::new(),
        }
    }

    /// Adds a line of TOML to the listener.
    pub fn listener(mut self, line: &str) -> Self {
        let _ = writeln!(self.listener, "{line}");
        self
    }

    /// Adds a line of TOML to each server.
    pub fn server(mut self, line: &str) -> Self {
        let _ = writeln!(self.servers, "{line}");
        self
    }

    /// Adds TOML at the end of the file.
    pub fn append(mut self, text: &str) -> Self {
        let _ = writeln!(self.more, "{text}");
        self
    }

    /// Adds an account.
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.users.push((name.to_owned(), password.to_owned()));
        self
    }

    /// No account: the servers check the logins.
    pub fn no_users(mut self) -> Self {
        self.users.clear();
        self
    }

    /// The listener with the cluster's server certificate and this TLS mode.
    pub fn listener_tls(self, mode: &str) -> Self {
        let (certificate, key) = self.cluster.certificates.of_server();
        let line =
            format!("tls = {{ mode = {mode:?}, certificate = {certificate:?}, key = {key:?} }}");
        self.listener(&line)
    }

    /// Writes the file, starts the process and waits until it takes connections.
    pub fn start(&self) -> Result<Proxy> {
        let folder = TempDir::with_prefix("towpath-e2e-")?;
        let (address, admin) = own_addresses();
        let address = address.to_string();
        let socket = folder.path().join("proxy.sock");
        let config = folder.path().join("towpath.toml");
        std::fs::write(&config, self.text(&address, admin, &socket))?;

        let log = folder.path().join("log");
        let file = File::create(&log)?;
        let child = Command::new(executable()?)
            .arg("run")
            .arg(&config)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let mut proxy = Proxy { child: Some(child), address, admin, socket, log, folder };
        proxy.until_ready()?;
        Ok(proxy)
    }

    fn text(&self, address: &str, admin: SocketAddr, socket: &Path) -> String {
        let Self { listener, servers, more, .. } = self;
        let mut text = format!("[admin]\naddress = \"{admin}\"\n\n");
        for address in [address.to_owned(), format!("unix:{}", socket.display())] {
            let _ =
                write!(text, "[[listener]]\naddress = {address:?}\nchain = \"main\"\n{listener}\n");
        }
        for (name, password) in &self.users {
            let _ = write!(
                text,
                "[[user]]\nname = {name:?}\npassword = {password:?}\nhostgroup = 0\n\n"
            );
        }
        for (node, address) in self.cluster.addresses.iter().enumerate() {
            let hostgroup = usize::from(node > 0);
            let _ = write!(
                text,
                "[[server]]\nhostgroup = {hostgroup}\naddress = {address:?}\n{servers}\n"
            );
        }
        if !more.contains("[chain.main]") {
            text.push_str(
                "[chain.main]\nsession = [{ use = \"parse\" }, { use = \"route\", policy = \"hostgroup\" }]\n\n",
            );
        }
        text + more
    }
}

/// A running Towpath. It is killed when this value goes.
#[derive(Debug)]
pub struct Proxy {
    child: Option<Child>,
    /// `host:port` of the listener.
    pub address: String,
    /// Where `/metrics` and `/status` are.
    pub admin: SocketAddr,
    /// The same listener as a unix socket.
    pub socket: PathBuf,
    log: PathBuf,
    folder: TempDir,
}

impl Proxy {
    /// In front of `cluster`, all settings at their defaults.
    pub fn start(cluster: &Cluster) -> Result<Self> {
        Setup::of(cluster).start()
    }

    /// A connection through it.
    pub fn connect(&self, login: &Login) -> Result<Client> {
        Client::connect(&self.address, login)
    }

    /// The process id.
    ///
    /// # Panics
    /// After the process has been waited for.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the process has not been waited for").id()
    }

    /// Host and port apart, as command lines want them.
    pub fn host_and_port(&self) -> (&str, &str) {
        self.address.split_once(':').unwrap_or((&self.address, ""))
    }

    /// Resident memory in bytes: all of it, and what of it is not backed by files.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let bytes = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes =
                line.and_then(|line| line.split_whitespace().next()).context("no RSS")?;
            Ok(kilobytes.parse::<u64>()? * 1024)
        };
        Ok((bytes("VmRSS:")?, bytes("RssAnon:")?))
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The body of `GET path` from the admin address.
    pub fn get(&self, path: &str) -> Result<String> {
        match self.ask(path)? {
            (200, body) => Ok(body),
            (status, body) => bail!("{path}: {status} {body}"),
        }
    }

    /// Status and body of the answer to `GET path` from the admin address.
    pub fn ask(&self, path: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.set_read_timeout(Some(wait::LIMIT))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: towpath\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no end of the headers")?;
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next());
        Ok((status.context("no HTTP/1.1")?.parse()?, body.to_owned()))
    }

    /// What comes of posting JSON to the admin address: the status, and the body.
    pub fn post(&self, path: &str, json: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.set_read_timeout(Some(wait::LIMIT))?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: towpath\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}",
            json.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no end of the headers")?;
        let status = head.split_whitespace().nth(1).context("no status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    /// Its configuration.
    pub fn config(&self) -> PathBuf {
        self.file("towpath.toml")
    }

    /// Changes its configuration: another file takes the place of the one that was.
    pub fn edit(&self, change: impl FnOnce(String) -> String) -> Result<()> {
        let new = self.file("towpath.toml.new");
        std::fs::write(&new, change(std::fs::read_to_string(self.config())?))?;
        Ok(std::fs::rename(new, self.config())?)
    }

    /// Has it read its configuration again; an error with the answer if it does not use it.
    pub fn reload(&self) -> Result<String> {
        match self.post("/reload", "{}")? {
            (200, body) => Ok(body),
            (status, body) => bail!("/reload: {status} {body}"),
        }
    }

    /// Starts another process that takes over from this one, and waits until this one has ended.
    pub fn taken_over(&mut self) -> Result<ExitStatus> {
        let file = File::options().append(true).open(&self.log)?;
        let next = Command::new(executable()?)
            .args(["run", "--take-over"])
            .arg(self.config())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let ended = self.ended();
        self.child = Some(next);
        ended
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status()?;
        if !sent.success() {
            bail!("kill -s {name} failed");
        }
        Ok(())
    }

    /// Waits until the process has ended.
    pub fn ended(&mut self) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("it has ended before")?;
        let status = wait::until("the proxy's end", || Ok(child.try_wait()?))?;
        self.child = None;
        Ok(status)
    }

    /// A file in the folder of this process.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The admin address answers once all listeners are bound. No listener is tried: a connection
    /// would count as a session.
    fn until_ready(&mut self) -> Result<()> {
        let mut child = self.child.take().context("not started")?;
        let ready = wait::until("the proxy to listen", || {
            if let Some(status) = child.try_wait()? {
                bail!("the proxy ended with {status}:\n{}", self.log());
            }
            Ok(self.get("/status").ok())
        });
        self.child = Some(child);
        ready.map(drop)
    }
}

impl Drop for Proxy {
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // shown with a test that fails, and only then
        eprintln!("---- the proxy's log\n{}----", self.log());
    }
}

/// Two addresses that no other process uses at the same time, so that no free port has to be
/// found: all of 127.0.0.0/8 is loopback, and a process id fits into it (22 bits on Linux).
fn own_addresses() -> (SocketAddr, SocketAddr) {
    static STARTED: AtomicU16 = AtomicU16::new(0);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let host = IpAddr::from([127, 0x40 | high, middle, low]);
    let port = 6033 + 2 * STARTED.fetch_add(1, Ordering::Relaxed);
    (SocketAddr::new(host, port), SocketAddr::new(host, port + 1))
}

fn executable() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TOWPATH_BIN") {
        return Ok(path.into());
    }
    // target/debug/deps/e2e-0123 and target/debug/stand both lie below target/debug
    let own = std::env::current_exe()?;
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("towpath"))
        .find(|path| path.is_file())
        .with_context(|| format!("no towpath beside {}: cargo build -p towpath", own.display()))
}
