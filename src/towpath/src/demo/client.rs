//! The `mariadb` command line as a client.

use super::command;
use anyhow::{Context, Result, anyhow, bail};
use std::io;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin};

/// A line for each row, tabs between columns, no frame, no column names.
const PLAIN: [&str; 3] = ["--no-defaults", "--batch", "--skip-column-names"];

/// Runs `statements` as root on the server that listens at `socket` and returns what is printed.
pub(super) async fn run_as_root(socket: &Path, statements: &str) -> Result<String> {
    let mut child = command("mariadb");
    child.args(PLAIN).arg("--user=root").arg("--socket").arg(socket);
    let mut child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start mariadb")?;
    let mut stdin = child.stdin.take().ok_or_else(|| anyhow!("mariadb has no standard input"))?;
    stdin.write_all(statements.as_bytes()).await.context("mariadb ended early")?;
    drop(stdin);
    let output = child.wait_with_output().await.context("cannot wait for mariadb")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("mariadb printed something that is not text")
}

/// One client session that stays open, and is given its statements one by one.
#[derive(Debug)]
pub(super) struct Session {
    stdin: ChildStdin,
    output: Lines<BufReader<Receiver>>,
    count: usize,
    // Ends the client when the session is dropped.
    _child: Child,
}

/// What came back for one statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Tabs between columns.
    pub(super) rows: Vec<String>,
    /// As the client shows it: `ERROR 1142 (42000) at line 1: ...`.
    pub(super) error: Option<String>,
}

impl Session {
    /// Logs in at `port` of 127.0.0.1 with the schema `app`, and returns when a first statement has
    /// shown that it works.
    pub(super) async fn open(port: u16, user: &str, password: &str) -> Result<Self> {
        // Errors and rows through one pipe, so that they are read in the order they were written.
        let (reader, writer) = io::pipe().context("no pipe")?;
        let mut child = command("mariadb");
        child
            .args(PLAIN)
            .args(["--unbuffered", "--force", "--host=127.0.0.1", "--protocol=tcp"])
            .args([format!("--port={port}"), format!("--user={user}"), "app".to_owned()])
            .env("MYSQL_PWD", password)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone().context("no pipe")?)
            .stderr(writer);
        let mut running = child.spawn().context("cannot start mariadb")?;
        // It holds the writing end, too: as long as it does, the client's end is not seen.
        drop(child);
        let stdin = running.stdin.take().ok_or_else(|| anyhow!("mariadb has no standard input"))?;
        let output = Receiver::from_owned_fd(reader.into()).context("no pipe")?;
        let output = BufReader::new(output).lines();
        let mut session = Self { stdin, output, count: 0, _child: running };
        match session.run("DO 0").await?.error {
            Some(error) => bail!(error),
            None => Ok(session),
        }
    }

    /// Runs one statement: a single line, without the semicolon.
    pub(super) async fn run(&mut self, statement: &str) -> Result<Answer> {
        self.count += 1;
        let mark = format!("end of statement {}", self.count);
        let text = format!("{statement};\nSELECT '{mark}';\n");
        // A client whose login failed has said so, and has ended: that is read below.
        let written = self.stdin.write_all(text.as_bytes()).await;
        let mut lines = Vec::new();
        loop {
            match self.output.next_line().await.context("the client's output")? {
                Some(line) if line == mark => return Ok(Answer::of(lines)),
                Some(line) => lines.push(line),
                None => {
                    let why = Answer::of(lines).error;
                    let ended = || written.err().map_or("it ended".to_owned(), |e| e.to_string());
                    bail!("the mariadb client: {}", why.unwrap_or_else(ended));
                }
            }
        }
    }
}

impl Answer {
    /// Sorts the lines. Before an error, the client repeats the statement between dashes.
    fn of(mut lines: Vec<String>) -> Self {
        let Some(at) = lines.iter().position(|line| line.starts_with("ERROR ")) else {
            return Self { rows: lines, error: None };
        };
        let error = Some(lines.swap_remove(at));
        let repeated = lines.iter().position(|line| line.starts_with("-----"));
        lines.truncate(repeated.unwrap_or(at));
        Self { rows: lines, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        Answer::of(text.lines().map(str::to_owned).collect())
    }

    #[tokio::test]
    async fn end_of_the_client_is_seen_and_its_reason_told() {
        if crate::demo::packages::find("mariadb").is_none() {
            eprintln!("SKIPPED: the mariadb client is not installed");
            return;
        }
        let closed = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let opened = Session::open(closed, "app_writer", "");
        let opened = tokio::time::timeout(std::time::Duration::from_secs(60), opened).await;
        let error = opened.expect("the client has ended long ago").unwrap_err().to_string();
        assert!(error.contains("ERROR 2002") || error.contains("ERROR 2003"), "{error}");
    }

    #[test]
    fn rows_are_rows() {
        assert_eq!(answer("1\ta\n2\tb").rows, ["1\ta", "2\tb"]);
        assert_eq!(answer(""), Answer::default());
    }

    #[test]
    fn error_is_told_from_rows_and_from_the_statement_repeated() {
        let text = "1\n--------------\nDELETE FROM t\n--------------\n\nERROR 1142 (42000) at line \
                    3: DELETE command denied";
        let answer = answer(text);
        assert_eq!(answer.rows, ["1"]);
        assert!(answer.error.unwrap().starts_with("ERROR 1142 "));
    }
}
