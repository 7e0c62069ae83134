//! What a statement takes from its session when it is prepared.
//!
//! MySQL decides much then that MariaDB decides each time: of which type a user variable is, and what
//! some functions make of the session's variables. Tried with MySQL 9.7: `SET @e = 1`, `PREPARE p
//! FROM 'SELECT @e'`, `SET @e = 2.5`, `EXECUTE p` gives 3; and `SELECT 1/3`, `MONTHNAME()`, `WEEK()`
//! and a TIMESTAMP literal with an offset keep to what was set when they were prepared.

use super::{Cell, cell::folded, prepared::is_mariadb};
use crate::Dialect;
use std::{borrow::Cow, sync::LazyLock};

/// What every statement takes.
static ALWAYS: [Cell; 5] =
    [Cell::Schema, Cell::CharsetClient, Cell::CollationConnection, Cell::SQL_MODE, Cell::Role];

/// Variables of which MySQL remembers what they were.
const REMEMBERED: [&str; 4] =
    ["div_precision_increment", "lc_time_names", "default_week_format", "time_zone"];

/// What stands in texts that depend on one of them, and on which. No two begin alike.
const SIGNS: [(&str, usize); 7] = [
    ("/", 0),
    ("avg", 0),
    ("name", 1),
    ("format", 1),
    ("str_to_date", 1),
    ("week", 2),
    ("timestamp", 3),
];

/// The cells that a statement takes from its session when it is prepared; `text` is what is prepared,
/// perhaps with quotes of a string in it, or `None` where that is not known. Rather too many than too
/// few: what looks like a name in a string counts.
pub fn prepared_with(text: Option<&[u8]>, dialect: Dialect) -> Cow<'static, [Cell]> {
    if is_mariadb(dialect) {
        return Cow::Borrowed(&ALWAYS);
    }
    let known = &SETS[text.map_or(SETS.len() - 1, remembered)][..];
    let users: Vec<_> = match text {
        Some(text) => named(text).collect(),
        None => vec![Cell::AnyUser],
    };
    // Sessions keep this for each of their statements: most share what is there anyway.
    if users.is_empty() { Cow::Borrowed(known) } else { [known, &users].concat().into() }
}

/// What is always taken, with each choice of what is remembered.
static SETS: LazyLock<[Vec<Cell>; 1 << REMEMBERED.len()]> = LazyLock::new(|| {
    std::array::from_fn(|which| {
        let chosen = REMEMBERED.iter().enumerate().filter(|(at, _)| which >> at & 1 == 1);
        let chosen = chosen.map(|(_, name)| Cell::System((*name).into()));
        ALWAYS.iter().cloned().chain(chosen).collect()
    })
});

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

/// Which of [`REMEMBERED`] a text depends on: a bit for each.
fn remembered(text: &[u8]) -> usize {
    text.iter().enumerate().fold(0, |which, (at, byte)| {
        let begins = |(sign, _): &&(&str, usize)| sign.as_bytes()[0] == byte.to_ascii_lowercase();
        let Some((sign, of)) = SIGNS.iter().find(begins) else { return which };
        let word = text[at..].get(..sign.len());
        let has = word.is_some_and(|word| word.eq_ignore_ascii_case(sign.as_bytes()));
        which | usize::from(has) << of
    })
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
            ("SELECT DATE_FORMAT(d, '%W'), AVG(a)", "@@div_precision_increment @@lc_time_names"),
            ("SELECT TIMESTAMP'2020-01-01 00:00:00+00:00'", "@@time_zone"),
        ] {
            assert_eq!(more(Some(text), Vendor::MySql), cells, "{text}");
            assert_eq!(more(Some(text), Vendor::MariaDb), "", "{text}");
        }
        assert!(more(None, Vendor::MySql).ends_with(" @?"));
    }
}
