//! What servers' general logs say of a script: each of its works has run once, where it may, and each
//! connection has executed a part of the script in its order.

use super::script::Script;
use anyhow::{Result, bail, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

/// The logs of a primary and its replicas.
#[derive(Debug)]
pub struct Logs {
    /// Each with the place up to which it has been read.
    files: Vec<(PathBuf, u64)>,
    /// Connections of the scripts' accounts.
    ours: BTreeSet<(usize, u32)>,
}

/// A line of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// 1 is the primary.
    pub node: usize,
    /// The connection's id.
    pub connection: u32,
    /// `Query`, `Prepare`, `Connect` and the like.
    pub command: String,
    /// What stands behind.
    pub text: String,
}

impl Logs {
    /// Logs in these files, from their ends on.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Result<Self> {
        let files = files.into_iter().map(|file| (file, 0)).collect();
        let mut logs = Self { files, ours: BTreeSet::new() };
        logs.take()?;
        Ok(logs)
    }

    /// What has been logged since this was asked last.
    pub fn take(&mut self) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for (node, (file, at)) in self.files.iter_mut().enumerate() {
            let mut file = File::open(file)?;
            file.seek(SeekFrom::Start(*at))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            *at += whole as u64;
            let text = String::from_utf8_lossy(&bytes[..whole]);
            lines.extend(text.lines().filter_map(|line| parse(node + 1, line)));
        }
        for line in lines.iter().filter(|line| line.command == "Connect") {
            if line.text.starts_with("twin_") {
                self.ours.insert((line.node, line.connection));
            }
        }
        Ok(lines)
    }

    /// Whether a line is of a connection of the accounts `twin_...`.
    pub fn is_ours(&self, line: &Line) -> bool {
        self.ours.contains(&(line.node, line.connection))
    }
}

/// Time (or nothing), connection and command, text: separated by tabs.
fn parse(node: usize, line: &str) -> Option<Line> {
    let line = line.strip_prefix('\t').filter(|rest| rest.starts_with('\t')).unwrap_or(line);
    let mut parts = line.splitn(3, '\t').skip(1);
    let (connection, command) = parts.next()?.trim().split_once(' ')?;
    Some(Line {
        node,
        connection: connection.parse().ok()?,
        command: command.to_owned(),
        text: parts.next().unwrap_or_default().to_owned(),
    })
}

/// Texts of the proxy's own: parts of a script's, what a login has agreed on, after a reset, and the end of
/// a transaction on a replica that another one follows.
const OWN: [&str; 8] = [
    "SET @@SESSION.",
    "SET last_insert_id",
    "SET @@last_insert_id",
    "SELECT LAST_INSERT_ID(), LAST_INSERT_ID(0) LIMIT 1",
    "SELECT LAST_INSERT_ID() LIMIT 1",
    "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
    "DEALLOCATE PREPARE ",
    "COMMIT AND NO CHAIN NO RELEASE",
];

/// What `script` must not have done, as `lines` (without those of other accounts) show it. What the
/// session `before` has left to be done may have been done late.
///
/// # Errors
/// The first that it has done.
pub fn check(script: &Script, before: Option<&Script>, lines: &[Line]) -> Result<()> {
    once(script, lines)?;
    let texts: Vec<&str> = script.queries().collect();
    let mut places: BTreeMap<(usize, u32), usize> = BTreeMap::new();
    for line in lines {
        let place = places.entry((line.node, line.connection)).or_default();
        if ["Connect", "Quit", "Reset", "Change"].iter().any(|word| line.command.starts_with(word))
        {
            *place = 0;
            continue;
        }
        // passwords could stand in a PREPARE: MySQL does not show it
        let plain = line.text.is_ascii()
            && !line.text.contains('?')
            && !(line.text.starts_with("PREPARE") && line.text.ends_with("..."));
        if line.command != "Query" || !plain || OWN.iter().any(|own| line.text.starts_with(own)) {
            continue;
        }
        let is = |text: &str| {
            text == line.text
                || (text.contains(';') && text.contains(line.text.trim()))
                // a comment that is for later versions, as MySQL shows it
                || (text.starts_with("/*!") && text.replacen('!', " ", 1) == line.text)
        };
        if script.prepared().any(is) {
            // executed as a statement of COM_STMT_PREPARE where it was said
        } else if let Some(ahead) = texts[*place..].iter().position(|text| is(text)) {
            // the parts of one text are logged one by one
            let whole = texts[*place + ahead] == line.text;
            *place += ahead + usize::from(whole);
        } else if texts.iter().any(|text| is(text)) {
            bail!("server {} was given {:?} out of its turn", line.node, line.text);
        } else if before.is_some_and(|before| before.queries().chain(before.prepared()).any(is)) {
            // brought to a connection as the last session ended
        } else if number(&line.text).is_none() && !line.text.starts_with("SET @") {
            bail!("server {} was given {:?}, which nobody has said", line.node, line.text);
        }
    }
    Ok(())
}

