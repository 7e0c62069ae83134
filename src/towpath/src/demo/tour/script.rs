//! What the tour runs, and what each statement shows.

use crate::demo::client::Answer;

/// A session of the tour. All three are open from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Who {
    Writer,
    Reader,
    OtherReader,
}

impl Who {
    pub(super) const ALL: [Self; 3] = [Self::Writer, Self::Reader, Self::OtherReader];

    /// The account that the session logs in with.
    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Writer => "app_writer",
            Self::Reader | Self::OtherReader => "app_reader",
        }
    }

    /// The session's name in the table.
    pub(super) fn session(self) -> &'static str {
        match self {
            Self::Writer => "A writer",
            Self::Reader => "B reader",
            Self::OtherReader => "C reader",
        }
    }
}

/// Where a statement should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Primary,
    Replica,
}

/// What a statement should answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Nothing,
    Row(&'static str),
    /// The server's own error, by its number.
    Error(u16),
}

impl Wanted {
    /// What is wrong with `answer`, if something is.
    pub(super) fn check(self, answer: &Answer) -> Option<String> {
        let (rows, error) = (answer.rows.join(" | "), answer.error.as_deref());
        match (self, error) {
            (Self::Error(number), Some(text)) => {
                let good = text.starts_with(&format!("ERROR {number} "));
                (!good).then(|| text.to_owned())
            }
            (Self::Error(number), None) => Some(format!("no error {number}")),
            (_, Some(text)) => Some(text.to_owned()),
            (Self::Nothing, None) => (!rows.is_empty()).then(|| format!("answered {rows}")),
            (Self::Row(row), None) => {
                (rows != row).then(|| format!("answered '{rows}', not '{row}'"))
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) who: Who,
    /// Unlike any other of the tour, so that it is found in the servers' logs.
    pub(super) text: &'static str,
    pub(super) expected: Expected,
    pub(super) answer: Wanted,
    /// Whether it is a part of the tour's transaction.
    pub(super) transaction: bool,
}

#[derive(Debug)]
pub(super) enum Step {
    Run(Statement),
    /// Waits until the replicas have what the primary has; no session of the tour takes part.
    CatchUp,
}

const fn write(text: &'static str, answer: Wanted) -> Step {
    let (who, expected) = (Who::Writer, Expected::Primary);
    Step::Run(Statement { who, text, expected, answer, transaction: false })
}

const fn within(text: &'static str, answer: Wanted) -> Step {
    let (who, expected) = (Who::Writer, Expected::Primary);
    Step::Run(Statement { who, text, expected, answer, transaction: true })
}

const fn read(who: Who, text: &'static str, answer: Wanted) -> Step {
    Step::Run(Statement { who, text, expected: Expected::Replica, answer, transaction: false })
}

use Wanted::{Error, Nothing, Row};
use Who::{OtherReader, Reader};

/// A write and its reads, a transaction watched from outside, prepared statements on both sides,
/// and an error that is the server's.
pub(super) static SCRIPT: &[Step] = &[
    write("CREATE TABLE tour (id INT PRIMARY KEY, note VARCHAR(40))", Nothing),
    write("INSERT INTO tour VALUES (1, 'loaded')", Nothing),
    Step::CatchUp,
    read(Reader, "SELECT note FROM tour WHERE id = 1", Row("loaded")),
    read(OtherReader, "SELECT COUNT(*) FROM tour", Row("1")),
    within("START TRANSACTION", Nothing),
    within("UPDATE tour SET note = 'under way' WHERE id = 1", Nothing),
    within("SELECT note AS seen_inside FROM tour", Row("under way")),
    Step::CatchUp,
    read(Reader, "SELECT note AS seen_outside FROM tour", Row("loaded")),
    within("COMMIT", Nothing),
    Step::CatchUp,
    read(Reader, "SELECT note AS seen_after FROM tour", Row("under way")),
    write("PREPARE put FROM 'INSERT INTO tour VALUES (?, ?)'", Nothing),
    write("SET @id = 2, @note = 'moored'", Nothing),
    write("EXECUTE put USING @id, @note", Nothing),
    Step::CatchUp,
    read(OtherReader, "PREPARE get FROM 'SELECT note FROM tour WHERE id = ?'", Nothing),
    read(OtherReader, "SET @id = 2", Nothing),
    read(OtherReader, "EXECUTE get USING @id", Row("moored")),
    // A replica is read-only: the server says so, and the session lives on.
    read(Reader, "DELETE FROM tour", Error(1290)),
    read(Reader, "SELECT MAX(id) FROM tour", Row("2")),
    write("DROP TABLE tour", Nothing),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn statements_are_single_lines_and_unlike_each_other() {
        let mut seen = HashSet::new();
        for step in SCRIPT {
            let Step::Run(statement) = step else { continue };
            assert!(!statement.text.contains(['\n', '\t', ';', '\\']), "{}", statement.text);
            assert!(seen.insert(statement.text), "twice: {}", statement.text);
        }
        assert!(seen.len() > 10);
    }

    #[test]
    fn answers_are_compared_whole() {
        let rows = |rows: &[&str]| Answer {
            rows: rows.iter().map(|&row| row.to_owned()).collect(),
            error: None,
        };
        let error = |text: &str| Answer { rows: Vec::new(), error: Some(text.to_owned()) };
        assert_eq!(Row("1").check(&rows(&["1"])), None);
        assert!(Row("1").check(&rows(&["1", "1"])).is_some());
        assert!(Row("1").check(&error("ERROR 1146 (42S02) at line 1: no table")).is_some());
        assert_eq!(Nothing.check(&rows(&[])), None);
        assert!(Nothing.check(&rows(&["1"])).is_some());
        assert_eq!(Error(1142).check(&error("ERROR 1142 (42000) at line 1: denied")), None);
        assert!(Error(1142).check(&error("ERROR 11420 (42000) at line 1: x")).is_some());
        assert!(Error(1142).check(&rows(&[])).is_some());
    }
}
