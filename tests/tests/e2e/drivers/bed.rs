//! Two ways to the same server, and the comparison of what a program says on each.

use super::languages::{self, Program};
use anyhow::{Context, Result, bail};
use e2e::{
    Cluster, Login, Proxy, Setup,
    cluster::Schema,
    program::{self, Output},
};
use std::{path::PathBuf, process::Command};
use tempfile::TempDir;

/// How a client is to connect.
pub(super) struct Case {
    pub(super) tls: bool,
    pub(super) compress: &'static str,
}

/// Where a program is to connect, and with what.
pub(super) struct To<'a> {
    pub(super) host: &'a str,
    pub(super) port: &'a str,
    pub(super) login: &'a Login,
    pub(super) schema: &'a str,
    pub(super) case: &'a Case,
    pub(super) bed: &'a Bed<'a>,
}

/// A server, and proxies in front of it.
pub(super) struct Bed<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) schema: Schema,
    /// All statements of the session.
    pub(super) script: String,
    /// For clients without TLS: nothing is encrypted or compressed behind it either.
    plain: Proxy,
    /// For clients with TLS: requires it, and has both on its other side.
    tls: Proxy,
    folder: TempDir,
}

const LIMITS: &str = "[limits]\nmax_allowed_packet = \"192 MiB\"\n";

impl<'a> Bed<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Result<Self> {
        Self::with(cluster, "")
    }

    /// Adds a line of TOML to the proxies' listeners.
    pub(super) fn with(cluster: &'a Cluster, listener: &str) -> Result<Self> {
        Self::of(cluster, Setup::of(cluster).listener(listener))
    }

    /// With proxies that `setup` begins; this adds limits, and TLS to one of them.
    pub(super) fn of(cluster: &'a Cluster, setup: Setup) -> Result<Self> {
        let setup = setup.append(LIMITS);
        let tls = setup
            .clone()
            .listener_tls("require")
            .server("tls = { mode = \"require\" }")
            .server("compression = \"zlib\"");
        let script = [&format!("types-{}", cluster.vendor), "types", "session"].map(|name| {
            std::fs::read_to_string(languages::folder().join(name).with_extension("sql"))
        });
        let script = script.into_iter().collect::<std::io::Result<Vec<_>>>()?.concat();
        let folder = TempDir::with_prefix("towpath-drivers-")?;
        std::fs::write(folder.path().join("script.sql"), &script)?;
        Ok(Self {
            cluster,
            schema: cluster.schema()?,
            script,
            plain: setup.start()?,
            tls: tls.start()?,
            folder,
        })
    }

    /// A file for whatever a program writes.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `program` directly and through the proxy, each time in an empty schema, and compares.
    pub(super) fn same(
        &self,
        case: &Case,
        program: impl Fn(To<'_>) -> Result<Output>,
    ) -> Result<()> {
        self.same_as(&self.cluster.admin(), case, program)
    }

    /// Like [`Bed::same`] with another account.
    pub(super) fn same_as(
        &self,
        login: &Login,
        case: &Case,
        program: impl Fn(To<'_>) -> Result<Output>,
    ) -> Result<()> {
        let proxy = if case.tls { &self.tls } else { &self.plain };
        let mut outputs = Vec::new();
        for address in [&self.cluster.addresses[0], &proxy.address] {
            self.schema.clear()?;
            let (host, port) = address.split_once(':').context("address")?;
            let schema = &self.schema.name;
            outputs.push(program(To { host, port, login, schema, case, bed: self })?);
        }
        let Case { tls, compress } = case;
        compare(&outputs[0], &outputs[1])
            .with_context(|| format!("TLS {tls}, compression {compress}"))
    }
}

impl To<'_> {
    /// Runs a driver's program, which has to succeed at the server.
    pub(super) fn run(&self, program: &Program, big: usize, steps: &str) -> Result<Output> {
        let output = self.attempt(program, big, steps)?;
        // the proxy's side is compared; the server's has to come to its end
        let directly = self.bed.cluster.addresses[0] == format!("{}:{}", self.host, self.port);
        if directly && output.code != Some(0) {
            bail!("directly: exit code {:?}: {}", output.code, output.stderr);
        }
        Ok(output)
    }

    /// Runs a driver's program; `tests/drivers/README.md` says what its arguments are.
    pub(super) fn attempt(&self, program: &Program, big: usize, steps: &str) -> Result<Output> {
        let mut command = Command::new(&program.words[0]);
        command.args(&program.words[1..]).envs(program.environment.iter().cloned());
        let cluster = self.bed.cluster;
        let on = if self.case.tls { "on" } else { "off" };
        for (name, value) in [
            ("host", self.host),
            ("port", self.port),
            ("user", &self.login.user),
            ("password", &self.login.password),
            ("schema", self.schema),
            ("vendor", &cluster.vendor.to_string()),
            ("tls", on),
            ("ca", &cluster.certificates.ca.display().to_string()),
            ("compress", self.case.compress),
            ("file", &self.bed.file("script.sql").display().to_string()),
            ("rows", &languages::folder().join("rows.csv").display().to_string()),
            ("big", &big.to_string()),
            ("steps", steps),
        ] {
            command.arg(format!("{name}={value}"));
        }
        program::run(&mut command, "")
    }
}

/// The first line that differs, and the statement or step before it.
fn compare(direct: &Output, proxied: &Output) -> Result<()> {
    if direct.stdout.is_empty() && direct.stderr.is_empty() {
        bail!("it said nothing: {direct:?}");
    }
    for (name, direct, proxied) in
        [("stdout", &direct.stdout, &proxied.stdout), ("stderr", &direct.stderr, &proxied.stderr)]
    {
        let mut statement = "";
        let (mut left, mut right) = (direct.lines(), proxied.lines());
        loop {
            match (left.next(), right.next()) {
                (None, None) => break,
                (a, b) if a == b => {
                    statement = a.filter(|a| !a.starts_with(' ')).unwrap_or(statement);
                }
                (a, b) => bail!(
                    "{name}, after {statement:?}:\n  directly {}\n  proxied  {}",
                    cut(a),
                    cut(b)
                ),
            }
        }
    }
    if direct.code != proxied.code {
        bail!("exit code {:?} directly, {:?} through the proxy", direct.code, proxied.code);
    }
    Ok(())
}

/// A line for a person to read.
fn cut(line: Option<&str>) -> String {
    format!("{:?}", line.map(|line| line.chars().take(600).collect::<String>()))
}
