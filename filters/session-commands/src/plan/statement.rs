//! What a text does to the session.

use super::{Known, Plan, variables::Part};
use crate::{
    log::{Entry, Nullable},
    ties::{AGAIN, Cause, Change},
};
use bytes::Bytes;
use sql::{
    Dialect, Verb,
    session::{
        Action, Assignment, Cell, Class, Effect, Null, Source, Step, Target, ValueKind, Variable,
        session_command, user_variables,
    },
};

impl Plan {
    /// Adds what a text does, as COM_QUERY or as a prepared statement that is executed.
    pub(crate) fn text(
        &mut self,
        found: &sql::Statement,
        text: &[u8],
        dialect: Dialect,
        known: &Known<'_>,
    ) {
        self.several = found.multi;
        if found.needs.user_variables {
            let names = user_variables(text, dialect);
            self.names_local |= names.iter().any(|cell| self.is_local(cell, known));
        }
        // The server closes the connection, and that is the session's end: not one to be replaced.
        if found.verb == Verb::Kill || found.releases() {
            self.ties.push(Change::tie(Cause::Ending));
        }
        match session_command(text, dialect) {
            Effect::Nothing => {}
            Effect::Unreadable(_) => self.unreadable(found, text),
            Effect::Steps(steps) => self.steps(&steps, text, dialect, known),
        }
    }

    /// What is surely a session command and has no value that a server would have to find is
    /// executed everywhere as it came. Anything else may have done anything here.
    fn unreadable(&mut self, found: &sql::Statement, text: &[u8]) {
        let sets = matches!(
            found.class,
            sql::Class::SetSession | sql::Class::Use | sql::Class::Prepare | sql::Class::Deallocate
        );
        let evaluates = text.iter().any(|byte| matches!(byte, b'(' | b'?' | b'@'));
        if sets && !evaluates && !found.multi {
            let anything = || vec![Cell::Anything];
            let text = Bytes::copy_from_slice(text);
            let mut entry = Entry::text(text, Class::Unknown, anything(), anything());
            if found.class != sql::Class::SetSession && found.class != sql::Class::Use {
                entry.expected = chain::facts::Expected::Anything;
            }
            self.entries.push(entry);
        } else {
            self.keep_here(&Cell::Anything, Cause::Unknown);
        }
    }

    fn steps(&mut self, steps: &[Step], text: &[u8], dialect: Dialect, known: &Known<'_>) {
        let mut schema = known.schema.map(|name| name.to_vec());
        for step in steps {
            let part = &text[step.span.clone()];
            let alone = match steps.len() {
                1 => Some(text),
                _ => Some(part).filter(|part| !has_comment(part)),
            };
            let one = One { step, text, alone, known };
            self.ties.extend(step.holds.iter().map(|hold| Change::of(hold, schema.as_deref())));
            self.sets_last_insert_id |= step.writes.contains(&Cell::LAST_INSERT_ID);
            match &step.action {
                Action::Set(_) => self.set(&one),
                Action::Execute { .. } => self.execute(&one, dialect),
                Action::Prepare { name, source } => {
                    self.prepare(step, &text[name.clone()], source, text);
                    self.replayed(&one);
                }
                Action::Deallocate { .. } => {
                    self.texts.extend(step.writes.iter().map(|cell| (cell.clone(), None)));
                    self.replayed(&one);
                }
                Action::Use { .. } => {
                    let found = sql::statement(part, dialect);
                    schema = found.new_schema(part).map(std::borrow::Cow::into_owned);
                    self.replayed(&one);
                }
                Action::Work => self.work(step),
            }
        }
    }

    /// What no session command does to the session on the side.
    fn work(&mut self, step: &Step) {
        for cell in &step.writes {
            match cell {
                Cell::User(_) | Cell::Anything => {
                    self.local.push(cell.clone());
                    self.unlogged.push(cell.clone());
                }
                // The reply says what became of the schema, and it is known which id was set.
                _ => {}
            }
        }
    }

    /// A statement that every connection can execute by itself, unless it needs what only this one
    /// has.
    fn replayed(&mut self, one: &One<'_>) {
        let step = one.step;
        let local = step.reads.iter().any(|cell| self.is_local(cell, one.known));
        self.names_local |= local;
        let Some(text) = one.alone.filter(|_| !local && step.class.is_replayed()) else {
            return step.writes.iter().for_each(|cell| self.keep_here(cell, Cause::Setting));
        };
        let (reads, writes) = (step.reads.clone(), step.writes.clone());
        let text = Bytes::copy_from_slice(text);
        self.entries.push(Entry::text(text, step.class, reads, writes));
    }

