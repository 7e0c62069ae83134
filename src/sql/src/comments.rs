//! The plain comments of a text: where people write to whoever stands between them and the server.

use crate::{
    Dialect, Span,
    lexer::{Kind, Lexer},
};
use memchr::memchr3_iter;

/// A comment that means nothing to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// All of it, in bytes; of one that goes to the line's end, without that end.
    pub span: Span,
    /// What stands in it: between `/*` and `*/`, behind `#`, behind `--`.
    pub inner: Span,
}

/// The comments of a text, in its order. Made by [`comments`].
#[derive(Clone, Debug)]
pub struct Comments<'a> {
    /// None where there cannot be any.
    lexer: Option<Lexer<'a>>,
    /// No comment begins behind this.
    last: usize,
    /// How far it has been read.
    at: usize,
    /// Inside an executable comment that is code.
    in_code: bool,
}

/// Finds the plain comments of `text`: `/* */`, `#` and `-- `, wherever they stand.
///
/// It finds none in a string or a quoted name, none that is or stands in an executable comment
/// (`/*! */`, `/*M! */`), no optimizer hint (`/*+ */`), and none that is left open, which servers
/// refuse. A text in which nothing looks like a comment is searched once and not read.
///
/// ```
/// use sql::{Dialect, comments};
///
/// let text = b"SELECT /*+ NO_ICP(t) */ '/* no */' /* yes */ -- and";
/// let found: Vec<_> = comments(text, Dialect::default()).map(|it| &text[it.inner]).collect();
/// assert_eq!(found, [&b" yes "[..], b" and"]);
/// ```
///
/// Sources: MySQL manual, "Comments"; MariaDB manual, "Comment Syntax".
pub fn comments(text: &[u8], dialect: Dialect) -> Comments<'_> {
    let lexer = may_have_any(text).then(|| Lexer::new(text, dialect));
    // Of none there is no last one either.
    let last = lexer
        .as_ref()
        .and_then(|_| memchr3_iter(b'/', b'#', b'-', text).rfind(|&at| begins(&text[at..])));
    Comments { lexer, last: last.unwrap_or(0), at: 0, in_code: false }
}

/// How much is looked at together: pairs that begin in 32 bytes.
const WINDOW: usize = 33;

/// Whether something looks like a comment's beginning. What it does to a window is the same for each
/// byte, so that it becomes instructions for many of them.
fn may_have_any(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk::<WINDOW>() else {
        return (0..text.len()).any(|at| begins(&text[at..]));
    };
    let mut rest = text;
    while let Some(window) = rest.first_chunk() {
        if has_sign(window) && has_beginning(window) {
            return true;
        }
        rest = &rest[WINDOW - 1..];
    }
    has_beginning(last) || text.last() == Some(&b'#')
}

fn has_sign(window: &[u8; WINDOW]) -> bool {
    let [first @ .., _] = window;
    // `-` and `/` are one bit apart.
    first.iter().fold(false, |any, &byte| any | (byte == b'#') | (byte | 2 == b'/'))
}

fn has_beginning(window: &[u8; WINDOW]) -> bool {
    window.iter().zip(&window[1..]).fold(false, |any, (&one, &next)| {
        let slash = (one == b'/') & (next == b'*');
        let dashes = (one == b'-') & (next == b'-');
        any | (one == b'#') | slash | dashes
    })
}

fn begins(text: &[u8]) -> bool {
    matches!(text, [b'#', ..] | [b'/', b'*', ..] | [b'-', b'-', ..])
}

impl Comments<'_> {
    /// Whether there is nothing that looks like one. Otherwise there may be none all the same.
    pub fn is_empty(&self) -> bool {
        self.lexer.is_none()
    }

    /// Whether a server may have cut what was read so far in another way, and see no comment where
    /// one was found.
    pub fn is_doubtful(&self) -> bool {
        self.lexer.as_ref().is_some_and(Lexer::is_doubtful)
    }
}

