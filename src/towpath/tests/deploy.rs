//! What `config/deploy` shows is so: files parse, the configuration in them loads, metrics that they
//! name exist, and service managers are told what they wait for.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proxy::config::Config;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use yaml_rust2::{Yaml, YamlLoader};

/// Nobody listens at the servers' addresses.
const UNREACHABLE: &str = r#"
admin = { address = "127.0.0.1:0" }
listener = [{ address = "127.0.0.1:0", chain = "main" }]
user = [
    { name = "app", password = "", hostgroup = 0 },
    { name = "report", password = "", hostgroup = 7 },
]
server = [
    { name = "db1", hostgroup = 0, address = "127.0.0.1:1" },
    { name = "db2", hostgroup = 7, address = "127.0.0.1:1", weight = 0 },
    { name = "db3", hostgroup = 9, address = "127.0.0.1:1" },
]
chain.main.session = [{ use = "parse" }, { use = "rules", rules = "rules.toml" }, { use = "route" }]
"#;

const RULES: &str = "[[rule]]\nrule_id = 1\nmatch_pattern = '^SELECT'\napply = true\n";

/// How long anything that must come may take before a test fails.
const LIMIT: Duration = Duration::from_secs(30);

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/deploy").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(deploy(name)).unwrap()
}

fn yaml(name: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&text(name)).unwrap()
}

/// A process that is killed when the test ends.
struct Running {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    _folder: tempfile::TempDir,
}

