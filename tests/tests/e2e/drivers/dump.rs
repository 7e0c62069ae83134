//! Dumps: the same through the proxy as directly, and what was restored through it dumps the same.

use super::bed::{Bed, Case, To};
use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster,
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
    let tls = ["--skip-ssl", "--ssl"];
    dumps(cluster, &Programs { client, dump, tls, compress: "--compress", more: &[] })
}

fn mysqldump(cluster: &Cluster) -> Result<()> {
    let (Some(client), Some(dump)) = (program::mysql(), program::of_mysql("mysqldump")) else {
        skip::report("mysqldump is not installed");
        return Ok(());
    };
    let tls = ["--ssl-mode=DISABLED", "--ssl-mode=REQUIRED"];
    let compress = "--compression-algorithms=zlib";
    dumps(cluster, &Programs { client, dump, tls, compress, more: &["--get-server-public-key"] })
}

fn dumps(cluster: &Cluster, programs: &Programs) -> Result<()> {
    let bed = Bed::new(cluster)?;
    for case in [Case { tls: false, compress: "none" }, Case { tls: true, compress: "zlib" }] {
        // a schema is made, dumped, emptied, restored and dumped again, all on the same way
        bed.same(&case, |to| {
            let script = bed.script.replace("TRUNCATE TABLE goods;", "") + OBJECTS;
            let script = script.replace("USE information_schema;", "");
            program::run(programs.client(to, "utf8mb4").args(["--force", to.schema]), &script)?;
            let first = programs.dump(to, &bed.file("first"))?;
            bed.schema.clear()?;
            let dump = std::fs::read_to_string(bed.file("first"))?;
            program::run(programs.client(to, "binary").arg(to.schema), &dump)?
                .good()
                .context("restoring")?;
            programs.dump(to, &bed.file("second"))?;
            let again = std::fs::read_to_string(bed.file("second"))?;
            ensure!(dump.lines().count() > 200, "the dump ends early");
            ensure!(differs(&dump, &again).is_none(), "restored: {:?}", differs(&dump, &again));
            let stdout = without_host(&dump);
            Ok(Output { stdout, ..first })
        })?;
    }
    Ok(())
}

impl Programs {
    fn client(&self, to: &To<'_>, charset: &str) -> Command {
        let mut command = self.command(&self.client, to);
        command.arg(format!("--default-character-set={charset}"));
        command
    }

    fn dump(&self, to: &To<'_>, file: &Path) -> Result<Output> {
        let mut command = self.command(&self.dump, to);
        command
            .args(["--single-transaction", "--routines", "--events", "--triggers", "--hex-blob"])
            .args(["--skip-dump-date", "--default-character-set=utf8mb4"])
            .arg(format!("--result-file={}", file.display()))
            .arg(to.schema);
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

/// The first lines that are not the same.
fn differs<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    one.lines().zip(other.lines()).find(|(a, b)| a != b)
}

/// The one line of a dump that says where it was made.
fn without_host(dump: &str) -> String {
    let lines = dump.lines().filter(|line| !line.starts_with("-- Host: "));
    lines.collect::<Vec<_>>().join("\n")
}
