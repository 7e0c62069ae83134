//! Text into tokens, as both vendors' servers cut it.
//!
//! Follows the lexical structure in the MySQL manual ("Language Structure": literals, schema object
//! names, comments) and MariaDB's "Comment Syntax". A token is a kind and a span; nothing is
//! decoded, so nothing is allocated. Digests and a reading of `SET` can be built on the same tokens.

mod comment;
mod number;
mod quoted;

use crate::{Charset, Dialect, Span};

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it starts, in bytes.
    pub start: usize,
    /// Where it ends, exclusive.
    pub end: usize,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in backticks, or in double quotes under ANSI_QUOTES; the quotes belong to it.
    QuotedName,
    /// A string with its quotes.
    String,
    /// What stands right before a string and belongs to it: `N`, `x`, `b`, `_utf8mb4`.
    Introducer,
    /// A number without its sign: `1`, `.5`, `1e-9`, `0xFF`, `0b11`.
    Number,
    /// `@name`, also quoted; the host of an account (`@'%'`) looks the same.
    UserVariable,
    /// `@@name`, `@@scope.name`.
    SystemVariable,
    /// `?`.
    Placeholder,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `,`.
    Comma,
    /// `.` between the parts of a name.
    Dot,
    /// `;`.
    Semicolon,
    /// Any other sign or pair of signs.
    Operator,
    /// `/* */`, `-- ` or `#`, up to but without the line's end.
    Comment,
    /// `/*+ */`.
    Hint,
    /// An executable comment that this server skips, whole.
    SkippedCode,
    /// `/*!`, `/*!NNNNN` or `/*M!NNNNN`: what follows is code.
    CodeStart,
    /// The `*/` that ends an executable comment.
    CodeEnd,
}

/// An iterator over the tokens of a text. Blanks are what lies between their spans.
///
/// Any bytes will do. Spans are in bounds, not empty, ordered, and do not overlap.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    dialect: Dialect,
    /// Inside an executable comment that is code.
    in_code: bool,
    /// The last token was a name that ended here: a dot is part of a longer name.
    after_name: bool,
    /// The last token was such a dot: digits start a name.
    after_dot: bool,
    doubtful: bool,
}

impl Token {
    /// Its bytes; `text` is what the lexer read. Of another text, what lies there, if anything.
    pub fn of<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// Where it stands.
    pub fn span(&self) -> Span {
        self.start..self.end
    }

    /// Whether the server acts on it: not a comment, nor the frame of an executable one.
    pub fn is_code(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Comment | Kind::Hint | Kind::SkippedCode | Kind::CodeStart | Kind::CodeEnd
        )
    }
}

impl<'a> Lexer<'a> {
    /// The tokens of `text`.
    pub fn new(text: &'a [u8], dialect: Dialect) -> Self {
        Self {
            text,
            at: 0,
            dialect,
            in_code: false,
            after_name: false,
            after_dot: false,
            doubtful: dialect.unsure && text.iter().any(|byte| *byte == b'"' || !byte.is_ascii()),
        }
    }

