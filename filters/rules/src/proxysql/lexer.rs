//! The words of libconfig's files.
//!
//! Source: the libconfig manual, "Configuration Files" and "Configuration File Grammar".

use super::libconfig::Refused;
use std::{iter::Peekable, ops::Range, str::CharIndices};

/// A word and its bytes in the text.
pub(super) struct Token {
    pub(super) word: Word,
    pub(super) span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Name(String),
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// One of `= : ; , ( ) [ ] { }`.
    Mark(char),
    /// Nothing follows.
    End,
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, rest: text.char_indices().peekable() }
    }

    /// The next word; after the last one `End`, as often as it is asked.
    pub(super) fn next(&mut self) -> Result<Token, Refused> {
        self.skip_blank()?;
        let Some(&(begin, first)) = self.rest.peek() else {
            let end = self.text.len();
            return Ok(Token { word: Word::End, span: end..end });
        };
        let word = match first {
            '"' => self.string()?,
            '@' => {
                let hint = "put what it includes in this file";
                return Err(Refused::new(begin, "@include is not followed").hint(hint));
            }
            '=' | ':' | ';' | ',' | '(' | ')' | '[' | ']' | '{' | '}' => {
                self.rest.next();
                Word::Mark(first)
            }
            'a'..='z' | 'A'..='Z' | '*' => self.name(),
            '0'..='9' | '+' | '-' | '.' => self.number()?,
            _ => return Err(Refused::new(begin, "this character cannot stand here")),
        };
        Ok(Token { word, span: begin..self.at() })
    }

    fn at(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn taken(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let begin = self.at();
        while self.rest.next_if(|(_, c)| fits(*c)).is_some() {}
        let end = self.at();
        &self.text[begin..end]
    }

    fn skip_blank(&mut self) -> Result<(), Refused> {
        loop {
            self.taken(char::is_whitespace);
            let at = self.at();
            let rest = &self.text[at..];
            if rest.starts_with('#') || rest.starts_with("//") {
                self.taken(|c| c != '\n');
            } else if rest.starts_with("/*") {
                let length = rest.find("*/").ok_or_else(|| {
                    Refused::new(at, "this comment does not end").hint("close it with */")
                })?;
                while self.rest.next_if(|(here, _)| *here < at + length + 2).is_some() {}
            } else {
                return Ok(());
            }
        }
    }

    fn name(&mut self) -> Word {
        let name = self.taken(|c| c.is_ascii_alphanumeric() || matches!(c, '*' | '-' | '_'));
        match name.to_ascii_lowercase().as_str() {
            "true" => Word::Boolean(true),
            "false" => Word::Boolean(false),
            _ => Word::Name(name.to_owned()),
        }
    }

    fn number(&mut self) -> Result<Word, Refused> {
        let begin = self.at();
        let written =
            self.taken(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'));
        let refused = || Refused::new(begin, "this is not a number");
        let lower = written.to_ascii_lowercase();
        if let Some(digits) = lower.strip_prefix("0x") {
            let digits = without_suffix(digits);
            // Hexadecimal writes bits: those of a negative number too.
            let bits = u64::from_str_radix(digits, 16).map_err(|_| refused())?;
            return Ok(Word::Integer(bits.cast_signed()));
        }
        if let Ok(number) = without_suffix(&lower).parse() {
            return Ok(Word::Integer(number));
        }
        let looks = lower.contains(['.', 'e']) && !lower.contains(['_', 'n', 'f', 'i']);
        let number = lower.parse().ok().filter(|_| looks);
        number.map(Word::Float).ok_or_else(refused)
    }

    fn string(&mut self) -> Result<Word, Refused> {
        let begin = self.at();
        self.rest.next();
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None => {
                    let refused = Refused::new(begin, "this string does not end");
                    return Err(refused.hint("close it with \""));
                }
                Some((_, '"')) => return Ok(Word::String(text)),
                Some((at, '\\')) => text.push(self.escaped(at)?),
                Some((_, plain)) => text.push(plain),
            }
        }
    }

    fn escaped(&mut self, at: usize) -> Result<char, Refused> {
        let refused = || {
            let refused = Refused::new(at, "a backslash that means nothing");
            refused.hint("a backslash in a string is written \\\\, as in \"\\\\d+\"")
        };
        let (_, c) = self.rest.next().ok_or_else(refused)?;
        Ok(match c {
            '\\' | '"' => c,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'f' => '\u{c}',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'v' => '\u{b}',
            'x' => {
                let mut digit = || self.rest.next().and_then(|(_, c)| c.to_digit(16));
                let (high, low) = (digit().ok_or_else(refused)?, digit().ok_or_else(refused)?);
                // A byte that is no ASCII is part of a character, and which one nobody says.
                let byte = u8::try_from(high * 16 + low).ok().filter(u8::is_ascii);
                byte.ok_or_else(refused)?.into()
            }
            _ => return Err(refused()),
        })
    }
}

fn without_suffix(number: &str) -> &str {
    let short = number.strip_suffix('l').unwrap_or(number);
    short.strip_suffix('l').unwrap_or(short)
}
