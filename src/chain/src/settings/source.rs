//! The text of a file: places in it, and the secrets that must not leave it.

use super::Mistake;
use std::ops::Range;

/// The place of a table that is the whole file.
pub(super) const WHOLE_FILE: Range<usize> = usize::MAX..usize::MAX;

/// One file. Spans are byte offsets into its text.
pub(super) struct Source {
    name: String,
    text: String,
    /// Where each line begins.
    lines: Vec<usize>,
    /// Values of keys that hold secrets: never shown.
    secrets: Vec<Range<usize>>,
    /// Values that came from the environment: never quoted, they may be secrets too.
    veiled: Vec<Range<usize>>,
}

impl Source {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let begins = text.match_indices('\n').map(|(newline, _)| newline + 1);
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            lines: std::iter::once(0).chain(begins).collect(),
            secrets: Vec::new(),
            veiled: Vec::new(),
        }
    }

    /// The file, as it was given.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A mistake at `span`. Line and column count from 1, the column in characters.
    pub(super) fn mistake(&self, span: &Range<usize>, message: impl Into<String>) -> Mistake {
        if *span == WHOLE_FILE {
            return Mistake::in_file(&self.name, message);
        }
        let at = self.boundary(span.start);
        let line = self.lines.partition_point(|begin| *begin <= at);
        let begin = self.lines[line - 1];
        let end = self.lines.get(line).map_or(self.text.len(), |next| next - 1);
        let mut mistake = Mistake {
            line,
            column: self.text[begin..at].chars().count() + 1,
            ..Mistake::in_file(&self.name, message)
        };
        self.show(begin..end, &(at..span.end), &mut mistake);
        mistake
    }

    /// The text of a value for a message, or words for it when it must not be told.
    pub(super) fn quote(&self, text: &str, span: &Range<usize>) -> String {
        const LONGEST: usize = 60;
        if self.is_veiled(span) {
            "this value".to_owned()
        } else if text.chars().count() > LONGEST {
            format!("{:?}...", text.chars().take(LONGEST).collect::<String>())
        } else {
            format!("{text:?}")
        }
    }

    /// Whether any of `span` must not be quoted.
    pub(super) fn is_veiled(&self, span: &Range<usize>) -> bool {
        self.secrets.iter().chain(&self.veiled).any(|veiled| overlap(veiled, span))
    }

    /// Shows `***` instead of the value at `span`, and never quotes it.
    pub(super) fn hide(&mut self, span: Range<usize>) {
        self.secrets.push(span);
    }

    /// Never quotes the value at `span`.
    pub(super) fn veil(&mut self, span: Range<usize>) {
        self.veiled.push(span);
    }

    /// Hides the secrets of a text that cannot be parsed: from the equals sign behind such a key to
    /// the end of the line, or of the string when it has several lines.
    pub(super) fn hide_secrets_in_text(&mut self) {
        for (equals, _) in self.text.match_indices('=') {
            let before = self.text[..equals].trim_end_matches([' ', '\t', '"', '\'']);
            let ends_key = |c: char| c.is_whitespace() || "{,\"'=".contains(c);
            if is_secret(before.rsplit(ends_key).next().unwrap_or_default()) {
                let value = &self.text[equals + 1..];
                let opens = |quote: &&str| value.trim_start().starts_with(quote);
                let quote = ["\"\"\"", "'''"].into_iter().find(opens);
                let parts = quote.map(|quote| value.splitn(3, quote).take(2));
                let long = parts.map_or(0, |parts| parts.map(|part| part.len() + 3).sum());
                let line = value.find('\n').unwrap_or(value.len());
                self.secrets.push(equals + 1..equals + 1 + line.max(long));
            }
        }
    }

    /// Fills in how the line is shown: each secret as `***`, and the caret under what is left.
    fn show(&self, line: Range<usize>, span: &Range<usize>, mistake: &mut Mistake) {
        let mut last = None;
        mistake.width = 0;
        for (offset, c) in self.text[line.clone()].trim_end().char_indices() {
            let at = line.start + offset;
            let secret = self.secrets.iter().position(|secret| secret.contains(&at));
            if secret.is_some() && secret == last {
                continue;
            }
            last = secret;
            let shown = match secret {
                Some(_) => "***".to_owned(),
                // A terminal must not be told what to do by a file.
                None if c.is_control() && c != '\t' => char::REPLACEMENT_CHARACTER.to_string(),
                None => c.to_string(),
            };
            let end = secret.map_or(at + 1, |secret| self.secrets[secret].end);
            if overlap(span, &(at..end)) {
                mistake.width += shown.chars().count();
            } else if at < span.start {
                mistake.indent.extend(shown.chars().map(|c| if c == '\t' { '\t' } else { ' ' }));
            }
            mistake.source_line.push_str(&shown);
        }
        mistake.width = mistake.width.max(1);
    }

    fn boundary(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        (0..=at).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// Whether the values of this key are secrets, or it is one of those keys misspelt. What names the
/// place of a secret is none.
pub(super) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let names_a_place = key.ends_with("_file") || key.ends_with("_env");
    let last = key.rsplit(['_', '-', '.']).next().unwrap_or(&key);
    let looks = ["pass", "pwd", "secret", "token"].iter().any(|part| key.contains(part));
    !names_a_place && (looks || strsim::jaro_winkler(last, "password") > 0.8)
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}
