//! Settings from TOML: a table that knows its place in the file, and all mistakes at once.
//!
//! ```
//! use chain::settings::{HumanDuration, Mistakes, Settings};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Timeout {
//!     /// How long a command may take.
//!     after: HumanDuration,
//!     tries: Option<u32>,
//! }
//!
//! let mut mistakes = Mistakes::default();
//! let settings = Settings::parse("t.toml", "after = '10 parsecs'\ntires = 2", &mut mistakes);
//! let timeout = settings.deserialize::<Timeout>(&mut mistakes);
//! let all = mistakes.into_result(timeout).err().expect("there are two mistakes").to_string();
//! assert!(all.contains("t.toml:1:9") && all.contains("\"10 parsecs\" is not a duration"));
//! assert!(all.contains("t.toml:2:1") && all.contains("help: did you mean `tries`?"));
//! ```

mod document;
mod file;
mod mistake;
mod node;
mod schema;
mod source;
mod units;

#[cfg(test)]
mod tests;

pub use file::read_text;
pub use mistake::{Mistake, Mistakes};
pub use node::{Node, Table, Value};
pub use units::{ByteSize, HumanDuration, duration, size};

use document::Variables;
use schema::Checker;
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use source::Source;
use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// One table of a file. A value of its own: any part of it can be taken out and read by itself.
#[derive(Clone)]
pub struct Settings {
    source: Arc<Source>,
    /// Always a table.
    node: Node,
}

impl Settings {
    /// Reads `text`, the content of the file `name`. What cannot be parsed is noted in `mistakes`
    /// and left out. `${NAME}` in a string is replaced by the environment's variable of that name.
    pub fn parse(name: &str, text: &str, mistakes: &mut Mistakes) -> Self {
        Self::parse_with(name, text, &|name| std::env::var(name).ok(), mistakes)
    }

    /// As [`Self::parse`], with variables from elsewhere.
    pub fn parse_with(
        name: &str,
        text: &str,
        variables: Variables<'_>,
        mistakes: &mut Mistakes,
    ) -> Self {
        mistakes.reading(name);
        let (source, node, found) = document::read(name, text, variables);
        mistakes.extend(found);
        Self { source: Arc::new(source), node }
    }

    /// A table of the file `name`, whose content `text` is in another notation than TOML. Its spans
    /// are places in the text.
    pub fn made(name: &str, text: &str, table: Table, mistakes: &mut Mistakes) -> Self {
        mistakes.reading(name);
        let mut source = Source::new(name, text);
        document::hide_secrets(&mut source, &table);
        Self { source: Arc::new(source), node: Node::whole(table) }
    }

    /// The path of a file that this one names: relative to this one's directory, and written as
    /// people would write it.
    pub fn beside(&self, name: &str) -> PathBuf {
        Path::new(self.source.name()).parent().unwrap_or(Path::new("")).join(name)
    }

    /// Checks the whole table against the schema of `T`, then reads it. None when it has mistakes.
    pub fn deserialize<T>(&self, mistakes: &mut Mistakes) -> Option<T>
    where
        T: DeserializeOwned + JsonSchema,
    {
        self.deserialize_with(&mut Checker::new(schema_for!(T).to_value()), mistakes)
    }

    /// Reads each table of the list under `key`, as [`Self::deserialize`] does. Gives all of them,
    /// with None for one that has mistakes.
    pub fn deserialize_all<T>(&self, key: &str, mistakes: &mut Mistakes) -> Vec<(Self, Option<T>)>
    where
        T: DeserializeOwned + JsonSchema,
    {
        let mut checker = Checker::new(schema_for!(T).to_value());
        let tables = self.tables(key, mistakes).into_iter();
        let read = tables.map(|table| {
            let value = table.deserialize_with(&mut checker, mistakes);
            (table, value)
        });
        read.collect()
    }

    /// Checks the table against a JSON Schema without reading it.
    pub fn check(&self, schema: &Json, mistakes: &mut Mistakes) {
        mistakes.extend(Checker::new(schema.clone()).check(&self.source, &self.node));
    }

    /// Notes every key that is not one of `known`.
    pub fn allow_keys(&self, known: &[&str], mistakes: &mut Mistakes) {
        for (key, (place, _)) in self.entries() {
            if !known.contains(&key.as_str()) {
                mistakes.push(schema::unknown_key(&self.source, key, place, known.iter().copied()));
            }
        }
    }

