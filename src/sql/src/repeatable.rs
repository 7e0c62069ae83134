//! Whether the answer to a read may stand for the answer to the same read a moment later.

use crate::{
    Dialect,
    cursor::Cursor,
    lexer::{Kind, Lexer},
};

/// Functions of which no two calls are meant to give the same, or that are called for something
/// else than their value. Sources: MySQL manual, "Miscellaneous Functions", "Mathematical
/// Functions" and "Information Functions"; MariaDB manual, "UUIDv4", "UUIDv7", "SYS_GUID".
#[rustfmt::skip]
const SINGULAR: &[&str] = &[
    "benchmark", "connection_id", "current_role", "rand", "random_bytes", "sleep", "sys_guid",
    "uuid", "uuid_short", "uuidv4", "uuid_v4", "uuidv7", "uuid_v7",
];

/// Whether a read calls nothing whose value belongs to one call or one connection: `RAND()`,
/// `UUID()`, `SLEEP()`, `CONNECTION_ID()` and the like, and asks neither for `SQL_NO_CACHE` nor for `SQL_CALC_FOUND_ROWS`, which leaves something
/// to be asked for on its connection.
///
/// That it is a read, and asks for no state of one connection, is what
/// [`Statement::any_server`](crate::Statement::any_server) says; this looks at nothing else than
/// names. The time (`NOW()`) does not count: whoever lets an answer be a second old knows that.
pub fn is_repeatable(text: &[u8], dialect: Dialect) -> bool {
    let mut cursor = Cursor::new(Lexer::new(text, dialect));
    while let Some(token) = cursor.next() {
        if token.kind != Kind::Word {
            continue;
        }
        let word = cursor.of(token);
        let called = || cursor.ahead().is_some_and(|next| next.kind == Kind::Open);
        let is = |name: &&str| word.eq_ignore_ascii_case(name.as_bytes());
        // CURRENT_ROLE is called without parentheses too.
        let singular = SINGULAR.iter().any(is) && (called() || is(&"current_role"));
        if singular || is(&"sql_no_cache") || is(&"sql_calc_found_rows") {
            return false;
        }
    }
    !cursor.is_doubtful()
}

#[cfg(test)]
mod tests {
    use super::is_repeatable;
    use crate::Dialect;

    #[test]
    fn what_no_two_calls_agree_on_is_seen_wherever_it_is_called() {
        for (text, repeatable) in [
            ("SELECT a FROM t WHERE id = 7", true),
            ("SELECT NOW() - INTERVAL 1 HOUR", true),
            ("SELECT uuid, rand, sleep FROM t", true),
            ("SELECT 'RAND()' -- UUID()", true),
            ("SELECT `rand`, \"uuid()\"", true),
            ("SELECT Rand()", false),
            ("SELECT UUID ()", false),
            ("SELECT a FROM t ORDER BY rand /* x */ ( )", false),
            ("SELECT 1 WHERE SLEEP(1)", false),
            ("SELECT CURRENT_ROLE", false),
            ("SELECT (SELECT connection_id())", false),
            ("SELECT SQL_NO_CACHE a FROM t", false),
            ("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1", false),
            ("SELECT /*!40001 SQL_NO_CACHE */ a FROM t", false),
        ] {
            assert_eq!(is_repeatable(text.as_bytes(), Dialect::default()), repeatable, "{text}");
        }
    }
}
