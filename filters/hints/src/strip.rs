//! A statement without the comments that were meant for the proxy.

use smallvec::SmallVec;
use sql::{Dialect, Kind, Lexer, Span, Token};

/// `text` without the comments at `spans`, which are in order and do not overlap. A comment divides
/// what stands around it, as a blank does: where there is no other blank, one takes its place. One
/// that is all there is of a statement stays: servers answer it with OK, and nothing with an error.
pub(crate) fn strip(text: &[u8], spans: &[Span], dialect: Dialect) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for span in beside_code(text, spans, dialect) {
        out.extend_from_slice(&text[at..span.start]);
        at = span.end;
        let behind = text[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if out.last().is_none_or(u8::is_ascii_whitespace) {
            at += behind;
        } else if behind == 0 && at < text.len() {
            out.push(b' ');
        }
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Those of `spans` that stand in a statement with more in it.
fn beside_code(text: &[u8], spans: &[Span], dialect: Dialect) -> SmallVec<[Span; 2]> {
    let mut found = SmallVec::new();
    let (mut rest, mut has_code) = (spans, false);
    for token in Lexer::new(text, dialect) {
        if token.kind == Kind::Semicolon {
            let here = rest.partition_point(|span| span.start < token.start);
            let (before, behind) = rest.split_at(here);
            if has_code {
                found.extend(before.iter().cloned());
            }
            (rest, has_code) = (behind, false);
        } else {
            has_code |= Token::is_code(&token);
        }
    }
    if has_code {
        found.extend(rest.iter().cloned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::strip;
    use sql::{Dialect, comments};

    #[test]
    fn what_stands_around_a_comment_stays_apart() {
        for (text, expected) in [
            ("/* a=1 */ SELECT 1", "SELECT 1"),
            ("SELECT/* a=1 */1", "SELECT 1"),
            ("SELECT /* a=1 */ 1", "SELECT 1"),
            ("SELECT/* a=1 */ 1", "SELECT 1"),
            ("SELECT /* a=1 */1", "SELECT 1"),
            ("SELECT 1-/* a=1 */-1", "SELECT 1- -1"),
            ("SELECT 1/* a=1 *//* b=2 */+1", "SELECT 1 +1"),
            ("SELECT 1 -- a=1", "SELECT 1 "),
            ("SELECT 1 -- a=1\n+ 2# b=1\n+ 3", "SELECT 1 + 2\n+ 3"),
            ("# a=1\nSELECT 1", "SELECT 1"),
            ("SELECT '/* a=1 */'/* a=1 */", "SELECT '/* a=1 */'"),
            ("/* a=1 */", "/* a=1 */"),
            ("/* a=1 */;", "/* a=1 */;"),
            ("SELECT 1 /* a=1 */;", "SELECT 1 ;"),
            ("SELECT 1; /* a=1 */", "SELECT 1; /* a=1 */"),
            ("SELECT 1; /* a=1 */; SELECT /* b=1 */ 2", "SELECT 1; /* a=1 */; SELECT 2"),
        ] {
            let spans: Vec<_> =
                comments(text.as_bytes(), Dialect::default()).map(|found| found.span).collect();
            let stripped = strip(text.as_bytes(), &spans, Dialect::default());
            assert_eq!(String::from_utf8_lossy(&stripped), expected, "{text}");
        }
    }
}