impl Iterator for Comments<'_> {
    type Item = Comment;

    fn next(&mut self) -> Option<Comment> {
        let lexer = self.lexer.as_mut()?;
        let text = lexer.text();
        while self.at <= self.last {
            let token = lexer.next()?;
            self.at = token.end;
            match token.kind {
                Kind::CodeStart => self.in_code = true,
                Kind::CodeEnd => self.in_code = false,
                Kind::Comment if !self.in_code => {
                    if let Some(inner) = inner(token.of(text)) {
                        let inner = token.start + inner.start..token.start + inner.end;
                        return Some(Comment { span: token.span(), inner });
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Where a comment's content is; `None` if it has no end.
fn inner(comment: &[u8]) -> Option<Span> {
    match comment {
        [b'/', b'*', .., b'*', b'/'] if comment.len() >= 4 => Some(2..comment.len() - 2),
        [b'#', ..] => Some(1..comment.len()),
        [b'-', b'-', ..] => Some(2..comment.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{begins, comments, may_have_any};
    use crate::{Charset, Dialect, Server, Vendor};

    fn found(text: &str) -> Vec<&str> {
        found_by(text, Dialect::default())
    }

    fn found_by(text: &str, dialect: Dialect) -> Vec<&str> {
        comments(text.as_bytes(), dialect).map(|comment| &text[comment.inner]).collect()
    }

    #[test]
    fn all_forms_are_found_anywhere() {
        for (text, expected) in [
            ("/* a */ SELECT 1", vec![" a "]),
            ("SELECT /*a*/ 1", vec!["a"]),
            ("SELECT 1/*a*/", vec!["a"]),
            ("SELECT 1 # a", vec![" a"]),
            ("SELECT 1 -- a", vec![" a"]),
            ("SELECT 1 --", vec![""]),
            ("#a\nSELECT 1\n--\tb\n+/*c\nd*/2", vec!["a", "\tb", "c\nd"]),
            ("SELECT 1/**/+/***/1", vec!["", "*"]),
            ("SELECT 1; /* a */ SELECT 2", vec![" a "]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_left_alone() {
        for text in [
            "",
            "SELECT 4/2, 4-2, a->'$.b', 2024-01-01",
            "SELECT '/* a */', \"# b\", `-- c`",
            "SELECT 'it''s /* a */', 'it\\'s # b'",
            "SELECT @`/* a */`, @'# b'",
            "SELECT 1--1, 5 --4",
            "SELECT /*+ NO_ICP(t) */ 1",
            "SELECT /*! SQL_NO_CACHE */ /*!50000 1, */ /*M!100000 1 */",
            "SELECT /*! 1 /* a */ */",
            "SELECT 1 /* left open",
            "SELECT 1 /*/",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text}");
        }
    }

    #[test]
    fn a_beginning_is_seen_at_every_place() {
        for len in 0..150 {
            let plain = vec![b'x'; len];
            assert!(!may_have_any(&plain), "{len}");
            for sign in ["#", "/*", "--", "/", "-", "*/", "-/", "/-*"] {
                for at in 0..=len.saturating_sub(sign.len()) {
                    let mut text = plain.clone();
                    text.splice(at..(at + sign.len()).min(len), sign.bytes());
                    let expected = (0..text.len()).any(|at| begins(&text[at..]));
                    assert_eq!(may_have_any(&text), expected, "{sign} at {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn none_hides_another() {
        let text = "/*+ h */ SELECT /*!99999 x */ '/*' /* a */ `*/` # b\n, 1 -- c";
        let server = Some(Server { vendor: Vendor::MySql, version: 80_400 });
        assert_eq!(found_by(text, Dialect { server, ..Dialect::default() }), [" a ", " b", " c"]);
    }

    #[test]
    fn the_session_s_settings_count() {
        let escaped = r"SELECT 'a\' /* b */";
        assert_eq!(found(escaped), Vec::<&str>::new());
        let dialect = Dialect { no_backslash_escapes: true, ..Dialect::default() };
        assert_eq!(found_by(escaped, dialect), [" b "]);
        let half = b"SELECT '\xbf\\' /* a */";
        let dialect = Dialect { charset: Charset::Gbk, ..Dialect::default() };
        assert_eq!(comments(half, dialect).count(), 1);
        assert_eq!(comments(half, Dialect::default()).count(), 0);
    }

    #[test]
    fn doubt_is_told() {
        let doubtful = |text: &str| {
            let mut comments = comments(text.as_bytes(), Dialect::default());
            comments.by_ref().for_each(drop);
            comments.is_doubtful()
        };
        assert!(doubtful("SELECT 'open /* a */"));
        assert!(doubtful("SELECT /*!80000 1 */ /* a */"));
        assert!(!doubtful("SELECT 'a' /* a */"));
    }
}
