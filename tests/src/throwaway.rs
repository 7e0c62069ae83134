//! A server of a test's own, to be killed, stopped, or left without disk.

use crate::{
    Cluster, Vendor,
    cluster::cache,
    program::{self, Output},
    wait,
};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{ErrorKind, Write},
    net::{IpAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};
use tempfile::TempDir;

/// One server, or a primary with replicas. They are killed with this value, and their files are
/// removed.
#[derive(Debug)]
pub struct Throwaway {
    /// How it is reached.
    pub cluster: Cluster,
    /// The file system that is its own.
    disk: Option<Disk>,
    folder: TempDir,
    script: Script,
}

/// The script that makes clusters.
#[derive(Debug)]
struct Script {
    program: PathBuf,
    port: u32,
    nodes: &'static str,
    settings: (&'static str, String),
    _ports: Vec<TcpListener>,
}

/// A small file system in memory, mounted here.
#[derive(Debug)]
struct Disk(PathBuf);

impl Throwaway {
    /// A server that logs every statement it is given.
    pub fn start(vendor: Vendor) -> Result<Self> {
        Self::start_with(vendor, "")
    }

    /// [`Throwaway::start`] with more lines for its file of settings.
    pub fn start_with(vendor: Vendor, more: &str) -> Result<Self> {
        let folder = TempDir::with_prefix("towpath-srv-")?;
        let log = folder.path().join("general.log");
        let settings = format!("general-log=1\ngeneral-log-file={}\n{more}", log.display());
        Self::start_in(vendor, folder, None, &settings, "1")
    }

    /// A primary and as many replicas as make `nodes` ("1 2", up to "1 2 3 4"). What is committed there
    /// survives a SIGKILL; all of them log to one file.
    pub fn start_cluster(vendor: Vendor, nodes: &'static str) -> Result<Self> {
        let folder = TempDir::with_prefix("towpath-srv-")?;
        let log = folder.path().join("general.log");
        let settings = format!(
            "general-log=1\ngeneral-log-file={}\ninnodb-flush-log-at-trx-commit=2",
            log.display()
        );
        Self::start_in(vendor, folder, None, &settings, nodes)
    }

    /// A primary and two replicas that log every statement they are given, each to a file of its own
    /// ([`Throwaway::log_file`]).
    pub fn start_watched(vendor: Vendor) -> Result<Self> {
        let folder = TempDir::with_prefix("towpath-srv-")?;
        Self::start_in(vendor, folder, None, "general-log=1\ngeneral-log-file=general.log", "1 2 3")
    }

    /// The general log of one of the servers that [`Throwaway::start_watched`] has started.
    pub fn log_file(&self, node: u32) -> PathBuf {
        self.folder.path().join(format!("n{node}/data/general.log"))
    }

    /// A server whose temporary files are on a small disk, where tables can be too
    /// (`DATA DIRECTORY`). `None` where this process may not mount one.
    pub fn start_with_small_disk(vendor: Vendor) -> Result<Option<Self>> {
        let folder = TempDir::with_prefix("towpath-srv-")?;
        let disk = folder.path().join("disk");
        fs::create_dir(&disk)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(&disk);
        if !program::run(&mut mount, "").is_ok_and(|output| output.code == Some(0)) {
            return Ok(None);
        }
        let mut settings = format!("tmpdir={}", disk.display());
        if vendor == Vendor::MySql {
            settings += &format!("\ninnodb-directories={}", disk.display());
        }
        Self::start_in(vendor, folder, Some(Disk(disk)), &settings, "1").map(Some)
    }

    fn start_in(
        vendor: Vendor,
        folder: TempDir,
        disk: Option<Disk>,
        settings: &str,
        nodes: &'static str,
    ) -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (program, variable) = match vendor {
            Vendor::MariaDb => (here.join("../config/demo/mariadb-cluster.sh"), "MARIADB_EXTRA"),
            Vendor::MySql => (here.join("servers/mysql-cluster.sh"), "MYSQL_EXTRA"),
        };
        let settings = (variable, settings.to_owned());
        let (port, ports) = free_ports()?;
        let script = Script { program, port, nodes, settings, _ports: ports };
        script.run("up", folder.path(), 1)?;
        let cluster = Cluster::read(&folder.path().join("env"))?;
        Ok(Self { cluster, disk, folder, script })
    }

