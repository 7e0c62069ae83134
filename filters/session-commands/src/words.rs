//! The tokens of a statement, as those who read it need them.

use crate::cell;
use sql::{Dialect, Kind, Lexer, Token};

/// The tokens of one statement, comments left out.
pub(crate) struct Words<'a> {
    text: &'a [u8],
    tokens: Vec<Token>,
    at: usize,
    doubtful: bool,
}

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a [u8], dialect: Dialect) -> Self {
        let mut lexer = Lexer::new(text, dialect);
        let mut tokens: Vec<_> = lexer.by_ref().filter(Token::is_code).collect();
        let doubtful = lexer.is_doubtful();
        while tokens.last().is_some_and(|token| token.kind == Kind::Semicolon) {
            tokens.pop();
        }
        Self { text, tokens, at: 0, doubtful }
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    pub(crate) fn of(&self, token: Token) -> &'a [u8] {
        token.of(self.text)
    }

    pub(crate) fn next(&mut self) -> Option<Token> {
        let token = self.ahead()?;
        self.at += 1;
        Some(token)
    }

    pub(crate) fn ahead(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    fn word(&self, at: usize) -> String {
        let token = self.tokens.get(at).filter(|token| token.kind == Kind::Word);
        token
            .map(|token| String::from_utf8_lossy(self.of(*token)).to_lowercase())
            .unwrap_or_default()
    }

    /// The word ahead in lower case; empty if there is something else.
    pub(crate) fn word_ahead(&self) -> String {
        self.word(self.at)
    }

    pub(crate) fn second_word(&self) -> String {
        self.word(self.at + 1)
    }

    fn is_equals(&self, at: usize) -> bool {
        let token = self.tokens.get(at).filter(|token| token.kind == Kind::Operator);
        token.is_some_and(|token| matches!(self.of(*token), b"=" | b":="))
    }

    /// Whether a name and a sign of assignment are ahead.
    pub(crate) fn is_assignment(&self) -> bool {
        self.is_equals(self.at + 1)
    }

    pub(crate) fn is_equals_ahead(&self) -> bool {
        self.is_equals(self.at)
    }

    /// Moves behind the sign of an assignment. What stands before it, with `prefix` instead of a
    /// scope, and where the value begins.
    pub(crate) fn assigned(&mut self, prefix: &str) -> Option<(Vec<u8>, usize)> {
        let name = self.tokens.get(self.at.checked_sub(1)?)?;
        if !self.is_equals(self.at) {
            return None;
        }
        let text = self.of(*name);
        let name = match name.kind {
            Kind::SystemVariable => text.rsplit(|byte| *byte == b'.').next().unwrap_or(text),
            _ => text,
        };
        let name = name.strip_prefix(b"@@").unwrap_or(name);
        let name = [prefix.as_bytes(), name, b" = "].concat();
        self.at += 1;
        Some((name, self.place()))
    }

    /// Where the token ahead begins.
    pub(crate) fn place(&self) -> usize {
        self.ahead().map_or(self.text.len(), |token| token.start)
    }

    /// What stands between `start` and the token read last.
    pub(crate) fn between(&self, start: usize) -> Vec<u8> {
        let end = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        let end = end.map_or(start, |token| token.end).max(start);
        self.text[start..end].to_vec()
    }

    /// An assignment as [`Self::assigned`] began it, up to the token read last.
    pub(crate) fn since(&self, (mut name, start): (Vec<u8>, usize)) -> Vec<u8> {
        name.extend(self.between(start));
        name
    }

    pub(crate) fn accept_comma(&mut self) -> bool {
        let is_comma = self.ahead().is_some_and(|token| token.kind == Kind::Comma);
        self.at += usize::from(is_comma);
        is_comma
    }

    /// Whether there is a comma in what is left.
    pub(crate) fn comma_follows(&self) -> bool {
        self.tokens[self.at..].iter().any(|token| token.kind == Kind::Comma)
    }

    /// The text that is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.text[self.place()..]
    }

    /// All words and names that are left, in lower case and without quotes.
    pub(crate) fn all_words(&self) -> Vec<String> {
        let left = self.tokens[self.at..].iter();
        let words = left.filter(|token| matches!(token.kind, Kind::Word | Kind::QuotedName));
        words.map(|token| cell::plain(self.of(*token)).to_lowercase()).collect()
    }

    /// The table's name behind `word` and `IF [NOT] EXISTS`, without a schema.
    pub(crate) fn table_behind(&self, word: &str) -> Option<Box<str>> {
        let at = (self.at..self.tokens.len()).find(|at| self.word(*at) == word)?;
        self.table_names(at + 1).into_iter().next()
    }

    /// The tables that DROP names.
    pub(crate) fn tables_dropped(&self) -> Vec<Box<str>> {
        let skip = usize::from(self.word_ahead() == "temporary");
        match self.word(self.at + skip).as_str() {
            "table" | "tables" => self.table_names(self.at + skip + 1),
            _ => Vec::new(),
        }
    }

    /// Names with commas between, from token `at` on.
    fn table_names(&self, mut at: usize) -> Vec<Box<str>> {
        while ["if", "not", "exists"].contains(&self.word(at).as_str()) {
            at += 1;
        }
        let mut names: Vec<Box<str>> = Vec::new();
        let mut last = None;
        for token in &self.tokens[at.min(self.tokens.len())..] {
            match token.kind {
                Kind::Word | Kind::QuotedName
                    if last != Some(Kind::Dot) && last.is_some_and(|kind| kind != Kind::Comma) =>
                {
                    break;
                }
                Kind::Word | Kind::QuotedName => {
                    if last == Some(Kind::Dot) {
                        names.pop();
                    }
                    names.push(cell::plain(self.of(*token)).to_lowercase().into());
                }
                Kind::Dot | Kind::Comma => {}
                _ => break,
            }
            last = Some(token.kind);
        }
        names
    }
}
