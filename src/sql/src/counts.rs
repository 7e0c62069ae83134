//! Where a text asks how many rows the statement before it was about.

use crate::{
    Dialect, Span, Verb,
    cursor::Cursor,
    lexer::{Kind, Lexer},
};

/// A call that asks about the statement before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// What it asks.
    pub function: CountFunction,
    /// The call, from its name to its closing parenthesis.
    pub span: Span,
}

/// What is asked about the statement before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountFunction {
    /// `ROW_COUNT()`.
    RowCount,
    /// `FOUND_ROWS()`.
    FoundRows,
}

/// Finds where the one statement of a text calls `ROW_COUNT()` or `FOUND_ROWS()`, so that a value
/// may take its place. `None` if it also asks something else about the statement before, if it
/// stores its text, or if a server may cut it in another way.
///
/// Sources: MySQL manual and MariaDB manual, "Information Functions".
pub fn counts(text: &[u8], dialect: Dialect) -> Option<Vec<Count>> {
    let mut cursor = Cursor::new(Lexer::new(text, dialect));
    let (mut found, mut verb, mut behind_dot) = (Vec::new(), None, false);
    while let Some(token) = cursor.next() {
        let word = cursor.of(token);
        if verb.is_none() && token.kind != Kind::Open {
            verb = Some(Verb::of(word));
            if matches!(verb, Some(Verb::Create | Verb::Alter | Verb::Show | Verb::Get)) {
                return None;
            }
        }
        match token.kind {
            Kind::Semicolon if cursor.ahead().is_some() => return None,
            Kind::SystemVariable => {
                let name = word.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
                let name = name.strip_prefix(b"@@").unwrap_or(name);
                let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
                if is("warning_count") || is("error_count") {
                    return None;
                }
            }
            Kind::Word if !behind_dot => {
                let function = match word {
                    _ if word.eq_ignore_ascii_case(b"row_count") => Some(CountFunction::RowCount),
                    _ if word.eq_ignore_ascii_case(b"found_rows") => Some(CountFunction::FoundRows),
                    _ => None,
                };
                let mut ahead = cursor.clone();
                let open = ahead.next().filter(|next| next.kind == Kind::Open);
                let close = open.and_then(|_| ahead.next()).filter(|next| next.kind == Kind::Close);
                if let (Some(function), Some(close)) = (function, close) {
                    found.push(Count { function, span: token.start..close.start + 1 });
                }
            }
            _ => {}
        }
        behind_dot = token.kind == Kind::Dot;
    }
    (!cursor.is_doubtful()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::counts;
    use crate::Dialect;

    fn found(text: &str) -> Option<Vec<&str>> {
        let found = counts(text.as_bytes(), Dialect::default())?;
        Some(found.into_iter().map(|count| &text[count.span]).collect())
    }

    #[test]
    fn calls_and_nothing_else() {
        for (text, expected) in [
            ("SELECT ROW_COUNT()", vec!["ROW_COUNT()"]),
            ("SELECT a, found_rows ( ) FROM t", vec!["found_rows ( )"]),
            ("SELECT ROW_COUNT(), FOUND_ROWS()", vec!["ROW_COUNT()", "FOUND_ROWS()"]),
            ("INSERT INTO t VALUES (ROW_COUNT());", vec!["ROW_COUNT()"]),
            ("SELECT 'ROW_COUNT()', t.row_count, row_count FROM t", vec![]),
        ] {
            assert_eq!(found(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_put_in_place() {
        for text in [
            "SHOW WARNINGS",
            "SELECT @@warning_count, ROW_COUNT()",
            "SELECT @@session.error_count",
            "GET DIAGNOSTICS @n = ROW_COUNT",
            "SELECT ROW_COUNT(); SELECT FOUND_ROWS()",
            "CREATE VIEW v AS SELECT ROW_COUNT()",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
