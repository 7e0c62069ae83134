//! Regular expressions: one of a rule, and those of all rules in one pass.
//!
//! Texts are bytes in any charset, so the syntax is that of the `regex` crate without Unicode: `.`
//! is any byte but a line's end, `\w` and case are ASCII's.

use crate::bits::Bits;
use regex_automata::{
    Input, MatchKind, PatternSet,
    meta::{self, Config},
    util::captures::Captures,
};
use regex_syntax::{ParserBuilder, hir::Hir};

/// How much one pattern may take compiled, in bytes.
const PATTERN_LIMIT: usize = 1 << 20;

/// What one thread keeps of what it has seen of all patterns together, in bytes: beyond it a
/// pass is slower.
const CACHE: usize = 16 << 20;

/// One pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    hir: Hir,
    regex: meta::Regex,
}

impl Pattern {
    /// Compiles it, or says what is wrong with it in one line, without quoting it.
    pub(crate) fn new(text: &str, caseless: bool) -> Result<Self, String> {
        let mut parser = ParserBuilder::new();
        let parser = parser.unicode(false).utf8(false).case_insensitive(caseless);
        let hir = parser.build().parse(text).map_err(|error| why(text, &error))?;
        let config = config().nfa_size_limit(Some(PATTERN_LIMIT));
        let regex = meta::Builder::new().configure(config).build_from_hir(&hir);
        let regex =
            regex.map_err(|_| format!("too large: it takes more than {PATTERN_LIMIT} bytes"))?;
        Ok(Self { hir, regex })
    }

    /// How many groups it has, the whole match not counted.
    pub(crate) fn groups(&self) -> usize {
        self.hir.properties().explicit_captures_len()
    }
}

fn config() -> Config {
    Config::new().utf8_empty(false)
}

fn why(text: &str, error: &regex_syntax::Error) -> String {
    let (what, at) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => {
            (error.kind().to_string(), error.span().start.offset)
        }
        _ => return "it cannot be read".to_owned(),
    };
    let at = text.get(..at).map_or(0, |before| before.chars().count()) + 1;
    format!("{what}, at character {at}")
}

/// Patterns of several rules.
#[derive(Debug)]
pub(crate) struct Patterns {
    /// None if there is no pattern.
    all: Option<meta::Regex>,
    /// Of each pattern, the place of its rule.
    rules: Vec<usize>,
    /// The rules that hold for a text that no pattern matches: those without a pattern, and those
    /// with one that must not match.
    without: Bits,
}

impl Patterns {
    /// The patterns of the rules at these places, each with whether it must not match; `rules` are
    /// there in all.
    pub(crate) fn new<'a>(
        rules: usize,
        patterns: impl Iterator<Item = (usize, &'a Pattern, bool)> + Clone,
    ) -> Self {
        let mut without = Bits::of(&vec![(); rules], |()| true);
        for (rule, _, negated) in patterns.clone() {
            if !negated {
                without.flip(rule);
            }
        }
        let hirs: Vec<_> = patterns.clone().map(|(_, pattern, _)| &pattern.hir).collect();
        let config = config().match_kind(MatchKind::All).nfa_size_limit(None);
        let config = config.hybrid_cache_capacity(CACHE);
        let all = (!hirs.is_empty()).then(|| {
            meta::Builder::new()
                .configure(config)
                .build_many_from_hir(&hirs)
                .expect("each was built by itself, and all together have no limit")
        });
        Self { all, rules: patterns.map(|(rule, ..)| rule).collect(), without }
    }

    /// What [`Self::find`] writes its findings to.
    pub(crate) fn scratch(&self) -> PatternSet {
        PatternSet::new(self.rules.len())
    }

    /// Sets `holding` to the rules that `text` leaves.
    pub(crate) fn find(&self, text: &[u8], scratch: &mut PatternSet, holding: &mut Bits) {
        holding.copy_from(&self.without);
        let Some(all) = &self.all else { return };
        scratch.clear();
        all.which_overlapping_matches(&Input::new(text), scratch);
        if !scratch.is_empty() {
            scratch.iter().for_each(|pattern| holding.flip(self.rules[pattern.as_usize()]));
        }
    }
}

/// `replace_pattern`: what stands in place of what a pattern has found.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    pieces: Vec<Piece>,
    /// Everywhere, or at the first place only.
    everywhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    /// 0 is the whole match.
    Group(usize),
}

/// How long a text may become, in bytes.
pub(crate) const REPLACED_LIMIT: usize = 64 << 20;

/// A text would have become too long.
#[derive(Debug)]
pub(crate) struct TooLong;

