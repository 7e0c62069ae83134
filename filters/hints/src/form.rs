//! How hints are written: what stands in a comment, told apart by its first word.

use std::borrow::Cow;

/// A comment that may have hints in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Form<'a> {
    /// `key=value` pairs; `true` if they can only be ProxySQL's.
    Pairs(&'a [u8], bool),
    /// What follows the word `maxscale`.
    Maxscale(&'a [u8]),
    /// `key='value'` pairs.
    Sqlcommenter(&'a [u8]),
}

impl<'a> Form<'a> {
    /// What a comment is, from what stands in it.
    pub(crate) fn of(inner: &'a [u8]) -> Self {
        let inner = inner.trim_ascii();
        if let [b';', rest @ ..] = inner {
            return Self::Pairs(rest, true);
        }
        let (first, rest) = first_word(inner);
        if first.eq_ignore_ascii_case(b"maxscale") {
            return Self::Maxscale(rest);
        }
        let key = inner.iter().position(|byte| !is_name(*byte)).unwrap_or(0);
        match &inner[key..] {
            [b'=', b'\'', ..] if key > 0 => Self::Sqlcommenter(inner),
            _ => Self::Pairs(inner, false),
        }
    }
}

/// The first word of `text`, and what follows it.
pub(crate) fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_ascii())
}

/// What a key's name is made of, behind its URL encoding.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'%')
}

/// `key=value` pairs between blanks and semicolons. Words that are neither key nor value are passed
/// over.
#[derive(Debug)]
pub(crate) struct Pairs<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';';
        loop {
            self.0 = &self.0[self.0.iter().position(|byte| !ends(byte))?..];
            let end = self.0.iter().position(|byte| ends(byte) || *byte == b'=');
            let (key, rest) = self.0.split_at(end?);
            let [b'=', value @ ..] = rest.trim_ascii_start() else {
                self.0 = rest;
                continue;
            };
            let value = value.trim_ascii_start();
            let end = value.iter().position(ends).unwrap_or(value.len());
            let (value, rest) = value.split_at(end);
            self.0 = rest;
            return Some((key, value));
        }
    }
}

/// `key='value'` pairs between commas, URL-encoded, with quotes in them escaped: as the sqlcommenter
/// specification has them. Ends at what is no such pair.
#[derive(Debug)]
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Quoted<'a> {
    type Item = (Cow<'a, [u8]>, Cow<'a, [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let text = std::mem::take(&mut self.0).trim_ascii_start();
        let (key, rest) = text.split_at(text.iter().position(|byte| !is_name(*byte))?);
        let rest = rest.strip_prefix(b"='")?;
        let mut end = 0;
        while *rest.get(end)? != b'\'' {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        let (value, rest) = rest.split_at(end);
        let rest = rest[1..].trim_ascii_start();
        self.0 = rest.strip_prefix(b",").unwrap_or_default();
        Some((decoded(key), decoded(value)))
    }
}

/// Without escapes and URL encoding. What is no escape stays as it is.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'\\')) {
        return Cow::Borrowed(text);
    }
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            (b'\\', Some(&escaped)) => {
                out.push(escaped);
                at += 2;
            }
            (b'%', _) => match (digit(at + 1), digit(at + 2)) {
                (Some(high), Some(low)) => {
                    out.extend(u8::try_from(high * 16 + low));
                    at += 3;
                }
                _ => {
                    out.push(byte);
                    at += 1;
                }
            },
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{Form, Pairs, Quoted};

    fn pairs(text: &str) -> Vec<(String, String)> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match Form::of(text.as_bytes()) {
            Form::Pairs(text, _) => {
                Pairs(text).map(|(key, value)| (text_of(key), text_of(value))).collect()
            }
            Form::Sqlcommenter(text) => {
                Quoted(text).map(|(key, value)| (text_of(&key), text_of(&value))).collect()
            }
            Form::Maxscale(text) => vec![("maxscale".to_owned(), text_of(text))],
        }
    }

    fn must_be(text: &str, expected: &[(&str, &str)]) {
        let found = pairs(text);
        let found: Vec<_> = found.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn pairs_stand_between_blanks_and_semicolons() {
        must_be("a=1 b=2", &[("a", "1"), ("b", "2")]);
        must_be(" a = 1 ;\tb= 2;c =3 ", &[("a", "1"), ("b", "2"), ("c", "3")]);
        must_be(";a=1;b=2", &[("a", "1"), ("b", "2")]);
        must_be("say a=x=y; b=", &[("a", "x=y"), ("b", "")]);
        must_be("for people = and; =1 a=2", &[("people", "and"), ("", "1"), ("a", "2")]);
        must_be("no pair here", &[]);
        must_be("", &[]);
    }

    #[test]
    fn quoted_pairs_are_decoded() {
        must_be("a='1',b='x%20y'", &[("a", "1"), ("b", "x y")]);
        must_be(" a='it\\'s' , %62='%2'", &[("a", "it's"), ("b", "%2")]);
        must_be("a='%zz',b='open", &[("a", "%zz")]);
        must_be("a='1' b='2'", &[("a", "1")]);
        must_be("a='\\", &[]);
    }

    #[test]
    fn the_first_word_decides() {
        assert!(matches!(Form::of(b";a=1"), Form::Pairs(_, true)));
        assert!(matches!(Form::of(b"a=1"), Form::Pairs(_, false)));
        assert!(matches!(Form::of(b"WHERE a='1'"), Form::Pairs(_, false)));
        assert!(matches!(Form::of(b"='1'"), Form::Pairs(_, false)));
        must_be(" MaxScale  route to master ", &[("maxscale", "route to master")]);
        must_be("maxscales=1", &[("maxscales", "1")]);
    }
}
