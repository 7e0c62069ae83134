//! Whether transactions of a session may write, as SET says it.

use crate::{
    Dialect,
    cursor::Cursor,
    lexer::{Kind, Lexer},
};

/// What a statement makes of the access mode that later transactions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// They only read.
    ReadOnly,
    /// They may write.
    ReadWrite,
    /// It cannot be seen which of the two.
    Unsure,
}

/// What `text`, a SET, says of the access mode: `SET SESSION TRANSACTION ... READ ONLY`, or the
/// variable `transaction_read_only` (`tx_read_only`) in any scope. `None` if it does not touch it.
/// Of several assignments the last one counts.
///
/// Sources: MySQL manual, "SET TRANSACTION Statement"; MariaDB manual, "SET TRANSACTION".
pub fn access(text: &[u8], dialect: Dialect) -> Option<Access> {
    let mut cursor = Cursor::new(Lexer::new(text, dialect));
    if !cursor.accept("set") {
        return None;
    }
    let (mut access, mut characteristics) = (None, false);
    while let Some(token) = cursor.next() {
        match token.kind {
            Kind::Semicolon => characteristics = false,
            Kind::Word if is(cursor.of(token), "transaction") => characteristics = true,
            Kind::Word if characteristics && is(cursor.of(token), "read") => {
                if cursor.sees("only") {
                    access = Some(Access::ReadOnly);
                } else if cursor.sees("write") {
                    access = Some(Access::ReadWrite);
                }
            }
            Kind::Word | Kind::QuotedName | Kind::SystemVariable
                if names_it(cursor.of(token)) && assigns(&mut cursor) =>
            {
                access = Some(value(&mut cursor));
            }
            _ => {}
        }
    }
    access.map(|access| if cursor.is_doubtful() { Access::Unsure } else { access })
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// Whether this is the variable, in whatever scope and quotes.
fn names_it(word: &[u8]) -> bool {
    let name = word.rsplit(|&byte| byte == b'.').next().unwrap_or(word);
    let name = name.strip_prefix(b"@@").unwrap_or(name);
    let name = name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name);
    is(name, "transaction_read_only") || is(name, "tx_read_only")
}

fn assigns(cursor: &mut Cursor<'_>) -> bool {
    let sign = cursor.ahead().filter(|token| token.kind == Kind::Operator);
    let found = sign.is_some_and(|token| matches!(cursor.of(token), b"=" | b":="));
    if found {
        cursor.next();
    }
    found
}

/// The value ahead, if it is one literal.
fn value(cursor: &mut Cursor<'_>) -> Access {
    let Some(token) = cursor.next() else { return Access::Unsure };
    let ends = cursor.at_end() || cursor.ahead().is_some_and(|token| token.kind == Kind::Comma);
    let text = cursor.of(token);
    let text = match (token.kind, text) {
        (Kind::String, [_, inner @ .., _]) => inner,
        (Kind::Word | Kind::Number, text) => text,
        _ => return Access::Unsure,
    };
    let any = |words: &[&str]| words.iter().any(|word| is(text, word));
    match ends {
        true if any(&["1", "on", "true"]) => Access::ReadOnly,
        true if any(&["0", "off", "false"]) => Access::ReadWrite,
        _ => Access::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, access};
    use crate::Dialect;

    #[test]
    fn the_access_mode_is_read_wherever_it_stands() {
        use Access::{ReadOnly, ReadWrite, Unsure};
        for (text, expected) in [
            ("SET SESSION TRANSACTION READ ONLY", Some(ReadOnly)),
            ("set session transaction isolation level read committed, read only", Some(ReadOnly)),
            ("SET LOCAL TRANSACTION READ WRITE", Some(ReadWrite)),
            ("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", None),
            ("SET transaction_read_only = 1", Some(ReadOnly)),
            ("SET @@session.tx_read_only := 'ON'", Some(ReadOnly)),
            ("SET @@SESSION.`transaction_read_only` = OFF", Some(ReadWrite)),
            ("SET SESSION tx_read_only=true, sql_mode=''", Some(ReadOnly)),
            ("SET tx_read_only = 1, tx_read_only = 0", Some(ReadWrite)),
            ("SET tx_read_only = DEFAULT", Some(Unsure)),
            ("SET tx_read_only = 1 - 1", Some(Unsure)),
            ("SET tx_read_only = @a", Some(Unsure)),
            ("SET tx_read_only = ", Some(Unsure)),
            ("SET @a = 'transaction_read_only = 1'", None),
            ("SET @a = @@transaction_read_only", None),
            ("SELECT 1", None),
            ("", None),
        ] {
            assert_eq!(access(text.as_bytes(), Dialect::default()), expected, "{text}");
        }
    }
}
