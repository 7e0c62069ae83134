//! One client's session, as a list of steps.

use std::fmt;

/// What a client does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// COM_QUERY.
    Query(String),
    /// Several COM_QUERY in one write, their replies read afterwards.
    Together(Vec<String>),
    /// COM_INIT_DB.
    Schema(String),
    /// COM_RESET_CONNECTION.
    Reset,
    /// COM_CHANGE_USER to the account of this number.
    User(usize),
    /// COM_QUIT, and a new connection.
    Again,
    /// COM_PING.
    Ping,
    /// COM_SET_OPTION: several statements in one text, or not.
    SeveralStatements(bool),
    /// COM_STMT_PREPARE; the client knows the statement by the number.
    Prepare(usize, String),
    /// COM_STMT_EXECUTE with strings for parameters.
    Execute(usize, Vec<Option<String>>),
    /// COM_STMT_EXECUTE with a cursor, and so many rows fetched.
    Cursor(usize, u32),
    /// COM_STMT_FETCH of so many rows.
    Fetch(usize, u32),
    /// COM_STMT_SEND_LONG_DATA in two parts, and the EXECUTE that takes it.
    LongData(usize, String),
    /// COM_STMT_RESET.
    ResetStatement(usize),
    /// COM_STMT_CLOSE.
    Close(usize),
}

/// A session: how it logs in, and what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// Which of the logins.
    pub login: usize,
    /// In this order.
    pub steps: Vec<Step>,
}

impl Script {
    /// The texts of its queries, in order.
    pub fn queries(&self) -> impl Iterator<Item = &str> {
        self.steps
            .iter()
            .flat_map(|step| match step {
                Step::Query(text) => std::slice::from_ref(text),
                Step::Together(texts) => texts.as_slice(),
                _ => &[],
            })
            .map(String::as_str)
    }

    /// The texts of its COM_STMT_PREPARE.
    pub fn prepared(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            Step::Prepare(_, text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Whether any of its texts contains this.
    pub fn mentions(&self, part: &str) -> bool {
        self.queries().chain(self.prepared()).any(|text| text.contains(part))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(text) => f.write_str(text),
            Self::Together(texts) => write!(f, "in one write: {}", texts.join(" | ")),
            Self::Schema(name) => write!(f, "COM_INIT_DB {name}"),
            Self::Reset => f.write_str("COM_RESET_CONNECTION"),
            Self::User(number) => write!(f, "COM_CHANGE_USER to account {number}"),
            Self::Again => f.write_str("COM_QUIT, and a new connection"),
            Self::Ping => f.write_str("COM_PING"),
            Self::SeveralStatements(on) => write!(f, "COM_SET_OPTION {on}"),
            Self::Prepare(slot, text) => write!(f, "COM_STMT_PREPARE #{slot} {text}"),
            Self::Execute(slot, values) => write!(f, "COM_STMT_EXECUTE #{slot} {values:?}"),
            Self::Cursor(slot, rows) => write!(f, "COM_STMT_EXECUTE #{slot} cursor, {rows} rows"),
            Self::Fetch(slot, rows) => write!(f, "COM_STMT_FETCH #{slot} {rows}"),
            Self::LongData(slot, _) => write!(f, "COM_STMT_SEND_LONG_DATA, EXECUTE #{slot}"),
            Self::ResetStatement(slot) => write!(f, "COM_STMT_RESET #{slot}"),
            Self::Close(slot) => write!(f, "COM_STMT_CLOSE #{slot}"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  login {}", self.login)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}
