//! What is wrong with a file, and where.

use crate::HostgroupId;
use std::fmt;

/// One mistake, at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The file's name, as it was given.
    pub file: String,
    /// The line, from 1; 0 when it is about the file as a whole.
    pub line: usize,
    /// The column of its first character, from 1; 0 when it is about the file as a whole.
    pub column: usize,
    /// The line itself, secrets replaced by `***`.
    pub source_line: String,
    /// The blank below the line up to what the mistake is about.
    pub indent: String,
    /// How many characters of the shown line it is about, at least 1.
    pub width: usize,
    /// What is wrong, without the value of a secret.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Hides later mistakes at the same place, as those would only follow from this one.
    pub(super) hides_others: bool,
}

/// Every mistake that was found, in the order of the files and their lines.
#[derive(Clone, Debug, Default)]
pub struct Mistakes {
    found: Vec<Mistake>,
    /// Names of the files in the order in which they were read.
    files: Vec<String>,
    /// What is a mistake only if there is no such hostgroup.
    hostgroups: Vec<(HostgroupId, Mistake)>,
    /// What is a mistake only if there is no such cluster.
    clusters: Vec<(Option<String>, Mistake)>,
}

impl Mistake {
    /// A mistake about the file as a whole.
    pub fn in_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: 0,
            column: 0,
            source_line: String::new(),
            indent: String::new(),
            width: 1,
            message: message.into(),
            hint: None,
            hides_others: false,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn place(&self) -> (&str, usize, usize) {
        (&self.file, self.line, self.column)
    }
}

impl Mistakes {
    /// Adds a mistake.
    pub fn push(&mut self, mistake: Mistake) {
        let hidden = |m: &Mistake| m == &mistake || m.hides_others && m.place() == mistake.place();
        if !self.found.iter().any(hidden) {
            self.found.push(mistake);
        }
    }

    /// Adds all the mistakes of `others`.
    pub fn extend(&mut self, others: impl IntoIterator<Item = Mistake>) {
        others.into_iter().for_each(|mistake| self.push(mistake));
    }

    /// Notes that a setting names a hostgroup, and the mistake that it is if there is no such one.
    /// Who reads the setting cannot know; who knows all servers takes it up.
    pub fn names_hostgroup(&mut self, id: HostgroupId, mistake: Mistake) {
        self.hostgroups.push((id, mistake));
    }

    /// The hostgroups that settings have named so far.
    pub fn take_hostgroups(&mut self) -> Vec<(HostgroupId, Mistake)> {
        std::mem::take(&mut self.hostgroups)
    }

    /// Notes that a setting names a cluster, or needs one if it names none, and the mistake that it
    /// is if there is none such.
    pub fn needs_cluster(&mut self, name: Option<String>, mistake: Mistake) {
        self.clusters.push((name, mistake));
    }

    /// The clusters that settings have named so far; `None` stands for any.
    pub fn take_clusters(&mut self) -> Vec<(Option<String>, Mistake)> {
        std::mem::take(&mut self.clusters)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The mistakes, in order once [`Self::into_result`] has given them back.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.found.iter()
    }

    /// `value` if there is no mistake, else all of them, ordered by place.
    pub fn into_result<T>(mut self, value: Option<T>) -> Result<T, Self> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => {
                let files = std::mem::take(&mut self.files);
                let file = |m: &Mistake| files.iter().position(|name| *name == m.file);
                self.found.sort_by_key(|m| (file(m), m.line, m.column));
                Err(self)
            }
        }
    }

    /// The files that were read, by their names as they were given.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Notes that `name` is the next file that is read.
    pub fn reading(&mut self, name: &str) {
        if !self.files.iter().any(|known| known == name) {
            self.files.push(name.to_owned());
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, source_line, indent, message, .. } = self;
        let margin = " ".repeat(line.to_string().len());
        writeln!(f, "error: {message}")?;
        if *line == 0 {
            write!(f, " --> {file}")?;
        } else {
            writeln!(f, "{margin}--> {file}:{line}:{column}")?;
            writeln!(f, "{margin} |\n{line} | {source_line}")?;
            write!(f, "{margin} | {indent}{}", "^".repeat(self.width))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n{margin} = help: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.found.iter().enumerate() {
            let between = if at == 0 { "" } else { "\n\n" };
            write!(f, "{between}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistake {}
impl std::error::Error for Mistakes {}