    /// The text that is read.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Whether a server may have cut what was read so far in another way: something was left
    /// open, is no character of the charset, or is code for some servers only.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Reads one token whose first byte is `first`, and moves behind it.
    fn read(&mut self, first: u8) -> Kind {
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => self.word(),
            b'0'..=b'9' if self.after_dot => self.word(),
            b'0'..=b'9' => self.number_or_word(),
            b'`' => self.quoted_name(b'`'),
            b'"' if self.dialect.ansi_quotes => self.quoted_name(b'"'),
            b'\'' | b'"' => self.string(first),
            b'@' => self.variable(),
            b'#' => self.line_comment(),
            b'-' if self.starts_dash_comment() => self.line_comment(),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'*' if self.in_code && self.peek(1) == b'/' => {
                self.in_code = false;
                self.sign(2, Kind::CodeEnd)
            }
            b'.' if !self.after_name && self.peek(1).is_ascii_digit() => self.fraction(),
            b'.' => self.sign(1, Kind::Dot),
            b'(' => self.sign(1, Kind::Open),
            b')' => self.sign(1, Kind::Close),
            b',' => self.sign(1, Kind::Comma),
            b';' => self.sign(1, Kind::Semicolon),
            b'?' => self.sign(1, Kind::Placeholder),
            _ => self.operator(first),
        }
    }

    fn sign(&mut self, length: usize, kind: Kind) -> Kind {
        self.at += length;
        kind
    }

    fn operator(&mut self, first: u8) -> Kind {
        // The manuals know no use of a control character but as a blank, nor of a bracket but as
        // a quote in MariaDB's sql_mode=MSSQL.
        self.doubtful |= first.is_ascii_control() || first == b'[';
        let length = match (first, self.peek(1), self.peek(2)) {
            (b'<', b'=', b'>') | (b'-', b'>', b'>') => 3,
            (b':' | b'<' | b'>' | b'!', b'=', _)
            | (b'<', b'<' | b'>', _)
            | (b'>', b'>', _)
            | (b'-', b'>', _)
            | (b'|', b'|', _)
            | (b'&', b'&', _) => 2,
            _ => 1,
        };
        self.sign(length, Kind::Operator)
    }

    fn word(&mut self) -> Kind {
        let start = self.at;
        self.skip_word();
        let quote = self.peek(0);
        if quote != b'\'' && quote != b'"' {
            return Kind::Word;
        }
        let introduces = match self.text[start..self.at] {
            [b'n' | b'N' | b'x' | b'X' | b'b' | b'B'] => quote == b'\'',
            [b'_', ..] => quote == b'\'' || !self.dialect.ansi_quotes,
            _ => false,
        };
        if introduces { Kind::Introducer } else { Kind::Word }
    }

    /// Moves behind the letters of a name, and doubts those that are none in the charset: some
    /// single-byte charsets have a blank among their upper half.
    fn skip_word(&mut self) {
        let start = self.at;
        if self.dialect.charset == Charset::AsciiSafe {
            let (mut at, mut all) = (start, 0);
            while let Some(&byte) = self.text.get(at).filter(|&&byte| is_word(byte)) {
                all |= byte;
                at += 1;
            }
            self.at = at;
            self.doubtful |= !all.is_ascii() && std::str::from_utf8(&self.text[start..at]).is_err();
            return;
        }
        while let Some(&byte) = self.text.get(self.at) {
            let length = self.character();
            if length == 1 && !is_word(byte) {
                break;
            }
            self.doubtful |= length == 1 && !byte.is_ascii();
            self.at += length;
        }
    }

    /// Bytes of the character here: 2 where an ASCII byte may be the second half of one, else 1.
    fn character(&self) -> usize {
        let (lead, trail) = (self.peek(0), self.peek(1));
        let whole = match self.dialect.charset {
            Charset::AsciiSafe => false,
            // The first two bytes of gb18030's four-byte characters end in a digit.
            Charset::Gbk => {
                matches!(lead, 0x81..=0xFE)
                    && matches!(trail, 0x30..=0x39 | 0x40..=0x7E | 0x80..=0xFE)
            }
            Charset::Sjis => {
                matches!(lead, 0x81..=0x9F | 0xE0..=0xFC)
                    && matches!(trail, 0x40..=0x7E | 0x80..=0xFC)
            }
            Charset::Big5 => {
                matches!(lead, 0xA1..=0xF9) && matches!(trail, 0x40..=0x7E | 0xA1..=0xFE)
            }
        };
        if whole { 2 } else { 1 }
    }

    fn variable(&mut self) -> Kind {
        if self.peek(1) == b'@' {
            self.at += 2;
            self.name_part();
            // A scope, a key cache or a component: the name has more parts.
            while self.peek(0) == b'.' && (is_word(self.peek(1)) || self.peek(1) == b'`') {
                self.at += 1;
                self.name_part();
            }
            return Kind::SystemVariable;
        }
        self.at += 1;
        match self.peek(0) {
            quote @ (b'\'' | b'"' | b'`') => self.quoted_variable(quote),
            _ => {
                self.skip_word();
                while self.peek(0) == b'.' {
                    self.at += 1;
                    self.skip_word();
                }
            }
        }
        Kind::UserVariable
    }

    fn name_part(&mut self) {
        if self.peek(0) == b'`' {
            self.quoted_name(b'`');
        } else {
            self.skip_word();
        }
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let gap = self.text[self.at..].iter().take_while(|&&byte| is_blank(byte)).count();
        self.at += gap;
        if gap > 0 {
            (self.after_name, self.after_dot) = (false, false);
        }
        if self.at == self.text.len() {
            self.doubtful |= self.in_code; // an executable comment was left open
            return None;
        }
        let start = self.at;
        let kind = self.read(self.text[start]);
        self.after_dot = kind == Kind::Dot && self.after_name;
        self.after_name = matches!(kind, Kind::Word | Kind::QuotedName);
        Some(Token { kind, start, end: self.at })
    }
}

/// What servers skip between tokens.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// What names are made of; every byte above ASCII is a letter.
pub(crate) fn is_word(byte: u8) -> bool {
    const WORD: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let letter = (byte as u8).is_ascii_alphanumeric() || byte >= 0x80;
            table[byte] = letter || byte == b'_' as usize || byte == b'$' as usize;
            byte += 1;
        }
        table
    };
    WORD[byte as usize]
}

/// Where the word that starts at `start` ends.
pub(crate) fn word_end(text: &[u8], start: usize) -> usize {
    let length = text[start..].iter().position(|&byte| !is_word(byte));
    length.map_or(text.len(), |length| start + length)
}