/// Nothing that has a number runs twice, but for reads; nothing that writes runs on a replica.
fn once(script: &Script, lines: &[Line]) -> Result<()> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.command == "Query") {
        let Some(number) = number(&line.text) else { continue };
        let verb = line.text.split(' ').next().unwrap_or_default();
        // in a transaction that may not write it goes where that is, and fails
        let read_only = script.mentions("READ ONLY");
        if !read_only && ["INSERT", "UPDATE", "DELETE"].contains(&verb) {
            ensure!(line.node == 1, "a replica was given {:?}", line.text);
        }
        let seen = times.entry(number).or_default();
        *seen += 1;
        let allowed = if verb == "SELECT" || verb == "SHOW" { 2 } else { 1 };
        ensure!(*seen <= allowed, "{:?} has run {seen} times", line.text);
    }
    Ok(())
}

/// The comment that numbers a work.
fn number(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("/* w")?;
    rest.split_once(' ').map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::Step;

    fn script() -> Script {
        let texts = ["SET @a=1", "SET @b=2", "INSERT /* w1 */ INTO t VALUES (1)", "SET @a=1"];
        Script { login: 0, steps: texts.map(|text| Step::Query(text.to_owned())).to_vec() }
    }

    fn lines(log: &str) -> Vec<Line> {
        log.lines().filter_map(|line| parse(1, line)).collect()
    }

    #[test]
    fn both_vendors_lines_are_read() {
        let line = |command: &str, text: &str| Line {
            node: 1,
            connection: 12,
            command: command.to_owned(),
            text: text.to_owned(),
        };
        for log in [
            "261130 13:41:05\t    12 Query\tSET @a=1\n\t\t    12 Init DB\tx",
            "2026-11-30T13:41:05.1Z\t   12 Query\tSET @a=1\n2026-11-30T13:41:05.1Z\t   12 Init DB\tx",
        ] {
            assert_eq!(lines(log), [line("Query", "SET @a=1"), line("Init DB", "x")]);
        }
    }

    #[test]
    fn a_part_in_its_order_is_right() {
        for good in [
            "t\t 1 Query\tSET @b=2\nt\t 1 Query\tINSERT /* w1 */ INTO t VALUES (1)\nt\t 1 Query\tSET @a=1",
            "t\t 1 Query\tSET @b=2\nt\t 1 Reset Connection\t\nt\t 1 Query\tSET @b=2",
            "t\t 1 Query\tSET @b=2\nt\t 2 Query\tSET @b=2",
        ] {
            check(&script(), None, &lines(good)).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        for (bad, word) in [
            ("t\t 1 Query\tSET @b=2\nt\t 1 Query\tSET @b=2", "turn"),
            ("t\t 1 Query\tSET sql_mode=''", "nobody"),
            (
                "t\t 1 Query\tINSERT /* w1 */ INTO t VALUES (1)\n\
                 t\t 2 Query\tINSERT /* w1 */ INTO t VALUES (1)",
                "2 times",
            ),
        ] {
            let error = check(&script(), None, &lines(bad)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let mut elsewhere = lines("t\t 1 Query\tINSERT /* w1 */ INTO t VALUES (1)");
        elsewhere[0].node = 2;
        assert!(check(&script(), None, &elsewhere).is_err());
    }
}
