//! A scripted tour through the proxy, checked by what the servers have logged.
//!
//! The witness is each server's own general log (MariaDB's `mysql.general_log`, a line for every
//! statement when it arrives), asked over the server's socket. The proxy is not asked: it could
//! be wrong about itself.

mod script;
mod table;

use super::client::{Answer, Session};
use super::cluster::{Accounts, Cluster, SERVERS};
use super::screen::{Mark, Screen};
use anyhow::{Context, Result, bail};
use script::{Expected, SCRIPT, Statement, Step, Who};
use std::collections::HashMap;

/// Runs the tour against the proxy at `port` and shows its table. True if every statement ran
/// where it should have, once, and had the answer it should have had.
pub(super) async fn run(
    cluster: &Cluster,
    port: u16,
    accounts: &Accounts,
    screen: &Screen,
) -> Result<bool> {
    let step = screen.step("a tour with three sessions");
    let mut sessions = HashMap::new();
    // One after the other: that is the order in which replicas are given to sessions.
    for who in Who::ALL {
        let password = if who.user() == "app_writer" { &accounts.writer } else { &accounts.reader };
        sessions.insert(who, Session::open(port, who.user(), password).await?);
    }
    let mut answers = Vec::new();
    for step in SCRIPT {
        match step {
            Step::CatchUp => cluster.catch_up().await?,
            Step::Run(statement) => {
                let Some(session) = sessions.get_mut(&statement.who) else {
                    bail!("session {:?} is not open", statement.who)
                };
                let answer = session
                    .run(statement.text)
                    .await
                    .with_context(|| format!("{} as {}", statement.text, statement.who.user()))?;
                answers.push((statement, answer));
            }
        }
    }
    // The sessions are still open: nothing but the script itself is in the logs.
    let log = read_log(cluster).await?;
    let stops: Vec<_> =
        answers.into_iter().map(|(s, answer)| Stop::new(s, &answer, &log)).collect();
    step.done("a tour with three sessions");
    screen.line("      which server ran what, as the servers themselves have logged it:\n");
    let findings = findings(&stops);
    screen.line(&table::render(&stops, &findings, screen.is_terminal()));
    Ok(stops.iter().all(|stop| stop.mark() == Mark::Good)
        && findings.iter().all(|(mark, _)| *mark == Mark::Good))
}

/// A line of a server's general log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    server: u16,
    connection: u64,
    user: String,
    text: String,
}

/// One statement of the tour with what became of it.
#[derive(Debug)]
struct Stop {
    statement: &'static Statement,
    /// Server and connection, for each time that the statement was run.
    ran: Vec<(u16, u64)>,
    /// What is wrong with the answer.
    wrong: Option<String>,
}

impl Stop {
    fn new(statement: &'static Statement, answer: &Answer, log: &[Entry]) -> Self {
        let ran = log
            .iter()
            .filter(|entry| entry.text == statement.text && entry.user == statement.who.user())
            .map(|entry| (entry.server, entry.connection))
            .collect();
        Self { statement, ran, wrong: statement.answer.check(answer) }
    }

    fn mark(&self) -> Mark {
        // Run twice, or on two servers, is as wrong as not at all.
        let there = match (self.ran.as_slice(), self.statement.expected) {
            ([(server, _)], Expected::Primary) => *server == 1,
            ([(server, _)], Expected::Replica) => *server != 1,
            _ => false,
        };
        if there && self.wrong.is_none() { Mark::Good } else { Mark::Bad }
    }

    fn where_it_ran(&self) -> String {
        if self.ran.is_empty() {
            return "nowhere".to_owned();
        }
        let names = self.ran.iter().map(|(server, _)| name(*server));
        names.collect::<Vec<_>>().join(", ")
    }
}

fn name(server: u16) -> &'static str {
    SERVERS.iter().find(|(number, _)| *number == server).map_or("?", |(_, name)| name)
}

/// What holds for several statements together.
fn findings(stops: &[Stop]) -> Vec<(Mark, String)> {
    let places = |who: Who, transaction: bool| {
        let mine = stops
            .iter()
            .filter(|s| s.statement.who == who && (!transaction || s.statement.transaction));
        let mut places: Vec<_> = mine.flat_map(|s| s.ran.iter().copied()).collect();
        places.sort_unstable();
        places.dedup();
        places
    };
    let mark = |good: bool| if good { Mark::Good } else { Mark::Bad };
    let servers = |who| places(who, false).iter().map(|(server, _)| *server).collect::<Vec<_>>();
    let transaction = places(Who::Writer, true);
    let (reader, other) = (servers(Who::Reader), servers(Who::OtherReader));
    vec![
        (mark(transaction.len() == 1), "the transaction stayed on one connection".to_owned()),
        (
            mark(reader.len() == 1 && other.len() == 1 && reader != other),
            "the two readers' sessions were spread over both replicas".to_owned(),
        ),
    ]
}

