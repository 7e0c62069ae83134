//! Which semicolons are inside a stored program.

use crate::{
    cursor::Cursor,
    lexer::{Kind, Token},
};

/// Counts `BEGIN ... END` and `CASE ... END`. Other blocks end in two words (`END IF`) and stand
/// inside of these wherever a program has more than one statement.
pub(super) struct Blocks {
    open: usize,
    last_was_end: bool,
}

impl Blocks {
    pub(super) fn new(open: usize) -> Self {
        Self { open, last_was_end: false }
    }

    pub(super) fn is_outside(&self) -> bool {
        self.open == 0
    }

    /// `cursor` is behind `token`.
    pub(super) fn step(&mut self, token: Token, cursor: &Cursor<'_>) {
        let is = |word: &str| {
            token.kind == Kind::Word && cursor.of(token).eq_ignore_ascii_case(word.as_bytes())
        };
        let after_end = std::mem::take(&mut self.last_was_end);
        if is("end") {
            let uncounted = ["if", "loop", "repeat", "while", "for"];
            if !uncounted.iter().any(|word| cursor.sees(word)) {
                self.open = self.open.saturating_sub(1);
            }
            self.last_was_end = true;
        } else if is("begin") || (is("case") && !after_end) {
            self.open += 1;
        }
    }
}
