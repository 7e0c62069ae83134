//! Which system variables are brought to other connections, beyond what is known of them.

use serde::Deserialize;
use sql::session::{Assignment, Cell, Class, Null, Scope, Target, ValueKind, Variable};
use std::collections::HashMap;

/// What the settings say of variables, by their names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct Variables(HashMap<Box<str>, Word>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// Alike on every connection.
    Everywhere,
    /// Nothing is known of it.
    Unknown,
}

impl TryFrom<Vec<String>> for Variables {
    type Error = String;

    /// `+name` and `-name`.
    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let read = |word: &String| {
            let (sign, name) = word.split_at_checked(1)?;
            let sign = match sign {
                "+" => Word::Everywhere,
                "-" => Word::Unknown,
                _ => return None,
            };
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            let named = !name.is_empty() && name.bytes().all(plain);
            named.then(|| (name.to_ascii_lowercase().into(), sign))
        };
        let read = |word: String| {
            read(&word).ok_or_else(|| format!("\"{word}\" is neither \"+NAME\" nor \"-NAME\""))
        };
        words.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

/// One part of a SET, with what the settings say of its variable.
pub(super) struct Part<'a> {
    pub(super) assignment: &'a Assignment,
    pub(super) class: Class,
    pub(super) reads: Vec<Cell>,
    pub(super) writes: Vec<Cell>,
    /// Of a user variable.
    pub(super) null: Null,
}

impl<'a> Part<'a> {
    pub(super) fn of(assignment: &'a Assignment, text: &[u8], variables: &Variables) -> Self {
        let Assignment { class, reads, writes, .. } = assignment.clone();
        let null = match assignment.target {
            Target::User { .. } => assignment.value.null,
            _ => Null::Never,
        };
        let mut part = Self { assignment, class, reads, writes, null };
        // MySQL notes the connection's collation with every value, also with a number.
        if matches!(assignment.target, Target::User { .. })
            && !part.reads.contains(&Cell::CollationConnection)
        {
            part.reads.push(Cell::CollationConnection);
        }
        match variables.word(assignment, text) {
            None if ends_soon(assignment, text) => part.class = Class::EvaluatedOnce,
            Some(Word::Unknown) if part.class < Class::Unknown => {
                part.class = Class::Unknown;
                part.reads.push(Cell::Anything);
                part.writes.push(Cell::Anything);
            }
            Some(Word::Everywhere) => {
                part.class = match (part.class, assignment.value.kind) {
                    (Class::Unknown, ValueKind::Literal) => Class::Const,
                    (Class::Unknown, _) => Class::Environment,
                    (class, _) => class,
                };
                part.reads.retain(|cell| *cell != Cell::Anything);
                part.writes.retain(|cell| *cell != Cell::Anything);
            }
            _ => {}
        }
        part
    }
}

/// Seconds: who wants less means it. Applications that set some minutes, or hours, do so to be left
/// alone.
const SOON: u64 = 60;

/// Whether the client asks to be left sooner than others when it is idle: then the connection that
/// was asked is the session's, and its end the session's end.
fn ends_soon(assignment: &Assignment, text: &[u8]) -> bool {
    let Target::System { scope, name, .. } = &assignment.target else { return false };
    let value = || std::str::from_utf8(text.get(assignment.value.span.clone())?).ok();
    *scope != Scope::Server
        && text
            .get(name.clone())
            .is_some_and(|name| plain(name).eq_ignore_ascii_case(b"wait_timeout"))
        && assignment.value.kind == ValueKind::Literal
        && value().is_some_and(|value| value.parse().is_ok_and(|wait: u64| wait < SOON))
}

/// A name without its quotes.
fn plain(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name)
}

impl Variables {
    /// Of a system variable of the session that means the same on every connection, or is unknown.
    fn word(&self, assignment: &Assignment, text: &[u8]) -> Option<Word> {
        if self.0.is_empty() {
            return None;
        }
        let Target::System { scope, name, variable } = &assignment.target else { return None };
        let known =
            matches!(variable, Variable::Everywhere | Variable::Transaction | Variable::Unknown);
        if *scope == Scope::Server || !known {
            return None;
        }
        let name = plain(text.get(name.clone())?);
        self.0.get(String::from_utf8_lossy(name).to_ascii_lowercase().as_str()).copied()
    }
}