    /// A SET: what other connections can be given goes to the log, the rest stays here.
    fn set(&mut self, one: &One<'_>) {
        let &One { step, text, alone, known } = one;
        if self.next_transaction(one) {
            return;
        }
        let parts = step.assignments().iter().filter(|part| part.class != Class::NotSession);
        let parts: Vec<_> = parts.map(|part| Part::of(part, text, known.variables)).collect();
        let mut everywhere = Vec::new();
        for part in &parts {
            let names = part.reads.iter().any(|cell| known.is_local(cell));
            self.names_local |= names;
            // What an earlier part has left here is copied here, and NULL is of the type of what was
            // there.
            let local = |cell: &Cell| self.is_local(cell, known);
            let typed_here = self.may_be_null(part, known) && part.writes.iter().any(local);
            if part.class.is_replayed() && !part.reads.iter().any(local) && !typed_here {
                everywhere.push(part);
            } else {
                self.stays(part);
            }
        }
        if everywhere.is_empty() {
            return;
        }
        let reads = everywhere.iter().flat_map(|part| part.reads.iter().cloned()).collect();
        let writes: Vec<_> =
            everywhere.iter().flat_map(|part| part.writes.iter().cloned()).collect();
        let own = if everywhere.len() == step.assignments().len() {
            alone.map(Bytes::copy_from_slice)
        } else {
            self.cut = true;
            let kept = |part: &Assignment| {
                everywhere.iter().any(|kept| std::ptr::eq(kept.assignment, part))
            };
            let own = Some(step).filter(|step| !has_comment(&text[step.span.clone()]));
            own.and_then(|step| step.text_of(text, kept)).map(Bytes::from)
        };
        let class = everywhere.iter().map(|part| part.class).max().unwrap_or_default();
        let null = everywhere.iter().filter(|part| self.may_be_null(part, known));
        let nulls = null.flat_map(|part| {
            let surely = part.null == Null::Always;
            part.writes.iter().map(move |cell| Nullable { cell: cell.clone(), surely })
        });
        let nulls = nulls.collect();
        match own {
            Some(own) => {
                self.entries.push(Entry { nulls, ..Entry::text(own, class, reads, writes) });
            }
            None => writes.iter().for_each(|cell| self.keep_here(cell, Cause::Setting)),
        }
    }

    /// A SET of the next transaction and nothing else: it is in the log as long as that is to come.
    fn next_transaction(&mut self, one: &One<'_>) -> bool {
        let [part] = one.step.assignments() else { return false };
        let next = part.writes == [Cell::NextTransaction] && part.value.kind == ValueKind::Literal;
        let Some(text) = one.alone.filter(|_| next && !self.several) else { return false };
        let cells = || vec![Cell::NextTransaction];
        let text = Bytes::copy_from_slice(text);
        self.entries.push(Entry::text(text, Class::OneShot, cells(), cells()));
        self.ties.push(Change::Tie(Cause::OneShot, AGAIN.into()));
        true
    }

    /// Whether a part of a SET may make a user variable NULL.
    fn may_be_null(&self, part: &Part<'_>, known: &Known<'_>) -> bool {
        let is_set = |cell: &Cell| {
            let own = self.entries.iter().rev().find(|entry| entry.writes.contains(cell));
            own.map_or_else(|| (known.is_set)(cell), |entry| entry.nulls.is_empty())
        };
        match part.null {
            Null::Never => false,
            Null::AsRead => {
                let mut users = part.reads.iter().filter(|cell| matches!(cell, Cell::User(_)));
                !users.all(is_set)
            }
            Null::Perhaps | Null::Always => true,
        }
    }

    /// A part of a SET whose outcome only this connection has.
    fn stays(&mut self, part: &Part<'_>) {
        let cause = match &part.assignment.target {
            _ if part.class < Class::OneShot => Cause::Setting,
            Target::System { variable: Variable::LastInsertId, .. } => {
                self.sets_last_insert_id = true;
                return;
            }
            Target::System { variable: Variable::Connection, .. } => Cause::Setting,
            // The next statement or transaction uses it up.
            _ => return self.ties.push(Change::tie(Cause::OneShot)),
        };
        part.writes.iter().for_each(|cell| self.keep_here(cell, cause));
    }

    fn prepare(&mut self, step: &Step, name: &[u8], source: &Source, text: &[u8]) {
        let Some(cell) = step.writes.first() else { return };
        let literal = match source {
            Source::Literal(span) => literal(&text[span.clone()]),
            Source::Variable(_) | Source::Expression(_) => None,
        };
        self.texts.push((cell.clone(), literal.map(Bytes::copy_from_slice)));
        self.fragile.push((cell.clone(), [b"DEALLOCATE PREPARE ", name].concat().into()));
    }

    /// `EXECUTE name [USING ...]`: does what was prepared.
    fn execute(&mut self, one: &One<'_>, dialect: Dialect) {
        let Some(cell @ Cell::Prepared(_)) = one.step.reads.first() else { return };
        self.names_local |= self.is_local(cell, one.known);
        let own = self.texts.iter().rev().find(|(known, _)| known == cell).map(|(_, text)| text);
        let Some(prepared) = own.or_else(|| one.known.texts.get(cell)) else { return };
        let Some(prepared) = prepared.clone() else {
            return self.keep_here(&Cell::Anything, Cause::Unknown);
        };
        let mut inner = Self::default();
        inner.text(&sql::statement(&prepared, dialect), &prepared, dialect, one.known);
        match one.alone {
            // Of a part nobody knows how the text was read when it was prepared.
            Some(text) if !inner.cut => {
                for entry in &mut inner.entries {
                    entry.payload = Bytes::copy_from_slice(text);
                    entry.reads.to_mut().push(cell.clone());
                }
            }
            _ => {
                for entry in std::mem::take(&mut inner.entries) {
                    let writes = entry.writes.iter();
                    writes.for_each(|cell| inner.keep_here(cell, Cause::Setting));
                }
            }
        }
        self.merge(inner);
    }
}

/// One statement of a text.
struct One<'a> {
    step: &'a Step,
    /// The whole text.
    text: &'a [u8],
    /// What to log of it: the text as it came, or its part of it. `None` if that cannot be cut out.
    alone: Option<&'a [u8]>,
    known: &'a Known<'a>,
}

/// What is in a string, if it can be read without knowing how it is quoted.
fn literal(string: &[u8]) -> Option<&[u8]> {
    let [quote, inner @ .., _] = string else { return None };
    let plain = !inner.contains(quote) && !inner.contains(&b'\\');
    plain.then_some(inner)
}

/// Whether there may be a comment in it, or an end of one: what is code in a comment for one server
/// is none for another.
fn has_comment(text: &[u8]) -> bool {
    text.windows(2).any(|window| matches!(window, b"/*" | b"*/"))
}
