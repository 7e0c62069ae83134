//! Text without values.

use crate::{
    Dialect,
    lexer::{Kind, Lexer, Token},
    words::Words,
};

/// Values in a row that are written out; more end in `...` behind the third.
const VALUES: usize = 4;
/// Groups of values in a row that are written out.
const GROUPS: usize = 10;
/// What may be taken back of what was written, in bytes: it is written beyond the limit.
const SLACK: usize = 64;

/// Writes the normal form of a text.
pub(super) struct Normal<'a> {
    lexer: Lexer<'a>,
    text: &'a [u8],
    limit: usize,
    out: &'a mut Vec<u8>,
    /// A blank or a comment came since the last token.
    gap: bool,
    /// What was written last.
    last: Last,
    /// A comma that is written before what follows it.
    comma: bool,
    /// A semicolon that is written if anything follows it.
    semicolon: bool,
    /// Values in a row.
    values: usize,
    /// Where the third of them ended.
    third: usize,
    group: Group,
    /// Groups in a row, and where the last one that is written out ended.
    groups: usize,
    tenth: usize,
}

/// The parentheses that are open, if there are only values in them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    None,
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    /// `(`, or a sign that no value ends: a `-` behind it belongs to the number.
    Operator,
    Open,
    Value,
    /// `)` of a group of values.
    Group,
    /// A keyword behind which an expression begins.
    Keyword,
    Other,
}

impl<'a> Normal<'a> {
    pub(super) fn new(
        text: &'a [u8],
        dialect: Dialect,
        limit: usize,
        out: &'a mut Vec<u8>,
    ) -> Self {
        Self {
            lexer: Lexer::new(text, dialect),
            text,
            limit,
            out,
            gap: false,
            last: Last::Nothing,
            comma: false,
            semicolon: false,
            values: 0,
            third: 0,
            group: Group::None,
            groups: 0,
            tenth: 0,
        }
    }

    pub(super) fn run(mut self) {
        let mut end = 0;
        while let Some(token) = self.lexer.next() {
            self.gap |= token.start > end || !token.is_code();
            end = token.end;
            if token.is_code() {
                self.token(token);
                if self.out.len() > self.limit + SLACK {
                    break;
                }
            }
        }
        self.cut();
    }

    fn token(&mut self, token: Token) {
        let text = token.of(self.text);
        match token.kind {
            Kind::Semicolon => {
                self.finish_comma();
                self.semicolon |= self.last != Last::Nothing;
                (self.gap, self.values, self.groups) = (false, 0, 0);
            }
            Kind::Comma => {
                self.finish_comma();
                self.comma = true;
                self.gap = false;
            }
            Kind::String | Kind::Placeholder => self.value(),
            // As ProxySQL has it.
            Kind::Number if text.starts_with(b"0b") => self.other(text, Last::Other),
            Kind::Number => self.value(),
            Kind::Operator if matches!(text, b"-" | b"+") && self.is_sign() => self.gap = true,
            Kind::Operator => self.other(text, Last::Operator),
            Kind::Open => self.open(),
            Kind::Close => self.close(),
            Kind::Word if KEYWORDS.get(text).is_some() => self.other(text, Last::Keyword),
            _ => self.other(text, Last::Other),
        }
    }

    /// Whether the `-` or `+` that was just read is the sign of a number behind it.
    fn is_sign(&self) -> bool {
        let begins =
            matches!(self.last, Last::Nothing | Last::Operator | Last::Open | Last::Keyword);
        let mut ahead = self.lexer.clone().filter(Token::is_code);
        (begins || self.comma || self.semicolon)
            && ahead.next().is_some_and(|next| next.kind == Kind::Number)
    }

    fn value(&mut self) {
        let in_row = self.comma && self.last == Last::Value;
        self.values = if in_row { self.values + 1 } else { 1 };
        match self.values {
            ..=VALUES => {
                self.separate(in_row);
                self.out.push(b'?');
                if self.values == VALUES - 1 {
                    self.third = self.out.len();
                }
            }
            _ => {
                if self.values == VALUES + 1 {
                    self.out.truncate(self.third);
                    self.out.extend_from_slice(b",...");
                }
                (self.comma, self.gap) = (false, false);
            }
        }
        self.last = Last::Value;
    }

    fn open(&mut self) {
        if !(self.comma && self.last == Last::Group) {
            self.groups = 0;
        }
        let before = self.out.len();
        self.separate(false);
        if self.groups == GROUPS {
            // What stands between the tenth group and this one goes with it.
            self.tenth = before;
        }
        self.out.push(b'(');
        (self.group, self.values, self.last) = (Group::Open, 0, Last::Open);
    }

    fn close(&mut self) {
        let of_values = self.group == Group::Open && self.last == Last::Value && !self.comma;
        self.finish_comma();
        self.gap = false;
        self.separate(false);
        self.out.push(b')');
        self.group = Group::None;
        self.values = 0;
        self.last = if of_values { Last::Group } else { Last::Other };
        if !of_values {
            self.groups = 0;
            return;
        }
        self.groups += 1;
        if self.groups > GROUPS {
            self.out.truncate(self.tenth);
            if self.groups == GROUPS + 1 {
                self.out.extend_from_slice(b",...");
                self.tenth = self.out.len();
            }
        }
    }

    fn other(&mut self, text: &[u8], last: Last) {
        self.separate(false);
        self.out.extend_from_slice(text);
        self.values = 0;
        self.groups = 0;
        self.group = Group::None;
        self.last = last;
    }

    /// Writes what stands between the last token and the one that follows.
    fn separate(&mut self, in_row: bool) {
        if !in_row {
            self.values = self.values.min(1);
        }
        let after_comma = self.comma;
        self.finish_comma();
        if std::mem::take(&mut self.semicolon) {
            self.out.push(b';');
        }
        let glued = after_comma || matches!(self.last, Last::Nothing | Last::Open);
        if std::mem::take(&mut self.gap) && !glued {
            self.out.push(b' ');
        }
    }

    fn finish_comma(&mut self) {
        if std::mem::take(&mut self.comma) {
            self.out.push(b',');
        }
    }

    /// Not in the middle of a character, as far as UTF-8 goes.
    fn cut(&mut self) {
        self.finish_comma();
        if self.out.len() <= self.limit {
            return;
        }
        let begins = |at: &usize| !matches!(self.out[*at], 0x80..=0xBF);
        let earliest = self.limit.saturating_sub(3);
        let end = (earliest..=self.limit).rev().find(begins).unwrap_or(self.limit);
        self.out.truncate(end);
    }
}

/// Keywords behind which a sign belongs to a number.
static KEYWORDS: Words<(), 128> = Words::new(&[(
    (),
    &[
        "all", "and", "as", "between", "by", "case", "default", "distinct", "div", "else", "from",
        "having", "if", "in", "interval", "is", "like", "limit", "mod", "not", "offset", "on",
        "or", "regexp", "return", "rlike", "select", "set", "then", "to", "using", "value",
        "values", "when", "where", "with", "xor",
    ],
)]);
