//! A statement without the comments that were meant for the proxy.

use sql::Span;

/// `text` without what is at `spans`, which are in order and do not overlap. A comment divides what
/// stands around it, as a blank does: where there is no other blank, one takes its place.
pub(crate) fn strip(text: &[u8], spans: &[Span]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
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
            ("/* a=1 */", ""),
        ] {
            let spans: Vec<_> =
                comments(text.as_bytes(), Dialect::default()).map(|found| found.span).collect();
            let stripped = strip(text.as_bytes(), &spans);
            assert_eq!(String::from_utf8_lossy(&stripped), expected, "{text}");
        }
    }
}