    /// Its keys, in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries().map(|(key, _)| key.as_str())
    }

    /// Whether there is such a key.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The string under `key`, if there is one. Another kind of value is a mistake.
    pub fn text(&self, key: &str, mistakes: &mut Mistakes) -> Option<String> {
        match self.get(key)? {
            Node { value: Value::String(text), .. } => Some(text.clone()),
            other => self.wrong_kind(other, "a string", mistakes),
        }
    }

    /// The truth value under `key`, if there is one. Another kind of value is a mistake.
    pub fn flag(&self, key: &str, mistakes: &mut Mistakes) -> Option<bool> {
        match self.get(key)? {
            Node { value: Value::Boolean(flag), .. } => Some(*flag),
            other => self.wrong_kind(other, "true or false", mistakes),
        }
    }

    /// The strings in the list under `key`; none when the key is missing. What is not a string is a
    /// mistake, and its place in the list stays empty.
    pub fn texts(&self, key: &str, mistakes: &mut Mistakes) -> Vec<Option<String>> {
        let text = |node: &Node, mistakes: &mut Mistakes| match &node.value {
            Value::String(text) => Some(text.clone()),
            _ => self.wrong_kind(node, "a string", mistakes),
        };
        match self.get(key) {
            None => Vec::new(),
            Some(Node { value: Value::Array(items), .. }) => {
                items.iter().map(|item| text(item, mistakes)).collect()
            }
            Some(other) => {
                self.wrong_kind(other, "a list of strings", mistakes).unwrap_or_default()
            }
        }
    }

    /// The table under `key`, if there is one. Another kind of value is a mistake.
    pub fn table(&self, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        self.as_table(self.get(key)?, mistakes)
    }

    /// The tables in the list under `key`; none when the key is missing.
    pub fn tables(&self, key: &str, mistakes: &mut Mistakes) -> Vec<Self> {
        match self.get(key) {
            None => Vec::new(),
            Some(Node { value: Value::Array(items), .. }) => {
                items.iter().filter_map(|item| self.as_table(item, mistakes)).collect()
            }
            Some(other) => {
                let message = format!("expected a list of tables, found {}", other.value.kind());
                let mistake = self.source.mistake(&other.span, message);
                mistakes.push(mistake.hint(format!("a list's tables are written [[{key}]]")));
                Vec::new()
            }
        }
    }

    /// All values of this table, each a table under a name of its own: `[chain.NAME]`.
    pub fn named_tables(&self, mistakes: &mut Mistakes) -> Vec<(String, Self)> {
        let named = self
            .entries()
            .filter_map(|(name, (_, node))| Some((name.clone(), self.as_table(node, mistakes)?)));
        named.collect()
    }

    /// This table without one of its keys.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        let mut rest = self.clone();
        if let Value::Table(table) = &mut rest.node.value {
            table.remove(key);
        }
        rest
    }

    /// The same for tables that say the same, wherever they stand; for this process alone.
    pub(crate) fn print(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.node.value.hash(&mut hasher);
        hasher.finish()
    }

    /// A mistake about this table as a whole.
    pub fn mistake(&self, message: impl Into<String>) -> Mistake {
        self.source.mistake(&self.node.span, message)
    }

    /// A mistake about the value under `key`, or about the table if it has no such key.
    pub fn mistake_at(&self, key: &str, message: impl Into<String>) -> Mistake {
        let place = self.get(key).unwrap_or(&self.node);
        self.source.mistake(&place.span, message)
    }

    /// Whether a message may quote the value under `key`: none that is secret or came from the
    /// environment.
    pub fn may_quote(&self, key: &str) -> bool {
        !self.get(key).is_some_and(|node| self.source.is_veiled(&node.span))
    }

    /// A mistake about an item of the list under `key`, counted from 0.
    pub fn mistake_in(&self, key: &str, at: usize, message: impl Into<String>) -> Mistake {
        match self.get(key) {
            Some(Node { value: Value::Array(items), .. }) if at < items.len() => {
                self.source.mistake(&items[at].span, message)
            }
            _ => self.mistake_at(key, message),
        }
    }

    fn deserialize_with<T>(&self, checker: &mut Checker, mistakes: &mut Mistakes) -> Option<T>
    where
        T: DeserializeOwned,
    {
        let found = checker.check(&self.source, &self.node);
        if !found.is_empty() {
            mistakes.extend(found);
            return None;
        }
        let refusal = match T::deserialize(&self.node) {
            Ok(value) => return Some(value),
            Err(refusal) => refusal,
        };
        let span = refusal.span.unwrap_or_else(|| self.node.span.clone());
        // serde quotes the value that it refuses.
        let quotes = span != self.node.span && self.source.is_veiled(&span);
        let message = if quotes { "this value does not fit" } else { &refusal.message };
        mistakes.push(self.source.mistake(&span, message));
        None
    }

    fn entries(&self) -> impl Iterator<Item = (&String, &(Range<usize>, Node))> {
        let table = if let Value::Table(table) = &self.node.value { Some(table) } else { None };
        table.into_iter().flat_map(Table::iter)
    }

    fn get(&self, key: &str) -> Option<&Node> {
        match &self.node.value {
            Value::Table(table) => table.get(key).map(|(_, node)| node),
            _ => None,
        }
    }

    fn as_table(&self, node: &Node, mistakes: &mut Mistakes) -> Option<Self> {
        match node.value {
            Value::Table(_) => Some(Self { source: Arc::clone(&self.source), node: node.clone() }),
            _ => self.wrong_kind(node, "a table", mistakes),
        }
    }

    fn wrong_kind<T>(&self, node: &Node, expected: &str, mistakes: &mut Mistakes) -> Option<T> {
        let message = format!("expected {expected}, found {}", node.value.kind());
        mistakes.push(self.source.mistake(&node.span, message));
        None
    }
}

/// Names the keys only: values may be secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries().map(|(key, _)| key)).finish()
    }
}

/// Adds to `mistake` the one of `names` that was probably meant by `given`, or `all` of them.
pub fn suggest<'a>(
    mistake: Mistake,
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
    all: &str,
) -> Mistake {
    schema::suggest(mistake, given, names, all)
}
