//! What a statement takes from its session when it is prepared.
//!
//! MySQL decides much then that MariaDB decides each time: of which type a user variable is, and what
//! some functions make of the session's variables. Tried with MySQL 9.7: `SET @e = 1`, `PREPARE p
//! FROM 'SELECT @e'`, `SET @e = 2.5`, `EXECUTE p` gives 3; and `SELECT 1/3`, `MONTHNAME()`, `WEEK()`
//! and a TIMESTAMP literal with an offset keep to what was set when they were prepared.

use super::{Cell, cell::folded, prepared::is_mariadb};
use crate::Dialect;
use std::borrow::Cow;

/// What every statement takes.
static ALWAYS: [Cell; 5] =
    [Cell::Schema, Cell::CharsetClient, Cell::CollationConnection, Cell::SQL_MODE, Cell::Role];

/// Variables of which MySQL remembers what they were, and what stands in texts that name one.
const REMEMBERED: [(&str, &[&str]); 4] = [
    ("div_precision_increment", &["/", "avg"]),
    ("lc_time_names", &["name", "format", "str_to_date"]),
    ("default_week_format", &["week"]),
    ("time_zone", &["timestamp"]),
];

/// The cells that a statement takes from its session when it is prepared; `text` is what is prepared,
/// perhaps with quotes of a string in it, or `None` where that is not known. Rather too many than too
/// few: what looks like a name in a string counts.
pub fn prepared_with(text: Option<&[u8]>, dialect: Dialect) -> Cow<'static, [Cell]> {
    if is_mariadb(dialect) {
        return Cow::Borrowed(&ALWAYS);
    }
    let mut cells = Vec::new();
    for (name, signs) in REMEMBERED {
        if text.is_none_or(|text| signs.iter().any(|sign| contains(text, sign.as_bytes()))) {
            cells.push(Cell::System(name.into()));
        }
    }
    match text {
        Some(text) => cells.extend(named(text)),
        None => cells.push(Cell::AnyUser),
    }
    if cells.is_empty() { Cow::Borrowed(&ALWAYS) } else { [&ALWAYS[..], &cells].concat().into() }
}

/// The user variables that may be named in a text, wherever a string in it begins or ends.
fn named(text: &[u8]) -> impl Iterator<Item = Cell> {
    memchr::memchr_iter(b'@', text).filter_map(|at| {
        let rest = &text[at + 1..];
        let system = rest.first() == Some(&b'@') || at > 0 && text[at - 1] == b'@';
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
        let end = rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let odd = behind.first().is_some_and(|byte| !byte.is_ascii() || name.is_empty());
        match folded(name) {
            _ if system => None,
            Ok(name) if !odd => Some(Cell::User(name)),
            _ => Some(Cell::AnyUser),
        }
    })
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::{ALWAYS, prepared_with};
    use crate::{Dialect, Server, Vendor};

    fn more(text: Option<&str>, vendor: Vendor) -> String {
        let dialect =
            Dialect { server: Some(Server { vendor, version: 101_100 }), ..Dialect::default() };
        let cells = prepared_with(text.map(str::as_bytes), dialect);
        assert_eq!(cells[..ALWAYS.len()], ALWAYS);
        let cells = cells[ALWAYS.len()..].iter().map(ToString::to_string);
        cells.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn mysql_asks_when_it_prepares() {
        for (text, cells) in [
            ("SELECT 1", ""),
            ("SELECT @e, @@sql_mode, @@session.time_zone", "@e"),
            ("SELECT @E.x,@b", "@e.x @b"),
            ("SELECT @`a b`", "@?"),
            ("SELECT @é", "@?"),
            ("'SELECT @''x'''", "@?"),
            ("SELECT 1/3", "@@div_precision_increment"),
            ("SELECT MonthName(d)", "@@lc_time_names"),
            ("SELECT WEEK(d), @w", "@@default_week_format @w"),
            ("SELECT TIMESTAMP'2020-01-01 00:00:00+00:00'", "@@time_zone"),
        ] {
            assert_eq!(more(Some(text), Vendor::MySql), cells, "{text}");
            assert_eq!(more(Some(text), Vendor::MariaDb), "", "{text}");
        }
        assert!(more(None, Vendor::MySql).ends_with(" @?"));
    }
}
