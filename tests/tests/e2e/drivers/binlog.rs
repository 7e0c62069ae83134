//! Binary logs read over the network: the same events through the proxy as directly.

use super::bed::{Bed, Case, To};
use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, Vendor,
    program::{self, Output},
    skip,
};
use std::process::Command;

on_both_vendors!(decoded, raw, no_such_file);

/// The vendor's own program: the other's asks questions that the server does not know.
fn reader(cluster: &Cluster) -> Option<Command> {
    let program = match cluster.vendor {
        Vendor::MariaDb => program::on_path("mariadb-binlog"),
        Vendor::MySql => program::of_mysql("mysqlbinlog"),
    };
    if program.is_none() {
        skip::report("this program is not installed");
    }
    program.map(Command::new)
}

/// A log of its own, closed: nobody else writes to it. Its name.
fn a_log(bed: &Bed<'_>) -> Result<String> {
    let mut client = bed.cluster.direct()?;
    client.must("FLUSH BINARY LOGS")?;
    let sql = match bed.cluster.vendor {
        Vendor::MariaDb => "SHOW MASTER STATUS",
        Vendor::MySql => "SHOW BINARY LOG STATUS",
    };
    let name = client.rows(sql)?[0][0].clone().context("no log")?;
    client.must(&format!("USE {}", bed.schema.name))?;
    client.must("CREATE TABLE logged (id INT PRIMARY KEY, t TEXT, b LONGBLOB)")?;
    for n in 0..20 {
        let sql = format!(
            "INSERT INTO logged VALUES ({n}, REPEAT('é', {n} * 100), REPEAT(x'FF', {n} * 20000))"
        );
        client.must(&sql)?;
    }
    client.must("UPDATE logged SET t = 'none' WHERE id < 5")?;
    client.must("DELETE FROM logged WHERE id > 7")?;
    client.must("FLUSH BINARY LOGS")?;
    client.quit()?;
    Ok(name)
}

fn command(bed: &Bed<'_>, to: &To<'_>) -> Option<Command> {
    let mut command = reader(bed.cluster)?;
    command
        .args(["--no-defaults", "--read-from-remote-server", "-h", to.host, "-P", to.port])
        .args(["-u", &to.login.user, &format!("-p{}", to.login.password)]);
    match (bed.cluster.vendor, to.case.tls) {
        (Vendor::MariaDb, true) => command.args(["--ssl"]),
        (Vendor::MariaDb, false) => command.args(["--skip-ssl"]),
        (Vendor::MySql, true) => command.args(["--ssl-mode=REQUIRED"]),
        (Vendor::MySql, false) => command.args(["--ssl-mode=DISABLED", "--get-server-public-key"]),
    };
    if to.case.compress == "zlib" && bed.cluster.vendor == Vendor::MySql {
        command.arg("--compression-algorithms=zlib");
    }
    Some(command)
}

fn cases() -> [Case; 2] {
    [Case { tls: false, compress: "none" }, Case { tls: true, compress: "zlib" }]
}

/// As statements with all rows.
fn decoded(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster)?;
    let log = a_log(&bed)?;
    if reader(cluster).is_none() {
        return Ok(());
    }
    for case in cases() {
        bed.same(&case, |to| {
            let mut command = command(&bed, &to).context("no program")?;
            let output =
                program::run(command.args(["--verbose", "--verbose", &log]), "")?.good()?;
            ensure!(output.stdout.lines().count() > 1000, "the log ends early");
            Ok(output)
        })?;
    }
    Ok(())
}

/// As the file that the server has, byte by byte.
fn raw(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster)?;
    let log = a_log(&bed)?;
    if reader(cluster).is_none() {
        return Ok(());
    }
    for case in cases() {
        bed.same(&case, |to| {
            let mut command = command(&bed, &to).context("no program")?;
            let prefix = bed.file("raw-");
            command.arg("--raw").arg(format!("--result-file={}", prefix.display())).arg(&log);
            let output = program::run(&mut command, "")?.good()?;
            let file = std::fs::read(bed.file(&format!("raw-{log}")))?;
            ensure!(file.len() > 1_000_000, "{} bytes only", file.len());
            Ok(Output { stdout: format!("{}", file.escape_ascii()), ..output })
        })?;
    }
    Ok(())
}

/// The server's refusal in the middle of what has no other end.
fn no_such_file(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster)?;
    if reader(cluster).is_none() {
        return Ok(());
    }
    for case in cases() {
        bed.same(&case, |to| {
            let mut command = command(&bed, &to).context("no program")?;
            let output = program::run(command.arg("bin.999999"), "")?;
            ensure!(output.code != Some(0) && output.stderr.contains("find"), "{output:?}");
            Ok(output)
        })?;
    }
    Ok(())
}
