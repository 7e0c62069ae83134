//! A primary and two replicas of MariaDB, started by the embedded script.

use super::client;
use super::command;
use super::ports::Ports;
use super::screen::Screen;
use super::workspace::Workspace;
use anyhow::{Context, Result, anyhow, bail};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SCRIPT: &str = include_str!("../../../../config/demo/mariadb-cluster.sh");

/// The script's name in the demo's directory.
pub(super) const SCRIPT_NAME: &str = "mariadb-cluster.sh";

/// Where distributions keep the server's plugins; the script's own default is the first.
const PLUGINS: [&str; 4] = [
    "/usr/lib/mysql/plugin",
    "/usr/lib64/mariadb/plugin",
    "/usr/lib64/mysql/plugin",
    "/usr/lib/mariadb/plugin",
];

/// How servers are numbered: `server_id` 1 is the primary, 2 and 3 are the replicas.
pub(super) const SERVERS: [(u16, &str); 3] = [(1, "primary"), (2, "replica1"), (3, "replica2")];

/// The accounts that the demo's servers have for clients, with the passwords made for this run.
pub(super) struct Accounts {
    pub(super) writer: String,
    pub(super) reader: String,
}

impl Accounts {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { writer: password()?, reader: password()? })
    }
}

/// Where the servers write which statements they ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    /// `DIR/nN/data/general.log`, for people.
    File,
    /// `mysql.general_log`, for the tour.
    Table,
}

/// Three servers that run and follow each other.
#[derive(Debug)]
pub(super) struct Cluster {
    dir: PathBuf,
}

impl Cluster {
    /// Starts them in `workspace` and returns when both replicas have seen a write.
    pub(super) async fn start(
        workspace: &Workspace,
        ports: &Ports,
        accounts: &Accounts,
        log: Log,
        screen: &Screen,
    ) -> Result<Self> {
        let step = screen.step("starting a primary and two replicas");
        let cluster = Self { dir: workspace.dir().to_owned() };
        let script = workspace.write(SCRIPT_NAME, SCRIPT)?;
        let init = workspace.write("accounts.sql", &accounts_sql(accounts))?;
        let output = File::create(cluster.dir.join("cluster.log"))
            .context("cannot write into the demo's directory")?;
        let mut child = command("bash");
        child
            .arg(&script)
            .arg("up")
            .arg(&cluster.dir)
            .env("BASE_PORT", ports.primary.to_string())
            .env("NODES", "1 2 3")
            .env("MARIADB_EXTRA", extra(&init, log))
            .stdout(output.try_clone().context("cannot write into the demo's directory")?)
            .stderr(output);
        if let Some(plugins) = PLUGINS.iter().find(|dir| Path::new(dir).is_dir()) {
            child.env("MARIADB_PLUGIN_DIR", plugins);
        }
        let mut child = child.spawn().context("cannot start bash")?;
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        let status = loop {
            tokio::select! {
                status = child.wait() => break status.context("cannot wait for bash")?,
                _ = ticks.tick() => step.update(phase(&cluster.dir)),
            }
        };
        if !status.success() {
            return Err(cluster.failure());
        }
        cluster.sql(1, SAMPLE).await.context("cannot write sample data to the primary")?;
        cluster.catch_up().await?;
        step.done("a primary and two replicas are up, and follow");
        Ok(cluster)
    }

    /// Runs statements on server `number` itself, not through the proxy, and returns what the
    /// client prints: a line for each row, tabs between columns.
    pub(super) async fn sql(&self, number: u16, statements: &str) -> Result<String> {
        client::run_as_root(&self.dir.join(format!("n{number}/s.sock")), statements).await
    }

    /// Waits until both replicas have what the primary has now.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let position = self.sql(1, "SELECT @@gtid_binlog_pos;").await?;
        let wait = format!("SELECT MASTER_GTID_WAIT('{}', 20);", position.trim());
        for number in [2, 3] {
            if self.sql(number, &wait).await?.trim() != "0" {
                bail!("server {number} does not follow the primary");
            }
        }
        Ok(())
    }

    fn failure(&self) -> anyhow::Error {
        let mut text = String::new();
        if let Ok(file) = File::open(self.dir.join("cluster.log")) {
            // A log that is not text is shown as far as it is.
            let _ = file.take(1 << 20).read_to_string(&mut text);
        }
        let lines: Vec<_> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n  ");
        anyhow!("the servers did not start:\n  {tail}")
    }
}

/// Something to look at.
const SAMPLE: &str = "\
CREATE TABLE app.boats (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL);
INSERT INTO app.boats (name) VALUES ('Gannet'), ('Heron'), ('Kingfisher');
";