/// Every statement that an application's account has run, on any of the servers. What
/// replication applies is logged under another name, and is not among them.
async fn read_log(cluster: &Cluster) -> Result<Vec<Entry>> {
    const QUERY: &str = "SELECT thread_id, SUBSTRING_INDEX(user_host, '[', 1), argument \
        FROM mysql.general_log WHERE command_type = 'Query' AND user_host LIKE 'app\\_%' \
        ORDER BY event_time;";
    let mut log = Vec::new();
    for (server, _) in SERVERS {
        let text = cluster.sql(server, QUERY).await.context("cannot read a server's log")?;
        for line in text.lines() {
            log.push(entry(server, line).with_context(|| format!("server {server}'s log"))?);
        }
    }
    Ok(log)
}

fn entry(server: u16, line: &str) -> Result<Entry> {
    let mut columns = line.splitn(3, '\t');
    match (columns.next().map(str::parse), columns.next(), columns.next()) {
        (Some(Ok(connection)), Some(user), Some(text)) => {
            Ok(Entry { server, connection, user: user.to_owned(), text: text.to_owned() })
        }
        _ => bail!("has a line of an unknown form"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use script::Wanted;

    static WRITE: Statement = Statement {
        who: Who::Writer,
        text: "INSERT INTO t VALUES (1)",
        expected: Expected::Primary,
        answer: Wanted::Nothing,
        transaction: true,
    };
    static READ: Statement = Statement {
        who: Who::Reader,
        text: "SELECT 1 FROM t",
        expected: Expected::Replica,
        answer: Wanted::Row("1"),
        transaction: false,
    };
    static OTHER: Statement =
        Statement { who: Who::OtherReader, text: "SELECT COUNT(*) FROM t", ..READ_COPY };
    const READ_COPY: Statement = Statement {
        who: Who::Reader,
        text: "",
        expected: Expected::Replica,
        answer: Wanted::Row("1"),
        transaction: false,
    };

    fn log(lines: &[(u16, u64, &str, &str)]) -> Vec<Entry> {
        lines
            .iter()
            .map(|&(server, connection, user, text)| Entry {
                server,
                connection,
                user: user.to_owned(),
                text: text.to_owned(),
            })
            .collect()
    }

    fn nothing() -> Answer {
        Answer::default()
    }

    #[test]
    fn statement_on_the_right_server_is_good() {
        let log = log(&[(1, 7, "app_writer", WRITE.text), (2, 9, "app_writer", "SELECT 1")]);
        let stop = Stop::new(&WRITE, &nothing(), &log);
        assert_eq!((stop.mark(), stop.where_it_ran().as_str()), (Mark::Good, "primary"));
    }

    #[test]
    fn wrong_server_twice_nowhere_and_somebody_else_are_bad() {
        let cases: [&[(u16, u64, &str, &str)]; 4] = [
            &[(2, 7, "app_writer", WRITE.text)],
            &[(1, 7, "app_writer", WRITE.text), (1, 7, "app_writer", WRITE.text)],
            &[],
            &[(1, 7, "app_reader", WRITE.text)],
        ];
        let shown = ["replica1", "primary, primary", "nowhere", "nowhere"];
        for (case, shown) in cases.iter().zip(shown) {
            let stop = Stop::new(&WRITE, &nothing(), &log(case));
            assert_eq!((stop.mark(), stop.where_it_ran().as_str()), (Mark::Bad, shown));
        }
    }

    #[test]
    fn wrong_answer_is_bad() {
        let log = log(&[(3, 7, "app_reader", READ.text)]);
        let row = |text: &str| Answer { rows: vec![text.to_owned()], error: None };
        assert_eq!(Stop::new(&READ, &row("1"), &log).mark(), Mark::Good);
        assert_eq!(Stop::new(&READ, &row("2"), &log).mark(), Mark::Bad);
        assert_eq!(Stop::new(&READ, &nothing(), &log).mark(), Mark::Bad);
    }

    #[test]
    fn findings_tell_split_transactions_and_lopsided_readers() {
        let marks = |lines: &[(u16, u64, &str, &str)]| {
            let log = log(lines);
            let stops = [&WRITE, &READ, &OTHER].map(|s| Stop::new(s, &nothing(), &log));
            findings(&stops).iter().map(|(mark, _)| *mark).collect::<Vec<_>>()
        };
        let write = (1, 7, "app_writer", WRITE.text);
        let read = (2, 8, "app_reader", READ.text);
        let other = (3, 9, "app_reader", OTHER.text);
        assert_eq!(marks(&[write, read, other]), [Mark::Good, Mark::Good]);
        assert_eq!(marks(&[write, (1, 70, write.2, write.3), read, other])[0], Mark::Bad);
        assert_eq!(marks(&[write, read, (2, 9, other.2, other.3)])[1], Mark::Bad);
        assert_eq!(marks(&[]), [Mark::Bad, Mark::Bad]);
    }

    #[test]
    fn log_lines_are_read() {
        let read = entry(2, "17\tapp_reader\tSELECT 'a\\tb'").unwrap();
        assert_eq!(read, log(&[(2, 17, "app_reader", "SELECT 'a\\tb'")])[0]);
        assert!(entry(2, "17").is_err());
        assert!(entry(2, "x\ty\tz").is_err());
    }
}
