//! `SET @towpath_sticky_backend = 1`: a mode for clients whose comments do not arrive.

use chain::facts::StickyMode;
use sql::{Dialect, Kind, Lexer, Token};

/// The variable's name, in any case.
const VARIABLE: &[u8] = b"towpath_sticky_backend";

/// The mode that a SET asks for, `Err` where it gives the variable another value than 0, 1 or 2.
/// `None` if it does not name it; of several values the last one counts. A value that is no plain
/// number is another one: only the server knows what it comes to.
pub(crate) fn assigned(text: &[u8], dialect: Dialect) -> Option<Result<StickyMode, ()>> {
    let mut tokens = Lexer::new(text, dialect).filter(Token::is_code);
    if !tokens.next()?.of(text).eq_ignore_ascii_case(b"set") {
        return None;
    }
    let (mut found, mut depth, mut begins) = (None, 0_usize, true);
    while let Some(token) = tokens.next() {
        match token.kind {
            Kind::Semicolon => break,
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::UserVariable if begins && is_ours(token.of(text)) => {
                let (value, ends) = value(&mut tokens, text);
                found = Some(value);
                // Behind a semicolon another statement begins.
                if ends == Some(Kind::Semicolon) {
                    break;
                }
                begins = ends == Some(Kind::Comma);
                continue;
            }
            _ => {}
        }
        begins = depth == 0 && token.kind == Kind::Comma;
    }
    found
}

/// `@name`, also in quotes.
fn is_ours(variable: &[u8]) -> bool {
    let name = match variable {
        [b'@', quote @ (b'\'' | b'"' | b'`'), name @ .., end] if quote == end => name,
        [b'@', name @ ..] => name,
        _ => variable,
    };
    name.eq_ignore_ascii_case(VARIABLE)
}

/// What stands behind the variable's name, and what ends it.
fn value(
    tokens: &mut impl Iterator<Item = Token>,
    text: &[u8],
) -> (Result<StickyMode, ()>, Option<Kind>) {
    let equals = tokens.next().is_some_and(|token| matches!(token.of(text), b"=" | b":="));
    let value = tokens.next();
    let mode = value.filter(|value| equals && value.kind == Kind::Number).and_then(|value| {
        let digits = std::str::from_utf8(value.of(text)).ok()?;
        StickyMode::from_number(digits.parse().ok()?)
    });
    let mut next = tokens.next();
    let ends = |token: &Token| matches!(token.kind, Kind::Comma | Kind::Semicolon);
    let whole = next.is_none_or(|token| ends(&token));
    while next.is_some_and(|token| !ends(&token)) {
        next = tokens.next();
    }
    (mode.filter(|_| whole).ok_or(()), next.map(|token| token.kind))
}

#[cfg(test)]
mod tests {
    use super::assigned;
    use chain::facts::StickyMode::{Off, Strict, WhileAlive};
    use sql::Dialect;

    #[test]
    fn the_last_plain_number_counts() {
        for (text, expected) in [
            ("SET @towpath_sticky_backend = 1", Some(Ok(WhileAlive))),
            ("set @Towpath_Sticky_Backend:=2;", Some(Ok(Strict))),
            ("/* a */ SET @`towpath_sticky_backend` = /* b */ 0 -- c", Some(Ok(Off))),
            ("SET @'towpath_sticky_backend'=1, @b=2", Some(Ok(WhileAlive))),
            ("SET NAMES utf8mb4, @towpath_sticky_backend=1", Some(Ok(WhileAlive))),
            ("SET @a = IF(1, 2, 3), @towpath_sticky_backend = 2", Some(Ok(Strict))),
            ("SET @towpath_sticky_backend=1, @towpath_sticky_backend=2", Some(Ok(Strict))),
            ("SET @towpath_sticky_backend=1; SELECT 1, @a", Some(Ok(WhileAlive))),
            ("SET @towpath_sticky_backend = 3", Some(Err(()))),
            ("SET @towpath_sticky_backend = '1'", Some(Err(()))),
            ("SET @towpath_sticky_backend = 1 + 1, @a = 1", Some(Err(()))),
            ("SET @towpath_sticky_backend = -1", Some(Err(()))),
            ("SET @towpath_sticky_backend = ?", Some(Err(()))),
            ("SET @towpath_sticky_backend", Some(Err(()))),
            ("SET @a = @towpath_sticky_backend", None),
            ("SET @a = f(1, @towpath_sticky_backend)", None),
            ("SET @towpath_sticky_backends = 1", None),
            ("SET @a = '@towpath_sticky_backend = 1'", None),
            ("SET @a = 1; SET @towpath_sticky_backend = 1", None),
            ("SELECT @towpath_sticky_backend = 1", None),
            ("", None),
        ] {
            assert_eq!(assigned(text.as_bytes(), Dialect::default()), expected, "{text}");
        }
    }
}
