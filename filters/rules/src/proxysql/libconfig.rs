//! libconfig's grammar: settings in groups, values in lists and arrays.
//!
//! Source: the libconfig manual, "Configuration File Grammar".

use super::lexer::{Lexer, Token, Word};
use chain::settings::{Node, Table, Value};

/// Why a text is no such file.
#[derive(Debug)]
pub(super) struct Refused {
    /// Where, in bytes.
    pub(super) at: usize,
    /// Never with a value in it.
    pub(super) message: &'static str,
    /// What to do about it; may be empty.
    pub(super) hint: &'static str,
}

/// How deep groups and lists may stand in one another.
const DEEPEST: usize = 32;

impl Refused {
    pub(super) fn new(at: usize, message: &'static str) -> Self {
        Self { at, message, hint: "" }
    }

    pub(super) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }
}

/// The settings of a whole file.
pub(super) fn read(text: &str) -> Result<Table, Refused> {
    let mut lexer = Lexer::new(text);
    let next = lexer.next()?;
    let mut parser = Parser { lexer, next };
    let table = parser.settings(0)?;
    match parser.next.word {
        Word::End => Ok(table),
        _ => Err(parser.unexpected("expected the name of a setting")),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    next: Token,
}

impl Parser<'_> {
    fn take(&mut self) -> Result<Token, Refused> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn takes(&mut self, mark: char) -> Result<bool, Refused> {
        let is_there = self.next.word == Word::Mark(mark);
        if is_there {
            self.take()?;
        }
        Ok(is_there)
    }

    fn unexpected(&self, message: &'static str) -> Refused {
        Refused::new(self.next.span.start, message)
    }

    /// `name = value`, as often as it comes; behind each a `;` or `,` that may be left out.
    fn settings(&mut self, depth: usize) -> Result<Table, Refused> {
        let mut table = Table::new();
        while let Word::Name(_) | Word::Boolean(_) = &self.next.word {
            let name = self.take()?;
            let Word::Name(key) = name.word else {
                return Err(Refused::new(name.span.start, "expected the name of a setting"));
            };
            if !self.takes('=')? && !self.takes(':')? {
                return Err(self.unexpected("expected = or : behind the name of a setting"));
            }
            let value = self.value(depth)?;
            let (place, at) = (name.span.clone(), name.span.start);
            if table.insert(key, (place, value)).is_some() {
                return Err(Refused::new(at, "this setting stands here a second time"));
            }
            let _ = self.takes(';')? || self.takes(',')?;
        }
        Ok(table)
    }

    fn value(&mut self, depth: usize) -> Result<Node, Refused> {
        if depth >= DEEPEST {
            return Err(self.unexpected("too many groups or lists in one another"));
        }
        let Token { word, mut span } = self.take()?;
        let value = match word {
            Word::String(mut text) => {
                // Strings that stand side by side are one.
                while let Word::String(more) = &self.next.word {
                    text.push_str(more);
                    span.end = self.take()?.span.end;
                }
                Value::String(text)
            }
            Word::Integer(number) => Value::Integer(number),
            Word::Float(number) => Value::Float(number),
            Word::Boolean(flag) => Value::Boolean(flag),
            Word::Mark('{') => {
                let table = self.settings(depth + 1)?;
                span.end = self.close('}', "expected a setting, or } to end the group")?;
                Value::Table(table)
            }
            Word::Mark('(') => {
                let (items, end) = self.items(')', depth)?;
                span.end = end;
                Value::Array(items)
            }
            Word::Mark('[') => {
                let (items, end) = self.items(']', depth)?;
                span.end = end;
                Value::Array(items)
            }
            _ => return Err(Refused::new(span.start, "expected a value")),
        };
        Ok(Node { span, value })
    }

    fn items(&mut self, close: char, depth: usize) -> Result<(Vec<Node>, usize), Refused> {
        let mut items = Vec::new();
        while self.next.word != Word::Mark(close) {
            items.push(self.value(depth + 1)?);
            if !self.takes(',')? {
                break;
            }
        }
        let message = "expected a comma, or the end of the list";
        Ok((items, self.close(close, message)?))
    }

    /// The place behind the mark that must come now.
    fn close(&mut self, mark: char, message: &'static str) -> Result<usize, Refused> {
        let end = self.next.span.end;
        match self.takes(mark)? {
            true => Ok(end),
            false => Err(self.unexpected(message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, Value, read};

    fn shown(node: &Node) -> String {
        let list = |items: Vec<String>| items.join(" ");
        match &node.value {
            Value::String(text) => format!("{text:?}"),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Boolean(flag) => flag.to_string(),
            Value::Datetime(_) => unreachable!("libconfig has none"),
            Value::Array(items) => format!("({})", list(items.iter().map(shown).collect())),
            Value::Table(table) => {
                let entry =
                    |(key, (_, node)): (&String, &(_, Node))| format!("{key}={}", shown(node));
                format!("{{{}}}", list(table.iter().map(entry).collect()))
            }
        }
    }

    fn value(text: &str) -> String {
        let read = read(&format!("a = {text}"));
        read.map_or_else(|refused| refused.message.to_owned(), |table| shown(&table["a"].1))
    }

    #[test]
    fn values_are_read_as_the_manual_says() {
        for (text, expected) in [
            ("1", "1"),
            ("-7;", "-7"),
            ("+7", "7"),
            ("5000000000L", "5000000000"),
            ("5LL", "5"),
            ("0xff", "255"),
            ("0XFFFFFFFFFFFFFFFFL", "-1"),
            ("1.5", "1.5"),
            ("-1e3", "-1000.0"),
            (".5", "0.5"),
            ("TRUE", "true"),
            ("false", "false"),
            (r#""a" "b" /* c */ "d""#, r#""abd""#),
            (r#""\\\"\n\t\x41""#, r#""\\\"\n\tA""#),
            ("\"two\nlines\"", "\"two\\nlines\""),
            ("[1, 2]", "(1 2)"),
            ("(1, \"a\", (true), { b: 2 })", "(1 \"a\" (true) {b=2})"),
            ("(1,)", "(1)"),
            ("()", "()"),
            ("{ b = 1; c : 2, d = 3 e = 4 }", "{b=1 c=2 d=3 e=4}"),
            ("{} # comment", "{}"),
            ("1 // comment", "1"),
            ("1 /* co\nmment */", "1"),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
        assert!(read("").is_ok_and(|table| table.is_empty()));
        assert!(read("a-b_c* = 1 *x = 2").is_ok_and(|table| table.len() == 2));
    }

    #[test]
    fn what_is_wrong_is_found_at_its_place() {
        let deep = format!("a = {}", "(".repeat(10_000));
        for (text, at, message) in [
            ("a", 1, "expected = or :"),
            ("a = ", 4, "expected a value"),
            ("a = (1 2)", 7, "expected a comma"),
            ("a = { b }", 8, "expected = or :"),
            ("a = { b = 1", 11, "expected a setting"),
            ("a = \"x", 4, "does not end"),
            ("a = 1 /* x", 6, "does not end"),
            ("a = 1x", 4, "not a number"),
            ("a = 99999999999999999999", 4, "not a number"),
            ("a = nan", 4, "expected a value"),
            ("a = \"\\d\"", 5, "backslash"),
            ("a = \"\\xe9\"", 5, "backslash"),
            ("@include \"x\"", 0, "@include"),
            ("a = 1 a = 2", 6, "second time"),
            ("true = 1", 0, "expected the name"),
            ("a = 1 }", 6, "expected the name"),
            ("a = ?", 4, "cannot stand here"),
            (deep.as_str(), 36, "in one another"),
        ] {
            let refused = read(text).err().expect(text);
            assert!(refused.message.contains(message), "{text}: {}", refused.message);
            assert_eq!(refused.at, at, "{text}");
        }
    }

    /// Whatever is cut out of a file, or put into it, is read or refused.
    #[test]
    fn no_text_is_too_much() {
        let good = "a: ( { b = 0x1L, c = \"\\x41\" \"é\"; }, [1, -2.5e3] ) /* c */ # d\n@ // e\n";
        let marks = ["\"", "\\", "(", "{", "/*", "*/", "0x", "-", ".", "é", "=", "true"];
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut text: Vec<char> = good.chars().collect();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..text.len());
                if random.bool() {
                    text.truncate(at.max(1));
                } else {
                    let mark = marks[random.usize(0..marks.len())];
                    text.splice(at..at, mark.chars());
                }
            }
            let text: String = text.into_iter().collect();
            if let Err(refused) = read(&text) {
                assert!(refused.at <= text.len() && text.is_char_boundary(refused.at), "{text}");
            }
        }
    }
}
