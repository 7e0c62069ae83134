//! What a text is, from its first tokens and from all of them.

use crate::{
    Class, Dialect, Needs, Verb,
    cursor::Cursor,
    head::{self, Head},
    lexer::Lexer,
    scan::{Findings, scan},
};
use std::borrow::Cow;

/// A place in a text, in bytes; the end is exclusive.
pub type Span = std::ops::Range<usize>;

/// What a text is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The keyword that decides: behind comments, parentheses, `WITH` and `SET STATEMENT ... FOR`.
    /// Of several statements in one text, the first one's.
    pub verb: Verb,
    /// What the statement does. A text of several statements is a [`Class::Write`].
    pub class: Class,
    /// What the first statement does, also where others follow it.
    pub first: Class,
    /// What it asks of a particular connection; of all statements in the text.
    pub needs: Needs,
    /// Whether a second statement follows a `;`.
    pub multi: bool,
    /// Whether it ends an open transaction without saying so, or may (`SET autocommit = 1` only
    /// does where it was 0). Of several statements, whether the first one does.
    ///
    /// Sources: MySQL manual, "Statements That Cause an Implicit Commit"; MariaDB manual, "SQL
    /// statements Causing an Implicit Commit".
    pub implicit_commit: bool,
    /// Where the name stands that `USE` switches to, without its quotes; `None` if the text goes
    /// on with another statement. [`new_schema`](Self::new_schema) reads it.
    pub schema_change: Option<Span>,
}

/// Says what `text` is. Looks at every byte once, and allocates nothing.
///
/// Texts that no server would accept get an answer too, never one that is less careful than that
/// for what they resemble. What a view, a trigger or a stored function does cannot be seen here: a
/// call of an unknown function makes a write, but a view that calls one looks like a table.
pub fn statement(text: &[u8], dialect: Dialect) -> Statement {
    let mut cursor = Cursor::new(Lexer::new(text, dialect));
    let head = head::read(&mut cursor);
    let found = scan(cursor, dialect, head.mode);
    let first = first(&head, found);
    let class = match first {
        Class::Unknown => Class::Unknown,
        _ if found.multi => Class::Write,
        _ => first,
    };
    let mut needs = found.needs;
    needs.last_used |= head.needs.last_used;
    // EXPLAIN runs nothing, but servers evaluate some functions to plan.
    needs.primary =
        matches!(class, Class::Show | Class::Explain) && (head.needs.primary || found.unsafe_read);
    Statement {
        verb: head.verb,
        class,
        first,
        needs,
        multi: found.multi,
        implicit_commit: head.implicit_commit,
        schema_change: head.schema.filter(|_| !found.multi),
    }
}

impl Statement {
    /// Whether any server with the same data and session settings may answer.
    pub fn any_server(&self) -> bool {
        matches!(self.class, Class::Read | Class::Show | Class::Explain) && self.needs.is_none()
    }

    /// Whether the server closes the connection behind it: `COMMIT RELEASE`, `ROLLBACK RELEASE`.
    /// `completion_type` can have the same effect, which cannot be seen here.
    pub fn releases(&self) -> bool {
        matches!(
            self.class,
            Class::Commit { release: Some(true), .. } | Class::Rollback { release: Some(true), .. }
        )
    }

    /// The schema that `USE` switches to, as bytes in the client's charset. `text` is what the
    /// statement was read from. Allocates only for a name with a quote in it.
    pub fn new_schema<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let span = self.schema_change.clone()?;
        let name = text.get(span.clone())?;
        // In a quoted name the quote stands doubled; without quotes there is none.
        match span.start.checked_sub(1).and_then(|before| text.get(before)) {
            Some(&quote @ (b'`' | b'"')) if name.contains(&quote) => {
                // A lone one is half a character, of a charset that has such.
                let mut after_quote = false;
                let single = name.iter().copied().filter(|&byte| {
                    let second = byte == quote && after_quote;
                    after_quote = byte == quote && !second;
                    !second
                });
                Some(single.collect())
            }
            _ => Some(name.into()),
        }
    }
}

/// Of the first statement, as careful as what follows it asks for.
fn first(head: &Head, found: Findings) -> Class {
    let careful = match head.class {
        Class::Read | Class::SetSession => found.unsafe_read,
        Class::Explain => found.unsafe_read && head.runs,
        _ => false,
    };
    if careful { Class::Write } else { head.class }
}
