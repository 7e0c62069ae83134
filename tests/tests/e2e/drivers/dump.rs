//! Dumps: the same through the proxy as directly, and what was restored through it dumps the same.

use super::bed::{Bed, Case, To};
use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, Vendor,
    program::{self, Output},
    skip,
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

on_both_vendors!(mariadb_dump, mysqldump);

/// What a dump has to hold besides the session's tables.
const OBJECTS: &str = "
CREATE VIEW cheap AS SELECT id, name FROM goods WHERE price < 50;
CREATE TABLE log (id INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(20));
CREATE TRIGGER watch AFTER INSERT ON goods FOR EACH ROW INSERT INTO log (what) VALUES (NEW.name);
CREATE PROCEDURE two() SELECT 2;
CREATE FUNCTION three() RETURNS INT DETERMINISTIC RETURN 3;
CREATE EVENT never ON SCHEDULE AT '2037-01-01 00:00:00' DO SELECT 1;
INSERT INTO goods (name, price, raw) VALUES ('tar', 1.5, 0x00FF27225C0A), ('hemp', NULL, NULL);
CREATE TABLE many (id INT PRIMARY KEY, t TEXT);
INSERT INTO many WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900)
  SELECT i, REPEAT(CHAR(97 + i % 26), i * 20) FROM n;
";

struct Programs {
    /// Whose they are: a dump of the other's server cannot always be restored by them.
    vendor: Vendor,
    client: PathBuf,
    dump: PathBuf,
    /// Options that the dump's program needs for TLS off and on, and for compression.
    tls: [&'static str; 2],
    compress: &'static str,
    more: &'static [&'static str],
}

fn mariadb_dump(cluster: &Cluster) -> Result<()> {
    let (Some(client), Some(dump)) = (program::mariadb(), program::on_path("mariadb-dump")) else {
        skip::report("mariadb-dump is not installed");
        return Ok(());
    };
    dumps(
        cluster,
        &Programs {
            vendor: Vendor::MariaDb,
            client,
            dump,
            tls: ["--skip-ssl", "--ssl"],
            compress: "--compress",
            more: &[],
        },
    )
}

fn mysqldump(cluster: &Cluster) -> Result<()> {
    let (Some(client), Some(dump)) = (program::mysql(), program::of_mysql("mysqldump")) else {
        skip::report("mysqldump is not installed");
        return Ok(());
    };
    dumps(
        cluster,
        &Programs {
            vendor: Vendor::MySql,
            client,
            dump,
            tls: ["--ssl-mode=DISABLED", "--ssl-mode=REQUIRED"],
            compress: "--compression-algorithms=zlib",
            more: &["--get-server-public-key"],
        },
    )
}

fn dumps(cluster: &Cluster, programs: &Programs) -> Result<()> {
    let bed = Bed::new(cluster)?;
    let script = bed.script.replace("TRUNCATE TABLE goods;", "") + OBJECTS;
    let script = script.replace("USE information_schema;", "");
    for case in [Case { tls: false, compress: "none" }, Case { tls: true, compress: "zlib" }] {
        // a schema is made, dumped, emptied, restored and dumped again, all on the same way
        bed.same(&case, |to| {
            let (first, second) = (bed.file("first"), bed.file("second"));
            program::run(programs.client(&to).args(["--force", to.schema]), &script)?;
            let output = programs.dump(&to, &first)?;
            let dump = std::fs::read(&first)?;
            ensure!(dump.len() > 500_000, "the dump ends early");
            if cluster.vendor == programs.vendor {
                bed.schema.clear()?;
                let source = format!("--execute=source {}", first.display());
                program::run(programs.client(&to).args([&source, to.schema]), "")?
                    .good()
                    .context("restoring")?;
                programs.dump(&to, &second)?;
                ensure!(dump == std::fs::read(&second)?, "restored, it is not the same");
            }
            Ok(Output { stdout: without_host(&dump), ..output })
        })?;
    }
    Ok(())
}

impl Programs {
    fn client(&self, to: &To<'_>) -> Command {
        let mut command = self.command(&self.client, to);
        command.arg("--default-character-set=utf8mb4");
        if self.vendor == Vendor::MySql {
            command.arg("--commands"); // source, DELIMITER
        }
        command
    }

    fn dump(&self, to: &To<'_>, file: &Path) -> Result<Output> {
        let mut command = self.command(&self.dump, to);
        command
            .args(["--single-transaction", "--routines", "--events", "--triggers", "--hex-blob"])
            .args(["--skip-dump-date", "--default-character-set=utf8mb4"])
            .arg(format!("--result-file={}", file.display()))
            .arg(to.schema);
        if self.vendor == Vendor::MySql {
            command.arg("--set-gtid-purged=OFF");
        }
        program::run(&mut command, "")?.good()
    }

    fn command(&self, program: &Path, to: &To<'_>) -> Command {
        let mut command = Command::new(program);
        command
            .args(["--no-defaults", "--protocol=tcp", "-h", to.host, "-P", to.port])
            .args(["-u", &to.login.user, &format!("-p{}", to.login.password)])
            .arg(self.tls[usize::from(to.case.tls)])
            .args((to.case.compress != "none").then_some(self.compress))
            .args(self.more);
        command
    }
}

/// Without the one line that says where the dump was made.
fn without_host(dump: &[u8]) -> String {
    let lines = dump.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"-- Host: "));
    lines.map(|line| line.escape_ascii().to_string()).collect::<Vec<_>>().join("\n")
}
