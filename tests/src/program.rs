//! Command lines that a test runs.

use crate::cluster::cache;
use anyhow::{Context, Result, bail};
use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

/// What a program said.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// The output of a program that succeeded; otherwise an error with all that it said.
    pub fn good(self) -> Result<Self> {
        if self.code != Some(0) {
            bail!("exit code {:?}\n{}\n{}", self.code, self.stdout, self.stderr);
        }
        Ok(self)
    }
}

/// Runs `command` with `input` on standard input to its end.
pub fn run(command: &mut Command, input: &str) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let input = input.to_owned();
    // a program that ends early leaves its input unread
    let feeder = thread::spawn(move || stdin.write_all(input.as_bytes()).ok());
    let mut stderr = child.stderr.take().context("no standard error")?;
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).map(|_| text)
    });
    let output = child.wait_with_output()?;
    let stderr = errors.join().map_err(|_| anyhow::anyhow!("the reader of stderr panicked"))??;
    let _ = feeder.join();
    Ok(Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    })
}

/// MySQL's command line, where MySQL was unpacked.
pub fn mysql() -> Option<PathBuf> {
    of_mysql("mysql")
}

/// One of MySQL's other programs.
pub fn of_mysql(name: &str) -> Option<PathBuf> {
    Some(cache().join("mysql-server/bin").join(name)).filter(|path| path.exists())
}

/// MariaDB's command line, as Debian installs it.
pub fn mariadb() -> Option<PathBuf> {
    on_path("mariadb")
}

/// The same of a MariaDB that has parsec, where it was unpacked.
pub fn newer_mariadb() -> Option<PathBuf> {
    Some(cache().join("mariadb-sid/bin/mariadb")).filter(|path| path.exists())
}

/// The Python that has the drivers.
pub fn python() -> Option<PathBuf> {
    let given = std::env::var_os("TOWPATH_PYTHON").map(PathBuf::from);
    given.or_else(|| Some(cache().join("venv/bin/python"))).filter(|path| path.exists())
}

/// sysbench, as Debian installs it.
pub fn sysbench() -> Option<PathBuf> {
    on_path("sysbench")
}

/// A program on the PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}
