//! Strings and quoted names.

use super::{Kind, Lexer};
use crate::Charset;
use memchr::{memchr, memchr2};

impl Lexer<'_> {
    pub(super) fn string(&mut self, quote: u8) -> Kind {
        let escapes = !self.dialect.no_backslash_escapes;
        self.at += 1;
        self.skip_to_end(quote, escapes);
        Kind::String
    }

    pub(super) fn quoted_name(&mut self, quote: u8) -> Kind {
        self.at += 1;
        self.skip_to_end(quote, false);
        Kind::QuotedName
    }

    /// `@'name'`, `@"name"` and `` @`name` ``: quoted as the same quote is elsewhere.
    pub(super) fn quoted_variable(&mut self, quote: u8) {
        if quote == b'`' || (quote == b'"' && self.dialect.ansi_quotes) {
            self.quoted_name(quote);
        } else {
            self.string(quote);
        }
    }

    /// Moves behind the closing quote, or to the text's end and doubts it.
    fn skip_to_end(&mut self, quote: u8, escapes: bool) {
        while let Some(step) = self.next_special(quote, escapes) {
            self.at += step;
            if self.peek(0) == b'\\' && escapes {
                self.at = (self.at + 2).min(self.text.len());
            } else if self.peek(1) == quote {
                self.at += 2; // a doubled quote stands for itself
            } else {
                self.at += 1;
                return;
            }
        }
        self.at = self.text.len();
        self.doubtful = true;
    }

    /// Bytes to the next quote or, where it escapes, backslash.
    fn next_special(&self, quote: u8, escapes: bool) -> Option<usize> {
        let rest = &self.text[self.at..];
        match (self.dialect.charset, escapes) {
            (Charset::AsciiSafe, true) => memchr2(quote, b'\\', rest),
            (Charset::AsciiSafe, false) => memchr(quote, rest),
            _ => self.next_special_character(quote, escapes),
        }
    }

    /// The same, where a byte that looks like one may be half a character.
    fn next_special_character(&self, quote: u8, escapes: bool) -> Option<usize> {
        let mut ahead = self.clone();
        while let Some(&byte) = ahead.text.get(ahead.at) {
            if byte == quote || (escapes && byte == b'\\') {
                return Some(ahead.at - self.at);
            }
            ahead.at += ahead.character();
        }
        None
    }
}
