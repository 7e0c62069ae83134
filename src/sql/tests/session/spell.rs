//! Readings as the table writes them.

use crate::texts;
use sql::{
    Dialect,
    session::{Cell, Effect, Held, Hold, Step, Table, ValueKind},
};
use std::collections::BTreeSet;

/// The dialects of a heading: without one, both vendors', which must agree.
pub(crate) fn dialects(settings: &str) -> Vec<Dialect> {
    match settings {
        "" => vec![texts::dialect("mysql 9.7.4"), texts::dialect("mariadb 10.11.19")],
        "mysql" => vec![texts::dialect("mysql 9.7.4")],
        "mariadb" => vec![texts::dialect("mariadb 10.11.19")],
        "unknown" => vec![Dialect::default()],
        other => vec![texts::dialect(other)],
    }
}

/// A reading: `nothing`, `unreadable` with its reason, or for each statement its class, the values
/// of a SET, what it writes, reads, and holds.
pub(crate) fn spelled(reading: &Effect) -> String {
    match reading {
        Effect::Nothing => "nothing".to_owned(),
        Effect::Unreadable(reason) => format!("unreadable {reason:?}").to_lowercase(),
        Effect::Steps(steps) => steps.iter().map(step).collect::<Vec<_>>().join("; "),
    }
}

fn step(step: &Step) -> String {
    let mut words = vec![step.class.as_str().to_owned()];
    let values: Vec<_> =
        step.assignments().iter().map(|part| value(part.value.kind).to_owned()).collect();
    let holds: Vec<_> = step.holds.iter().map(hold).collect();
    for (name, list) in [
        ("values", values),
        ("writes", cells(&step.writes)),
        ("reads", cells(&step.reads)),
        ("holds", holds),
    ] {
        if !list.is_empty() {
            words.push(format!("{name} {}", list.join(", ")));
        }
    }
    if step.is_mixed() {
        words.push("mixed".to_owned());
    }
    words.join(" | ")
}

fn cells(cells: &[Cell]) -> Vec<String> {
    cells.iter().map(Cell::to_string).collect::<BTreeSet<_>>().into_iter().collect()
}

fn value(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Default => "default",
        ValueKind::Literal => "literal",
        ValueKind::Constant => "constant",
        ValueKind::Derived => "derived",
        ValueKind::Placeholder => "placeholder",
        ValueKind::Volatile => "volatile",
        ValueKind::Subquery => "subquery",
    }
}

fn hold(hold: &Hold) -> String {
    match hold {
        Hold::Takes(held) => format!("+{}", of(held)),
        Hold::Releases(held) => format!("-{}", of(held)),
        Hold::Renames(from, to) => format!("{} > {}", table(from), table(to)),
    }
}

fn of(held: &Held) -> String {
    match held {
        Held::TemporaryTable(name) => format!("table {}", table(name)),
        Held::TableLocks => "table locks".to_owned(),
        Held::BackupLock => "backup lock".to_owned(),
        Held::UserLock(name) => format!("user lock {}", String::from_utf8_lossy(name)),
        Held::UserLocks => "user locks".to_owned(),
        Held::Handler(name) => format!("handler {}", String::from_utf8_lossy(name)),
        Held::Xa => "xa".to_owned(),
        other => format!("{other:?}"),
    }
}

fn table(table: &Table) -> String {
    let name = String::from_utf8_lossy(&table.name);
    match &table.schema {
        Some(schema) => format!("{}.{name}", String::from_utf8_lossy(schema)),
        None => name.into_owned(),
    }
}