    /// Ends it by SIGKILL; returns when it is gone.
    pub fn kill(&self) -> Result<()> {
        self.kill_node(1)
    }

    /// Ends one of the servers by SIGKILL; returns when it is gone.
    pub fn kill_node(&self, node: u32) -> Result<()> {
        self.script.run("kill-node", self.folder.path(), node).map(drop)
    }

    /// Starts it again; returns when it answers.
    pub fn start_again(&self) -> Result<()> {
        self.start_node(1)
    }

    /// Starts one of the servers again; returns when it answers.
    pub fn start_node(&self, node: u32) -> Result<()> {
        self.script.run("start-node", self.folder.path(), node).map(drop)
    }

    /// SIGSTOP: nothing is answered until [`Throwaway::go_on`]. Threads that were running when it was
    /// sent have stopped too.
    pub fn stop(&self) -> Result<()> {
        let pid = self.pid()?;
        kill_process(pid, Signal::STOP)?;
        wait::until("all threads of the server to stop", || {
            for task in fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()))? {
                // It may have ended meanwhile.
                let Ok(stat) = fs::read_to_string(task?.path().join("stat")) else { continue };
                // "pid (name) state ...": the name may have any characters.
                let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
                if !state.starts_with('T') {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }

    /// SIGCONT.
    pub fn go_on(&self) -> Result<()> {
        Ok(kill_process(self.pid()?, Signal::CONT)?)
    }

    /// How many statements it was given that contain `mark`, over all its starts.
    pub fn times_given(&self, mark: &str) -> Result<usize> {
        Ok(self.log()?.lines().filter(|line| line.contains(mark)).count())
    }

    /// What all the servers were given, over all their starts.
    pub fn log(&self) -> Result<String> {
        let log = fs::read(self.folder.path().join("general.log"))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// Where its small disk is.
    pub fn disk(&self) -> Result<&Path> {
        let Disk(mounted) = self.disk.as_ref().context("no disk of its own")?;
        Ok(mounted)
    }

    /// Fills its small disk up to the last block.
    pub fn fill_disk(&self) -> Result<()> {
        let mut ballast = fs::File::create(self.disk()?.join("ballast"))?;
        for size in [1 << 20, 4096] {
            loop {
                match ballast.write_all(&vec![0; size]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Makes room again on its disk.
    pub fn empty_disk(&self) -> Result<()> {
        Ok(fs::remove_file(self.disk()?.join("ballast"))?)
    }

    fn pid(&self) -> Result<Pid> {
        let file = self.folder.path().join("n1/pid");
        let pid: i32 = fs::read_to_string(file)?.trim().parse()?;
        Pid::from_raw(pid).context("no process id")
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        let _ = self.go_on();
        let _ = self.script.run("destroy", self.folder.path(), 1);
        if let Ok(mounted) = self.disk() {
            let _ = program::run(Command::new("umount").arg(mounted), "");
        }
    }
}

impl Script {
    fn run(&self, action: &str, folder: &Path, node: u32) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.arg(action).arg(folder).arg(node.to_string());
        command.env("BASE_PORT", self.port.to_string()).env("NODES", self.nodes);
        command.env(self.settings.0, &self.settings.1);
        if std::env::var_os("MYSQL_PREFIX").is_none() {
            command.env("MYSQL_PREFIX", cache().join("mysql-server"));
        }
        program::run(&mut command, "")?.good()
    }
}

/// Four ports in a row that are this test's for as long as they are held: bound on an address that no
/// server uses, so that other processes see them as taken before the servers have begun to listen.
fn free_ports() -> Result<(u32, Vec<TcpListener>)> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    const PORTS: u32 = 3000;
    let begin = std::process::id() * 7 + ASKED.fetch_add(1, Ordering::Relaxed) * 4;
    for n in 0..PORTS {
        let port = u16::try_from(25_000 + (begin + n) % PORTS)?;
        let bound = |host: [u8; 4]| -> std::io::Result<Vec<_>> {
            (port..port + 4).map(|port| TcpListener::bind((IpAddr::from(host), port))).collect()
        };
        // In this order: a port that another test holds is not touched where its server is to listen.
        if let Ok(held) = bound([127, 0, 0, 2])
            && bound([127, 0, 0, 1]).is_ok()
        {
            return Ok((port.into(), held));
        }
    }
    bail!("no free ports")
}
