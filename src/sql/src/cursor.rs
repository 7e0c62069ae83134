//! Walking over the tokens that a server acts on.

use crate::lexer::{Kind, Lexer, Token};

/// A lexer that sees no comments, and can look ahead.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a>(Lexer<'a>);

impl<'a> Cursor<'a> {
    pub(crate) fn new(lexer: Lexer<'a>) -> Self {
        Self(lexer)
    }

    pub(crate) fn next(&mut self) -> Option<Token> {
        self.0.find(Token::is_code)
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.0.is_doubtful()
    }

    pub(crate) fn of(&self, token: Token) -> &'a [u8] {
        token.of(self.0.text())
    }

    /// The token ahead.
    pub(crate) fn ahead(&self) -> Option<Token> {
        self.clone().next()
    }

    /// The word ahead; empty where there is none.
    pub(crate) fn word_ahead(&self) -> &'a [u8] {
        self.ahead().filter(|token| token.kind == Kind::Word).map_or(b"", |token| self.of(token))
    }

    /// Whether `word` is ahead, in any case.
    pub(crate) fn sees(&self, word: &str) -> bool {
        self.word_ahead().eq_ignore_ascii_case(word.as_bytes())
    }

    /// Moves behind `word` if it is ahead.
    pub(crate) fn accept(&mut self, word: &str) -> bool {
        let found = self.sees(word);
        if found {
            self.next();
        }
        found
    }

    /// Moves behind the first of `words` if it is ahead.
    pub(crate) fn accept_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.accept(word))
    }

    /// Moves behind a token of `kind` if it is ahead.
    pub(crate) fn accept_kind(&mut self, kind: Kind) -> bool {
        let found = self.ahead().is_some_and(|token| token.kind == kind);
        if found {
            self.next();
        }
        found
    }

    /// Whether the statement ends here.
    pub(crate) fn at_end(&self) -> bool {
        self.ahead().is_none_or(|token| token.kind == Kind::Semicolon)
    }

    /// The next token of this statement.
    pub(crate) fn next_here(&mut self) -> Option<Token> {
        self.next().filter(|token| token.kind != Kind::Semicolon)
    }

    /// Moves behind what the parenthesis ahead encloses.
    pub(crate) fn skip_group(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.next()?.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.checked_sub(1)?,
                _ if depth == 0 => return None,
                _ => {}
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}
