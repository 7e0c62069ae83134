//! Numbers, and names that start like one.

use super::{Kind, Lexer, is_word};

impl Lexer<'_> {
    /// `12`, `1.5`, `1e9`, `0xFF`, `0b11`; but `2024_sales`, `1st` and `0xZZ` are names.
    pub(super) fn number_or_word(&mut self) -> Kind {
        let start = self.at;
        let (prefix, digit): (_, fn(&u8) -> bool) = match (self.peek(0), self.peek(1)) {
            (b'0', b'x') => (2, u8::is_ascii_hexdigit),
            (b'0', b'b') => (2, |byte| matches!(byte, b'0' | b'1')),
            _ => (0, u8::is_ascii_digit),
        };
        self.at += prefix;
        let digits = self.skip_while(digit);
        if prefix > 0 {
            if digits > 0 && !is_word(self.peek(0)) {
                return Kind::Number;
            }
        } else if self.exponent() {
            return Kind::Number;
        } else if self.peek(0) == b'.' {
            return self.fraction();
        } else if !is_word(self.peek(0)) {
            return Kind::Number;
        }
        self.at = start;
        self.word()
    }

    /// From the point on.
    pub(super) fn fraction(&mut self) -> Kind {
        self.at += 1;
        self.skip_while(u8::is_ascii_digit);
        self.exponent();
        Kind::Number
    }

    /// Moves behind `e9`, `E-9`, if that is what follows.
    fn exponent(&mut self) -> bool {
        let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
        let found = matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit();
        if found {
            self.at += 1 + sign;
            self.skip_while(u8::is_ascii_digit);
        }
        found
    }

    fn skip_while(&mut self, matches: fn(&u8) -> bool) -> usize {
        let length = self.text[self.at..].iter().take_while(|byte| matches(byte)).count();
        self.at += length;
        length
    }
}