impl Replacement {
    /// Reads a template: `\0` to `\9` are groups, `\\` is a backslash.
    pub(crate) fn read(
        template: &str,
        pattern: &Pattern,
        everywhere: bool,
    ) -> Result<Self, String> {
        let (mut pieces, mut text) = (Vec::new(), Vec::new());
        let mut bytes = template.bytes();
        while let Some(byte) = bytes.next() {
            match (byte, if byte == b'\\' { bytes.next() } else { None }) {
                (b'\\', Some(digit @ b'0'..=b'9')) => {
                    let group = usize::from(digit - b'0');
                    if group > pattern.groups() {
                        return Err(format!(
                            "\\{group} is a group that match_pattern does not have"
                        ));
                    }
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Group(group));
                }
                (b'\\', Some(b'\\')) => text.push(b'\\'),
                (b'\\', _) => return Err("a backslash without a digit or a backslash".to_owned()),
                (plain, _) => text.push(plain),
            }
        }
        pieces.push(Piece::Text(text));
        pieces.retain(|piece| *piece != Piece::Text(Vec::new()));
        Ok(Self { pieces, everywhere })
    }

    /// `text` with what `pattern` finds in it replaced.
    pub(crate) fn apply(&self, pattern: &Pattern, text: &[u8]) -> Result<Vec<u8>, TooLong> {
        let mut made = Vec::with_capacity(text.len());
        let mut copied = 0;
        let most = if self.everywhere { usize::MAX } else { 1 };
        for found in pattern.regex.captures_iter(text).take(most) {
            let Some(whole) = found.get_match() else { continue };
            made.extend_from_slice(&text[copied..whole.start()]);
            self.expand(&found, text, &mut made);
            copied = whole.end();
            if made.len() > REPLACED_LIMIT {
                return Err(TooLong);
            }
        }
        made.extend_from_slice(&text[copied..]);
        if made.len() > REPLACED_LIMIT.max(text.len()) { Err(TooLong) } else { Ok(made) }
    }

    fn expand(&self, found: &Captures, text: &[u8], made: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => made.extend_from_slice(plain),
                Piece::Group(group) => {
                    let span = found.get_group(*group);
                    made.extend_from_slice(span.map_or(&[], |span| &text[span.range()]));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, Patterns, Replacement};
    use crate::bits::Bits;

    fn replaced(pattern: &str, template: &str, everywhere: bool, text: &[u8]) -> Vec<u8> {
        let pattern = Pattern::new(pattern, true).expect("it compiles");
        let replacement = Replacement::read(template, &pattern, everywhere).expect("it fits");
        replacement.apply(&pattern, text).expect("it is short")
    }

    #[test]
    fn groups_stand_in_templates() {
        let swap = replaced(r"from (\w+)\.(\w+)", r"FROM \2.\1", false, b"SELECT 1 FROM a.b");
        assert_eq!(swap, b"SELECT 1 FROM b.a");
        assert_eq!(replaced("b(x)?", r"<\0\1\\>", true, b"abcbx"), br"a<b\>c<bxx\>");
        assert_eq!(replaced("b", "", true, b"abcb"), b"ac");
        assert_eq!(replaced("b", "c", false, b"abcb"), b"accb");
        assert_eq!(replaced(".$", "", false, b"caf\xe9"), b"caf");
    }

    #[test]
    fn templates_with_mistakes_are_refused() {
        let pattern = Pattern::new("(a)", true).expect("it compiles");
        for template in [r"\2", r"\", r"\x"] {
            assert!(Replacement::read(template, &pattern, true).is_err(), "{template}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let said = Pattern::new("é(a", true).expect_err("it is wrong");
        assert_eq!(said, "unclosed group, at character 2");
        let look = Pattern::new("a(?=b)", true).expect_err("there is no such thing");
        assert!(look.contains("look-around") && !look.contains('\n'), "{look}");
        let large = Pattern::new("(a{1000}){1000}", true).expect_err("it is too large");
        assert!(large.contains("too large"), "{large}");
    }

    #[test]
    fn many_patterns_in_one_pass() {
        let patterns: Vec<_> = ["^SELECT", "for update$", "^insert"]
            .iter()
            .zip([true, true, false])
            .map(|(text, caseless)| Pattern::new(text, caseless).expect("it compiles"))
            .collect();
        // Rules 0 and 2 have none; 3 must not match.
        let placed = [(1, &patterns[0], false), (3, &patterns[1], true), (4, &patterns[2], false)];
        let all = Patterns::new(5, placed.into_iter());
        let (mut scratch, mut holding) = (all.scratch(), Bits::none(5));
        for (text, expected) in [
            ("select 1", 0b01111),
            ("select 1 FOR UPDATE", 0b00111),
            ("INSERT", 0b01101),
            ("insert", 0b11101),
        ] {
            all.find(text.as_bytes(), &mut scratch, &mut holding);
            assert_eq!(holding.word(0), expected, "{text}");
        }
    }
}