/// What the script is at, by the files it has made.
fn phase(dir: &Path) -> &'static str {
    if dir.join("env").exists() {
        "waiting until the replicas follow"
    } else if dir.join("n1/launched").exists() {
        "starting the three servers"
    } else {
        "making certificates and an empty database"
    }
}

/// Lines for the servers' configuration. The init file runs before a server listens.
fn extra(init: &Path, log: Log) -> String {
    let output = match log {
        Log::File => "FILE",
        Log::Table => "TABLE",
    };
    format!(
        "init-file={}\ngeneral-log=1\ngeneral-log-file=general.log\nlog-output={output}",
        init.display()
    )
}

/// One statement a line, as init files are read. Runs on each server by itself, so it must not be
/// replicated. The script's accounts have passwords that anybody can read: all that the demo does
/// not need go before the server listens, so that nobody else on this machine can use them.
fn accounts_sql(accounts: &Accounts) -> String {
    const SURPLUS: [&str; 13] = [
        "admin@'%'",
        "monitor@'%'",
        "app@'%'",
        "app_ro@'%'",
        "app_nopw@'%'",
        "app_ssl@'%'",
        "app_x509@'%'",
        "app_ed@'%'",
        "app_parsec@'%'",
        "sbtest@'%'",
        "''@localhost",
        "root@'127.0.0.1'",
        "root@'::1'",
    ];
    let mut text = String::from("SET SESSION sql_log_bin = 0, SESSION sql_log_off = 1;\n");
    for account in SURPLUS {
        text += &format!("DROP USER IF EXISTS {account};\n");
    }
    text += "DROP DATABASE IF EXISTS sbtest;\n";
    for (name, rights, password) in
        [("app_writer", "ALL", &accounts.writer), ("app_reader", "SELECT", &accounts.reader)]
    {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "CREATE OR REPLACE USER {name}@'%' IDENTIFIED VIA mysql_native_password \
             USING PASSWORD('{password}');\nGRANT {rights} ON app.* TO {name}@'%';\n"
        );
    }
    text
}

/// 80 random bits in letters that need no quotes anywhere.
fn password() -> Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn accounts_file_is_one_statement_a_line_and_stays_local() {
        let accounts = Accounts { writer: "w1".to_owned(), reader: "r1".to_owned() };
        let text = accounts_sql(&accounts);
        assert!(text.lines().all(|line| line.ends_with(';')), "{text}");
        assert!(text.starts_with("SET SESSION sql_log_bin = 0"), "{text}");
        assert!(text.contains(
            "USER app_reader@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('r1');"
        ));
        assert!(text.contains("GRANT SELECT ON app.* TO app_reader@'%';"));
        assert!(text.contains("GRANT ALL ON app.* TO app_writer@'%';"));
    }

    #[test]
    fn every_account_of_the_script_is_dropped_but_for_replication() {
        let text = accounts_sql(&Accounts { writer: String::new(), reader: String::new() });
        let made = SCRIPT.lines().filter_map(|line| line.strip_prefix("CREATE USER "));
        let names: Vec<_> = made.filter_map(|line| line.split_once('@')).map(|(n, _)| n).collect();
        assert!(names.len() > 5, "the script's accounts are not where they were: {names:?}");
        for name in names {
            let dropped = text.contains(&format!("DROP USER IF EXISTS {name}@'%';"));
            assert_eq!(dropped, name != "repl", "{name}");
        }
    }

    #[test]
    fn passwords_differ_and_need_no_quotes() {
        let (one, two) = (password().unwrap(), password().unwrap());
        assert_ne!(one, two);
        assert!(one.len() == 16 && one.chars().all(|c| c.is_ascii_alphanumeric()), "{one}");
    }

    #[test]
    fn phases_follow_the_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(phase(dir.path()).contains("certificates"));
        fs::create_dir(dir.path().join("n1")).unwrap();
        fs::write(dir.path().join("n1/launched"), "1").unwrap();
        assert!(phase(dir.path()).contains("three servers"));
        fs::write(dir.path().join("env"), "").unwrap();
        assert!(phase(dir.path()).contains("follow"));
    }

    #[test]
    fn log_goes_where_it_is_read() {
        let table = extra(Path::new("/d/accounts.sql"), Log::Table);
        assert!(table.contains("init-file=/d/accounts.sql\n") && table.ends_with("=TABLE"));
        assert!(extra(Path::new("/d/a"), Log::File).ends_with("log-output=FILE"));
    }
}
