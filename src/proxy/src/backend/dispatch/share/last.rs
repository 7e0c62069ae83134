//! What a statement may ask about the one before it, kept for when that one's connection is
//! another session's.

use super::{insert_id::InsertId, pins::Doing};
use crate::backend::{ids::Rewrite, seat::Left};
use chain::{
    Command, Error, Result,
    error::code,
    facts::{Executed, Lsn, Statement},
};
use sql::{Count, CountFunction, Dialect, Needs, Verb};
use wire::command::CommandCode;

/// What the session's replies have said.
#[derive(Debug)]
pub(super) struct Values {
    /// What LAST_INSERT_ID() says.
    pub(super) insert_id: InsertId,
    row_count: Option<i64>,
    found_rows: Option<u64>,
    head: Lsn,
}

/// What a command asks about the ones before it.
pub(super) fn needs(command: &Command) -> Needs {
    let runs = !matches!(command.code(), CommandCode::STMT_PREPARE | CommandCode::STMT_CLOSE);
    let statement = command.fact::<Statement>().filter(|_| runs);
    let executed = command.fact::<Executed>().map(|executed| executed.0.needs);
    executed.or(statement.map(|statement| statement.get().needs)).unwrap_or_default()
}

/// Whether a statement that is prepared asks what the one before it has left.
pub(super) fn asks(command: &Command) -> bool {
    let statement = |text: bytes::Bytes| sql::statement(&text, Dialect::default());
    command.sql().is_some_and(|text| statement(text).needs.last_used)
}

impl Default for Values {
    /// What a connection says that has run nothing yet.
    fn default() -> Self {
        let insert_id = InsertId::default();
        Self { insert_id, row_count: Some(0), found_rows: Some(0), head: 0 }
    }
}

impl Values {
    /// Takes in how a reply has ended.
    pub(super) fn settle(&mut self, doing: &Doing, left: &Left) {
        if doing.sets {
            self.row_count = Some(0);
        }
        if doing.works {
            (self.row_count, self.found_rows) = (Some(left.row_count), left.found_rows);
        }
    }

    /// Notes where the session's log ends: what has been set meanwhile has been answered without a
    /// server, and counts.
    pub(super) fn follow(&mut self, head: Lsn) {
        if self.head < head {
            self.row_count = Some(0);
        }
        self.head = head;
    }

    /// Puts what is known in place of what a statement asks, which is given back with what it was
    /// changed into, for the reply. An error where that is not known: better than what another
    /// session's statement has left.
    pub(super) fn put_into(&self, command: &mut Command) -> Result<Option<Rewrite>> {
        let Some(statement) = command.fact::<Statement>() else { return Ok(None) };
        let (found, text) = (statement.get(), statement.text());
        let Some(counts) = sql::counts(text, statement.dialect()) else {
            return match found.verb {
                // There are neither warnings nor errors: they would have held the session.
                Verb::Show | Verb::Select if !names_counts(text) => Ok(None),
                _ => Err(unknown()),
            };
        };
        if counts.is_empty() || command.code() != CommandCode::QUERY {
            return Err(unknown());
        }
        let mut ours = text.to_vec();
        for Count { function, span } in &counts {
            let value = match function {
                CountFunction::RowCount => self.row_count,
                CountFunction::FoundRows => self.found_rows.map(u64::cast_signed),
            };
            put(&mut ours[span.clone()], value.ok_or_else(unknown)?).ok_or_else(unknown)?;
        }
        let places = counts.into_iter().map(|count| count.span).collect();
        let rewrite = Rewrite::of(text.clone(), ours.into(), places);
        command.rewrite_sql(&rewrite.ours);
        Ok(Some(rewrite))
    }
}

pub(super) fn unknown() -> Error {
    let text = "the connection that knew what the last statement has left is another session's by \
                now";
    Error::backend(text).with_code(code::FILTER, *b"HY000")
}

fn names_counts(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    has(b"row_count") || has(b"found_rows")
}

/// Puts an expression with this value in a place, filled up with blanks: the names of columns do not
/// change their length. `None` if there is no room for it.
fn put(place: &mut [u8], value: i64) -> Option<()> {
    // No literal alone: servers name a column after its value then. And the calls have a sign.
    let value = match value {
        ..0 => format!("0-{})", value.unsigned_abs()),
        10_000_000.. => format!("{value}|0)"),
        _ => format!("0+{value})"),
    };
    let at = place.len().checked_sub(value.len()).filter(|at| *at > 0)?;
    place.fill(b' ');
    place[0] = b'(';
    place[at..].copy_from_slice(value.as_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::put;

    #[test]
    fn values_stand_where_the_calls_were() {
        let put = |call: &str, value: i64| {
            let mut text = call.as_bytes().to_vec();
            put(&mut text, value)?;
            String::from_utf8(text).ok()
        };
        assert_eq!(put("ROW_COUNT()", 3).as_deref(), Some("(      0+3)"));
        assert_eq!(put("ROW_COUNT()", -1).as_deref(), Some("(      0-1)"));
        assert_eq!(put("FOUND_ROWS( )", 1_234_567).as_deref(), Some("(  0+1234567)"));
        assert_eq!(put("FOUND_ROWS()", 12_345_678).as_deref(), Some("(12345678|0)"));
        assert_eq!(put("ROW_COUNT()", 123_456_789), None);
    }
}
