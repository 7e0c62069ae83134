//! One file of the configuration, and the tables taken out of it.

use super::Address;
use chain::settings::{Mistake, Mistakes, Settings, read_text};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Where variables come from.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// One file. Paths in it are relative to its directory.
pub(super) struct Part {
    /// As it was given.
    path: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) settings: Settings,
}

/// One table of a list.
pub(super) struct Entry<T> {
    pub(super) directory: PathBuf,
    pub(super) settings: Settings,
    pub(super) value: T,
}

/// The tables of one list, from all files.
pub(super) struct List<T> {
    pub(super) entries: Vec<Entry<T>>,
    /// No table was left out for a mistake in it. If one was, what others say about it cannot be
    /// judged.
    pub(super) complete: bool,
}

impl Part {
    /// Reads a file. The error is the operating system's, in words.
    pub(super) fn read(
        path: &Path,
        variables: Variables<'_>,
        mistakes: &mut Mistakes,
    ) -> Result<Self, String> {
        let text = read_text(path, 16 << 20)?;
        let name = path.display().to_string();
        let settings = Settings::parse_with(&name, &text, variables, mistakes);
        let absolute = std::path::absolute(path).map_err(|e| e.to_string())?;
        let directory = absolute.parent().unwrap_or(&absolute).to_owned();
        Ok(Self { path: path.to_owned(), directory, settings })
    }

    /// The path of a file as this one names it, not made absolute: it is what people read.
    pub(super) fn named(&self, name: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }
}

/// The table that stands once at most in all the files, or its defaults.
pub(super) fn single<T>(parts: &[Part], key: &str, mistakes: &mut Mistakes) -> Entry<T>
where
    T: DeserializeOwned + JsonSchema + Default,
{
    let mut found: Option<Entry<T>> = None;
    for Part { directory, settings, .. } in parts {
        let Some(table) = settings.table(key, mistakes) else { continue };
        match &found {
            Some(first) => {
                let mistake = table.mistake(format!("[{key}] stands here a second time"));
                mistakes.push(mistake.hint(elsewhere(&first.settings.mistake(""))));
            }
            None => {
                let value = table.deserialize(mistakes).unwrap_or_default();
                found = Some(Entry { directory: directory.clone(), settings: table, value });
            }
        }
    }
    found.unwrap_or_else(|| Entry {
        directory: parts[0].directory.clone(),
        settings: parts[0].settings.clone(),
        value: T::default(),
    })
}

/// The tables under `key` in all the files.
pub(super) fn list<T>(parts: &[Part], key: &str, mistakes: &mut Mistakes) -> List<T>
where
    T: DeserializeOwned + JsonSchema,
{
    let mut list = List { entries: Vec::new(), complete: true };
    let before = mistakes.len();
    for Part { directory, settings, .. } in parts {
        for (settings, value) in settings.deserialize_all(key, mistakes) {
            match value {
                Some(value) => {
                    list.entries.push(Entry { directory: directory.clone(), settings, value });
                }
                None => list.complete = false,
            }
        }
    }
    list.complete &= mistakes.len() == before;
    list
}

impl<T> Entry<T> {
    /// Notes each of these durations that is 0.
    pub(super) fn not_zero(&self, durations: &[(&str, Duration)], mistakes: &mut Mistakes) {
        for (key, _) in durations.iter().filter(|(_, duration)| duration.is_zero()) {
            let mistake = self.settings.mistake_at(key, "this must be longer than 0");
            mistakes.push(mistake.hint("for example \"2s\""));
        }
    }

    /// Makes `path` absolute.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// Makes the path of a unix socket absolute.
    pub(super) fn resolve_address(&self, address: &Address) -> Address {
        match address {
            Address::Unix(path) => Address::Unix(self.resolve(path)),
            tcp @ Address::Tcp(_) => tcp.clone(),
        }
    }
}

/// A hint to the place of another mistake.
pub(super) fn elsewhere(other: &Mistake) -> String {
    format!("the other one is in {}:{}", other.file, other.line)
}
