//! The clients `mariadb` and `mysql`, with all that they can show about a result.

use super::bed::{Bed, Case, To};
use anyhow::Result;
use e2e::{
    Cluster, Vendor,
    program::{self, Output},
    skip,
};
use std::{path::Path, process::Command};

on_both_vendors!(mariadb, mysql);

fn mariadb(cluster: &Cluster) -> Result<()> {
    let Some(program) = program::mariadb() else {
        skip::report("the mariadb command line is not installed");
        return Ok(());
    };
    let bed = Bed::new(cluster)?;
    for tls in [false, true] {
        for compress in ["none", "zlib"] {
            bed.same(&Case { tls, compress }, |to| {
                let mut options = vec![if tls { "--ssl" } else { "--skip-ssl" }];
                options.extend((compress == "zlib").then_some("--compress"));
                session(&program, &to, &options, &bed.script)
            })?;
        }
    }
    Ok(())
}

fn mysql(cluster: &Cluster) -> Result<()> {
    let Some(program) = program::mysql() else {
        skip::report("the mysql command line is not installed");
        return Ok(());
    };
    let bed = Bed::new(cluster)?;
    for tls in [false, true] {
        for compress in ["none", "zlib", "zstd"] {
            if compress == "zstd" && cluster.vendor == Vendor::MariaDb {
                continue;
            }
            bed.same(&Case { tls, compress }, |to| {
                let algorithm = format!("--compression-algorithms={compress}");
                let mut options =
                    vec![if tls { "--ssl-mode=REQUIRED" } else { "--ssl-mode=DISABLED" }];
                options.push("--get-server-public-key");
                options.extend((compress != "none").then_some(algorithm.as_str()));
                session(&program, &to, &options, &bed.script)
            })?;
        }
    }
    Ok(())
}

fn session(program: &Path, to: &To<'_>, options: &[&str], script: &str) -> Result<Output> {
    let mut command = Command::new(program);
    command
        .arg("--no-defaults")
        .args(["--protocol=tcp", "--force", "--comments", "--table", "--show-warnings"])
        .args(["--column-type-info", "-v", "-v", "-v", "-h", to.host, "-P", to.port])
        .args(["-u", &to.login.user, &format!("-p{}", to.login.password)])
        .arg("--default-character-set=utf8mb4")
        .args(options);
    program::run(command.arg(to.schema), script).map(masked)
}

/// Times are not the same in any two runs; everything else is.
fn masked(mut output: Output) -> Output {
    let lines = output.stdout.lines().map(|line| match line.rsplit_once(" (") {
        Some((head, tail)) if tail.ends_with(" sec)") => head,
        _ => line,
    });
    output.stdout = lines.collect::<Vec<_>>().join("\n");
    output
}
