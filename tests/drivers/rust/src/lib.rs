//! What the sessions of Rust's drivers share: arguments, the script's statements, printing.

use anyhow::{Context, Result};
use std::{
    collections::HashMap,
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
};

/// A table for values that a driver puts in.
pub const FILLED: &str = "CREATE TABLE filled (id INT PRIMARY KEY, big BIGINT UNSIGNED, f DOUBLE, \
    t VARCHAR(300), raw BLOB, yes BOOL)";

/// A result of some thousand rows.
pub const NUMBERS: &str = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
    SELECT a.i, REPEAT('s', a.i) AS s FROM n a, n b WHERE b.i <= 9 ORDER BY a.i";

/// A procedure with two results and an OUT parameter.
pub const PROCEDURE: &str = "CREATE PROCEDURE two_results(IN a INT, OUT b INT) BEGIN SELECT a AS first; \
    SELECT a + n AS second FROM (SELECT 1 AS n UNION SELECT 2) AS t; SET b = a * 2; END";

/// The arguments, `name=value` each.
#[derive(Clone)]
pub struct Given(HashMap<String, String>);

impl Given {
    /// Reads the command line.
    pub fn new() -> Self {
        let pair = |argument: String| {
            argument.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        Self(std::env::args().skip(1).filter_map(pair).collect())
    }

    /// One of them.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The same with another value for one.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.0.insert(name.to_owned(), value.to_owned());
        other
    }

    /// The script's statements without those that begin with one of `unreadable`, whose types the
    /// driver does not know. Each ends with a semicolon at the end of a line.
    pub fn statements(&self, unreadable: &[&str]) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(self.get("file")).context("file")?;
        let parts = text.split(";\n").map(str::trim).filter(|part| !part.is_empty());
        let parts = parts.filter(|part| !unreadable.iter().any(|begin| part.starts_with(begin)));
        Ok(parts.map(str::to_owned).collect())
    }

    /// Characters in which no piece repeats soon, so that a lost or doubled packet shows.
    pub fn big_value(&self) -> Result<String> {
        let size: usize = self.get("big").parse()?;
        let mut state = 1_u64;
        let letter = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + (state >> 33) as u8 % 26)
        };
        Ok((0..size).map(letter).collect())
    }
}

impl Default for Given {
    fn default() -> Self {
        Self::new()
    }
}

/// Length and hash.
pub fn digest(value: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("{} bytes {:016x}", value.len(), hasher.finish())
}

/// A value's text; of a long one its beginning, its length and a hash.
pub fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    if text.len() < 400 {
        return text;
    }
    let beginning: String = text.chars().take(80).collect();
    format!("{beginning} ... {}", digest(text.as_bytes()))
}

/// For drivers that have a call for each kind of statement.
pub fn returns_rows(sql: &str) -> bool {
    const VERBS: [&str; 7] = ["SELECT", "SHOW", "EXPLAIN", "WITH", "TABLE", "CALL", "EXECUTE"];
    VERBS.iter().any(|verb| sql.starts_with(verb)) || sql.contains("RETURNING")
}