impl Running {
    fn start(notify: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("towpath.toml");
        fs::write(&path, UNREACHABLE).unwrap();
        fs::write(folder.path().join("rules.toml"), RULES).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.arg("run").arg(path).stderr(Stdio::piped());
        if let Some(socket) = notify {
            command.env("NOTIFY_SOCKET", socket);
        }
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, _folder: folder }
    }

    /// The admin port's address, as the log has it.
    fn admin(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "it has ended");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if line["message"] == "admin" {
                return line["address"].as_str().unwrap().to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of `GET path`.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: towpath\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn live_and_not_ready_without_servers() {
    let mut running = Running::start(None);
    let admin = running.admin();
    assert_eq!(get(&admin, "/live"), (200, "live\n".to_owned()));
    let (status, body) = get(&admin, "/ready");
    assert_eq!(status, 503, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["ready"], false);
    let causes: Vec<_> = body["causes"].as_array().unwrap().iter().collect();
    assert_eq!(causes.len(), 2, "no session begins in hostgroup 9: {body}");
    assert!(causes[0].as_str().unwrap().contains("hostgroup 0"), "{body}");
    assert!(causes[0].as_str().unwrap().contains("db1: Connection refused"), "{body}");
    assert!(causes[1].as_str().unwrap().contains("hostgroup 7"), "weight 0 is not chosen: {body}");
}

/// What the manager hears next.
fn heard(socket: &UnixDatagram) -> String {
    let mut message = [0; 512];
    let length = socket.recv(&mut message).unwrap();
    String::from_utf8_lossy(&message[..length]).into_owned()
}

fn is_told(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut running = Running::start(Some(name));
    let ready = heard(socket);
    assert!(ready.lines().any(|line| line == "READY=1"), "{ready}");
    let admin = running.admin();
    assert_eq!(get(&admin, "/live").0, 200);
    running.signal(Signal::HUP);
    let reloading = heard(socket);
    let mut lines = reloading.lines();
    assert_eq!(lines.next(), Some("RELOADING=1"));
    let since = lines.next().and_then(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(since.parse::<u64>().unwrap() > 0);
    let ready = heard(socket);
    assert!(ready.lines().any(|line| line == "READY=1"), "{ready}");
    running.signal(Signal::TERM);
    let stopping = heard(socket);
    assert!(stopping.lines().any(|line| line == "STOPPING=1"), "{stopping}");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_service_manager_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    is_told(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
}

#[test]
fn a_service_manager_with_an_abstract_name_is_told() {
    let name = format!("towpath-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    is_told(&UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
}

#[test]
fn a_manager_that_is_gone_is_no_reason_to_end() {
    let mut running = Running::start(Some("/no/such/socket"));
    let admin = running.admin();
    running.signal(Signal::HUP);
    assert_eq!(get(&admin, "/live").0, 200);
    running.signal(Signal::TERM);
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

#[test]
#[allow(clippy::print_stderr, reason = "what is left out is said")]
fn the_unit_is_a_good_one() {
    let unit = text("towpath.service");
    assert!(unit.contains("\nType=notify\n") && unit.contains("-HUP $MAINPID"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("towpath.service");
    fs::write(&path, unit.replace("/usr/local/bin/towpath", env!("CARGO_BIN_EXE_towpath")))
        .unwrap();
    let socket = folder.path().join("towpath.socket");
    fs::write(&socket, text("towpath.socket")).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let verified = verify.arg("verify").args([&path, &socket]).output();
    let Ok(verified) = verified else {
        eprintln!("LEFT OUT: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && said.is_empty(), "{said}");
}

#[test]
fn what_kubernetes_is_given_is_served() {
    let documents = yaml("kubernetes.yaml");
    let of = |kind: &str| documents.iter().find(|one| one["kind"].as_str() == Some(kind)).unwrap();
    let configuration = of("ConfigMap")["data"]["towpath.toml"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("towpath.toml");
    fs::write(&path, configuration).unwrap();
    let password = |name: &str| (name == "APP_PASSWORD").then(|| "secret".to_owned());
    let loaded = Config::load_with(&path, &towpath::builtin::registry(), &password);
    let loaded = loaded.unwrap_or_else(|mistakes| panic!("{mistakes}"));

    let pod = &of("Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let ports: Vec<_> = container["ports"].as_vec().unwrap().iter().collect();
    let port = |name: &str| {
        let port = ports.iter().find(|port| port["name"].as_str() == Some(name)).unwrap();
        u16::try_from(port["containerPort"].as_i64().unwrap()).ok()
    };
    assert_eq!(port("mysql"), loaded.listeners[0].address.port());
    assert_eq!(port("admin"), loaded.admin.address.port());
    assert_eq!(of("Service")["spec"]["ports"][0]["targetPort"].as_str(), Some("mysql"));
    let grace = pod["terminationGracePeriodSeconds"].as_i64().unwrap();
    assert!(Duration::from_secs(grace.unsigned_abs()) > loaded.shutdown.grace);

    let mut running = Running::start(None);
    let admin = running.admin();
    for (probe, status) in [("livenessProbe", 200), ("readinessProbe", 503)] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert_eq!(get(&admin, path).0, status, "{probe}");
    }
}

/// The names of metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !word(c));
    words.filter(|word| word.starts_with("towpath_")).map(str::to_owned).collect()
}

#[test]
fn metrics_that_are_shown_and_watched_exist() {
    let rules = yaml("prometheus-rules.yaml");
    let rules = rules[0]["groups"][0]["rules"].as_vec().unwrap();
    assert!(rules.len() >= 5 && rules.iter().all(|rule| rule["alert"].as_str().is_some()));
    let dashboard: serde_json::Value = serde_json::from_str(&text("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let expressions: Vec<_> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(expressions.iter().all(|expression| !metrics_in(expression).is_empty()));

    let mut running = Running::start(None);
    let (_, page) = get(&running.admin(), "/metrics");
    // Those of servers that have not been asked anything yet are only announced.
    let there: BTreeSet<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .flat_map(|(name, kind)| {
            let suffixes = match kind {
                "counter" => &["_total"][..],
                "histogram" => &["_bucket", "_sum", "_count"],
                "info" => &["_info"],
                _ => &[""],
            };
            suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
        })
        .collect();
    let named = metrics_in(&(text("prometheus-rules.yaml") + &text("grafana.json")));
    assert!(named.len() >= 10, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !there.contains(*name)).collect();
    assert!(missing.is_empty(), "no such metrics: {missing:?} in\n{page}");
}
