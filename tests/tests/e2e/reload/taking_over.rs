//! Another process in the place of the one that runs.

use super::serves;
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Proxy, Scale, Setup, wait};
use std::{
    io::ErrorKind,
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

on_both_vendors!(
    no_attempt_to_connect_is_lost,
    a_transaction_ends_in_the_process_before,
    one_that_fails_to_start_changes_nothing,
    sockets_of_a_service_manager_are_used,
);

fn start(cluster: &Cluster) -> Result<Proxy> {
    Setup::of(cluster).append("[shutdown]\ntake_over = \"take-over.sock\"").start()
}

/// Connects again and again; an attempt that is refused or reset is an error. Gives how many there
/// were.
fn storm(address: &str, login: &Login, over: &AtomicBool, count: &AtomicUsize) -> Result<()> {
    while !over.load(Relaxed) {
        let client = Client::connect(address, login).context("an attempt to connect")?;
        count.fetch_add(1, Relaxed);
        // The process before may have closed it: between two commands.
        let _ = client.quit();
    }
    Ok(())
}

fn no_attempt_to_connect_is_lost(cluster: &Cluster) -> Result<()> {
    let mut proxy = start(cluster)?;
    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let unix = format!("unix:{}", proxy.socket.display());
    let storms: Vec<_> = [&proxy.address, &proxy.address, &proxy.address, &unix]
        .map(|address| {
            let (address, login) = (address.clone(), cluster.admin());
            let (over, count) = (over.clone(), count.clone());
            thread::spawn(move || storm(&address, &login, &over, &count))
        })
        .into();
    let restarts = if Scale::of_this_run() > Scale::Fast { 20 } else { 3 };
    for restart in 0..restarts {
        let before = proxy.pid();
        let ended = proxy.taken_over()?;
        ensure!(ended.code() == Some(0), "restart {restart}: {ended}\n{}", proxy.log());
        ensure!(proxy.pid() != before);
        let seen = count.load(Relaxed);
        wait::until("clients of the new process", || {
            let broken = storms.iter().any(|storm| storm.is_finished());
            Ok((count.load(Relaxed) > seen + 20 || broken).then_some(()))
        })?;
    }
    over.store(true, Relaxed);
    for storm in storms {
        storm.join().expect("it does not panic")?;
    }
    serves(&proxy, &cluster.admin())?;
    ensure!(proxy.socket.exists() && proxy.file("take-over.sock").exists());
    ensure!(proxy.ask("/live")?.0 == 200);
    proxy.signal("TERM")?;
    ensure!(proxy.ended()?.code() == Some(0));
    ensure!(!proxy.socket.exists() && !proxy.file("take-over.sock").exists(), "nothing is left");
    Ok(())
}

fn a_transaction_ends_in_the_process_before(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t (a INT) ENGINE = InnoDB")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t VALUES (1)")?;
    let (address, login) = (proxy.address.clone(), cluster.admin());
    let committing = thread::spawn(move || -> Result<()> {
        // The new process serves, and its admin port is the new one's.
        wait::until("the process before to drain", || {
            let mut other = Client::connect(&address, &login)?;
            Ok(other.must("SELECT 1").is_ok().then_some(()))
        })?;
        client.must("INSERT INTO t VALUES (2)")?;
        client.must("COMMIT")
    });
    ensure!(proxy.taken_over()?.code() == Some(0), "{}", proxy.log());
    committing.join().expect("it does not panic")?;
    ensure!(cluster.ask(&format!("SELECT COUNT(*) FROM {}.t", schema.name))? == "2");
    serves(&proxy, &cluster.admin())
}

fn one_that_fails_to_start_changes_nothing(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let listener =
        format!("[[listener]]\naddress = \"{}\"\nchain = \"main\"\n\n", taken.local_addr()?);
    let bad = proxy.file("other.toml");
    std::fs::write(&bad, listener + &std::fs::read_to_string(proxy.config())?)?;
    let program = std::fs::read_link(format!("/proc/{}/exe", proxy.pid()))?;
    let output = Command::new(&program).args(["run", "--take-over"]).arg(&bad).output()?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    client.must("SELECT 1")?;
    client.quit()?;
    serves(&proxy, &cluster.admin())?;
    wait::until("it to be told", || {
        Ok(proxy.log().contains("the process that was to take over has gone").then_some(()))
    })
}

/// What systemd does: the socket is bound, clients wait in its queue, and then the process starts.
fn sockets_of_a_service_manager_are_used(cluster: &Cluster) -> Result<()> {
    let template = start(cluster)?;
    let program = std::fs::read_link(format!("/proc/{}/exe", template.pid()))?;
    let bound = TcpListener::bind("127.0.0.1:0")?;
    let address = bound.local_addr()?;
    let folder = tempfile::TempDir::with_prefix("towpath-e2e-")?;
    let config = folder.path().join("towpath.toml");
    let text = std::fs::read_to_string(template.config())?
        .replace(&format!("{:?}", template.address), &format!("\"{address}\""))
        .replace(&template.admin.to_string(), "127.0.0.1:0")
        .replace(
            &template.socket.display().to_string(),
            &folder.path().join("s").display().to_string(),
        );
    std::fs::write(&config, text)?;
    let early = TcpStream::connect(address)?;
    let mut command = Command::new("sh");
    command
        .args(["-c", "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" run \"$1\" 3<&0 </dev/null"])
        .arg(program)
        .arg(&config)
        .stdin(Stdio::from(OwnedFd::from(bound)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    drop(command);
    let served = wait::until("the process to serve", || {
        Ok(Client::connect(&address.to_string(), &cluster.admin()).ok())
    });
    let mut first = [0; 4];
    early.set_read_timeout(Some(wait::LIMIT))?;
    let greeted = std::io::Read::read_exact(&mut &early, &mut first);
    child.kill()?;
    child.wait()?;
    served?.quit().ok();
    ensure!(greeted.is_ok(), "who came before the process began is served: {greeted:?}");
    let refused = TcpStream::connect(address).err().map(|error| error.kind());
    ensure!(refused == Some(ErrorKind::ConnectionRefused), "{refused:?}");
    Ok(())
}
