//! KILL: whom it names.

use crate::{
    Dialect, Server, Span, Vendor,
    cursor::Cursor,
    lexer::{Kind, Lexer, Token},
};

/// A `KILL` of one connection, or of what it runs, that names it by a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Only the statement at work ends, not the connection.
    pub query: bool,
    /// The id.
    pub id: u64,
    /// Where it stands, with its quotes if it has some.
    pub span: Span,
}

/// Reads `KILL [HARD | SOFT] [CONNECTION | QUERY] id`. `None` for anything else: another
/// statement, several, an id that is an expression, `KILL USER`, `KILL QUERY ID`, text that a
/// server may cut in another way.
///
/// Sources: MySQL manual, "KILL Statement"; MariaDB manual, "KILL [CONNECTION | QUERY]".
pub fn kill(text: &[u8], dialect: Dialect) -> Option<Kill> {
    let mut cursor = Cursor::new(Lexer::new(text, dialect));
    cursor.accept("kill").then_some(())?;
    if !matches!(dialect.server, Some(Server { vendor: Vendor::MySql, .. })) {
        cursor.accept_any(&["hard", "soft"]);
    }
    let query = cursor.accept("query");
    if !query {
        cursor.accept("connection");
    }
    let token = cursor.next()?;
    let id = number(token, cursor.of(token))?;
    while cursor.accept_kind(Kind::Semicolon) {}
    let alone = cursor.next().is_none() && !cursor.is_doubtful();
    alone.then(|| Kill { query, id, span: token.span() })
}

/// `12`, `0x1F`, `'12'`.
fn number(token: Token, text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    match token.kind {
        Kind::Number => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => decimal(text),
        },
        Kind::String => decimal(text.get(1..text.len().checked_sub(1)?)?),
        _ => None,
    }
}

fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::kill;
    use crate::{Dialect, Server, Vendor};

    fn on(vendor: Vendor) -> Dialect {
        Dialect { server: Some(Server { vendor, version: 101_106 }), ..Dialect::default() }
    }

    #[test]
    fn kills_of_one_connection_are_read() {
        for (text, query, id, piece) in [
            ("KILL 7", false, 7, "7"),
            ("kill connection 2147483650 ;; ", false, 2_147_483_650, "2147483650"),
            ("/* a */ Kill -- b\n QUERY/**/0x80000002", true, 2_147_483_650, "0x80000002"),
            ("KILL '42'", false, 42, "'42'"),
            ("KILL 18446744073709551615", false, u64::MAX, "18446744073709551615"),
            ("/*!50000 KILL */ 007", false, 7, "007"),
        ] {
            for vendor in [Vendor::MySql, Vendor::MariaDb] {
                let found = kill(text.as_bytes(), on(vendor)).unwrap();
                assert_eq!(
                    (found.query, found.id, &text[found.span]),
                    (query, id, piece),
                    "{text}"
                );
            }
        }
        for (text, query) in [("KILL HARD 7", false), ("KILL SOFT QUERY 7", true)] {
            let found = kill(text.as_bytes(), on(Vendor::MariaDb)).unwrap();
            assert_eq!((found.query, found.id), (query, 7), "{text}");
            assert_eq!(kill(text.as_bytes(), on(Vendor::MySql)), None, "{text}");
        }
    }

    #[test]
    fn anything_else_is_not() {
        for text in [
            "",
            "KILL",
            "KILL QUERY",
            "KILL -5",
            "KILL 5+1",
            "KILL (5)",
            "KILL 5.0",
            "KILL 1e3",
            "KILL 'x'",
            "KILL ''",
            "KILL x'05'",
            "KILL @a",
            "KILL ?",
            "KILL CONNECTION_ID()",
            "KILL USER a",
            "KILL QUERY ID 5",
            "KILL CONNECTION QUERY 5",
            "KILL 5; SELECT 1",
            "KILL 18446744073709551616",
            "KILL 5 /* open",
            "SELECT 5",
        ] {
            assert_eq!(kill(text.as_bytes(), on(Vendor::MariaDb)), None, "{text}");
        }
    }
}
