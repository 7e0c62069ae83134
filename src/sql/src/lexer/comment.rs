//! Comments, and comments that are code.

use super::{Kind, Lexer};
use crate::{Server, Vendor};
use memchr::{memchr, memchr2, memmem};

/// MariaDB takes `/*!NNNNN` for MySQL's, and skips it, from 5.7.0 on; its own are from 10.0.0 on.
const MYSQL_ONLY: std::ops::RangeInclusive<u32> = 50_700..=99_999;

impl Lexer<'_> {
    /// Two dashes start a comment only before a blank, a control character or the end.
    pub(super) fn starts_dash_comment(&self) -> bool {
        let third = self.text.get(self.at + 2);
        self.peek(1) == b'-' && third.is_none_or(|&byte| byte <= b' ' || byte == 0x7F)
    }

    pub(super) fn line_comment(&mut self) -> Kind {
        // Servers stop at a NUL too, and then at a syntax error.
        let length = memchr2(b'\n', 0, &self.text[self.at..]);
        self.at = length.map_or(self.text.len(), |length| self.at + length);
        Kind::Comment
    }

    pub(super) fn block_comment(&mut self) -> Kind {
        let start = self.at;
        match (self.peek(2), self.peek(3)) {
            (b'!', _) => self.executable(3, false),
            (b'M', b'!') => match self.dialect.server {
                Some(Server { vendor: Vendor::MySql, .. }) => self.skip_comment(false),
                server => {
                    self.doubtful |= server.is_none();
                    self.executable(4, true)
                }
            },
            (b'+', _) => {
                self.skip_comment(false);
                let odd =
                    |quote| memchr::memchr_iter(quote, &self.text[start..self.at]).count() % 2;
                // A quoted name in a hint may hold the comment's end.
                self.doubtful |= [b'`', b'\'', b'"'].into_iter().any(|quote| odd(quote) == 1);
                Kind::Hint
            }
            _ => self.skip_comment(false),
        }
    }

    /// An executable comment whose opening, without the version, has `opening` bytes.
    fn executable(&mut self, opening: usize, mariadb_only: bool) -> Kind {
        let (version, digits) = self.version(opening);
        let is_code = match (version, self.dialect.server) {
            (None, _) => true,
            (Some(version), None) => {
                self.doubtful |= mariadb_only || version >= *MYSQL_ONLY.start();
                true
            }
            (Some(version), Some(Server { vendor: Vendor::MySql, version: own })) => version <= own,
            (Some(version), Some(Server { vendor: Vendor::MariaDb, version: own })) => {
                version <= own && (mariadb_only || !MYSQL_ONLY.contains(&version))
            }
        };
        if !is_code {
            self.skip_comment(true);
            return Kind::SkippedCode;
        }
        self.in_code = true;
        self.sign(opening + digits, Kind::CodeStart)
    }

    /// The version at `ahead` and its number of digits. Both vendors read five; MariaDB a sixth if
    /// there is one, MySQL only if a blank follows it. An unknown server may do either.
    fn version(&self, ahead: usize) -> (Option<u32>, usize) {
        let digit = |at: usize| self.peek(ahead + at).is_ascii_digit();
        if !(0..5).all(digit) {
            return (None, 0);
        }
        let mysql = matches!(self.dialect.server, Some(Server { vendor: Vendor::MySql, .. }));
        let six = digit(5) && (!mysql || super::is_blank(self.peek(ahead + 6)));
        let digits = if six { 6 } else { 5 };
        let number =
            (0..digits).fold(0, |number, at| number * 10 + u32::from(self.peek(ahead + at) - b'0'));
        (Some(number), digits)
    }

    /// Moves behind the comment's end. With `nested`, comments inside are skipped over.
    fn skip_comment(&mut self, nested: bool) -> Kind {
        self.at += 2;
        while let Some(length) = memchr(b'/', &self.text[self.at..]) {
            self.at += length + 1;
            let before = self.at.checked_sub(2).map_or(0, |at| self.text[at]);
            if before == b'*' && length > 0 {
                return Kind::Comment;
            }
            if nested && self.peek(0) == b'*' {
                let inner = memmem::find(&self.text[self.at + 1..], b"*/");
                self.at = inner.map_or(self.text.len(), |inner| self.at + 1 + inner + 2);
            }
        }
        self.at = self.text.len();
        self.doubtful = true;
        Kind::Comment
    }
}
