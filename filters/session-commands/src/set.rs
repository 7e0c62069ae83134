//! Reading a SET: what it sets, and what its outcome depends on.
//!
//! MySQL manual, "SET Syntax for Variable Assignment", "SET NAMES", "SET TRANSACTION", "SET ROLE";
//! MariaDB manual, "SET", "SET TRANSACTION". What is not read fully is [`Class::Verbatim`].

use crate::{
    cell::{self, Cell},
    reading::{Class, Reading},
    variables::{self, Kind as Variable},
    words::Words,
};
use sql::Kind;

/// Reads what stands behind SET.
pub(crate) fn read(words: &mut Words<'_>) -> Reading {
    let mut reading = Reading::of(Class::Replayed);
    match words.word_ahead().as_str() {
        "password" => return Reading::of(Class::Other),
        _ if words.is_assignment() => {}
        // Others may stand behind these, as in `SET NAMES latin1, time_zone = '+00:00'`.
        "names" | "character" | "charset" | "role" if words.comma_follows() => {
            return reading.verbatim();
        }
        "names" => return names(words, reading),
        "character" | "charset" => {
            reading.writes([cell::CLIENT, cell::RESULTS, cell::CONNECTION]);
            reading.reads([cell::SCHEMA]);
            return reading;
        }
        "role" => {
            reading.writes([cell::ROLE]);
            return reading;
        }
        "resource" => {
            reading.writes([cell::RESOURCE_GROUP]);
            return reading;
        }
        // Whether this is for a statement that lasts is seen by whoever asks.
        "statement" => return reading.verbatim(),
        "default" if words.second_word() == "role" => return Reading::of(Class::Other),
        "transaction" => return Reading::of(Class::OneShot),
        "session" | "local" if words.second_word() == "transaction" => {
            return transaction(words, reading);
        }
        "global" if words.second_word() == "transaction" => return Reading::of(Class::Other),
        _ => {}
    }
    assignments(words, reading)
}

/// `SET NAMES charset [COLLATE collation]`.
fn names(words: &mut Words<'_>, mut reading: Reading) -> Reading {
    let rest = words.rest();
    // DEFAULT, a word or a string: nothing in it can be read in two ways.
    reading.text_reads(rest, false);
    reading.writes([cell::CLIENT, cell::RESULTS, cell::CONNECTION]);
    reading
}

/// `SET SESSION TRANSACTION characteristic, ...`.
fn transaction(words: &mut Words<'_>, mut reading: Reading) -> Reading {
    for word in words.all_words() {
        match word.as_str() {
            "isolation" => reading.writes([cell::ISOLATION]),
            "read" if reading.writes.iter().all(|cell| &**cell != cell::ISOLATION) => {
                reading.writes([cell::ACCESS]);
            }
            "only" | "write" => reading.writes([cell::ACCESS]),
            _ => {}
        }
    }
    reading
}

/// What is assigned to.
enum Target {
    /// Of the session; `true` if without SESSION in `@@name` (one-shot for two of them).
    Session(String, bool),
    Global,
    User(Cell),
}

fn assignments(words: &mut Words<'_>, mut reading: Reading) -> Reading {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let (mut dropped, mut scope) = (false, Scope::Session);
    loop {
        let Some(target) = target(words, &mut scope) else { return reading.verbatim() };
        let Some(name) = words.assigned(target_prefix(&target)) else { return reading.verbatim() };
        let value = value(words, &mut reading);
        match (target, value) {
            (Target::Global, _) => {
                dropped = true;
                if !words.accept_comma() {
                    break;
                }
                continue;
            }
            (_, Value::Unreadable) => return reading.verbatim(),
            (Target::User(cell), value) => {
                if matches!(value, Value::Once) {
                    reading.once(Some(&cell));
                }
                reading.writes([&*cell]);
            }
            (Target::Session(variable, bare), value) => {
                session(&mut reading, &variable, bare, &value);
            }
        }
        kept.push(words.since(name));
        if !words.accept_comma() {
            break;
        }
    }
    if !words.at_end() {
        return reading.verbatim();
    }
    if dropped {
        if kept.is_empty() {
            return Reading::of(Class::Other);
        }
        reading.text = Some([b"SET ".as_slice(), &kept.join(&b", "[..])].concat());
    }
    reading
}

/// What a name without a scope of its own belongs to: a scope word holds for the names behind it
/// too (measured on both vendors), until the next one; `@@name` and `@name` have nothing to do with
/// it.
#[derive(Clone, Copy)]
enum Scope {
    Session,
    Global,
}

/// Each kept part says its scope itself.
fn target_prefix(target: &Target) -> &'static str {
    match target {
        Target::Session(_, false) => "@@SESSION.",
        Target::Session(_, true) => "@@",
        Target::User(_) | Target::Global => "",
    }
}

fn target(words: &mut Words<'_>, scope: &mut Scope) -> Option<Target> {
    let token = words.next()?;
    let text = words.of(token);
    match token.kind {
        Kind::UserVariable => Some(Target::User(cell::user(text))),
        Kind::SystemVariable => {
            let name = String::from_utf8_lossy(&text[2..]).to_lowercase().replace('`', "");
            Some(match name.split_once('.') {
                Some(("session" | "local", name)) => Target::Session(name.into(), false),
                Some(("global" | "persist" | "persist_only", _)) => Target::Global,
                Some(_) => return None,
                None => Target::Session(name, true),
            })
        }
        Kind::Word | Kind::QuotedName => {
            let mut name = cell::plain(text).to_lowercase();
            if token.kind == Kind::Word && !words.is_equals_ahead() {
                *scope = match name.as_str() {
                    "global" | "persist" | "persist_only" => Scope::Global,
                    "session" | "local" => Scope::Session,
                    _ => return None,
                };
                let token = words.next()?;
                name = cell::plain(words.of(token)).to_lowercase();
            }
            Some(match scope {
                Scope::Session => Target::Session(name, false),
                Scope::Global => Target::Global,
            })
        }
        _ => None,
    }
}

fn session(reading: &mut Reading, variable: &str, bare: bool, value: &Value) {
    let cell = cell::system(variable);
    match variables::kind(variable) {
        Variable::OneShotBare if bare => reading.raise(Class::OneShot),
        Variable::OneShot => reading.raise(Class::OneShot),
        Variable::Local => reading.raise(Class::Local),
        Variable::LastInsertId => reading.raise(Class::LastInsertId),
        Variable::Unknown => *reading = std::mem::take(reading).verbatim(),
        Variable::Replayed | Variable::OneShotBare => {}
    }
    if matches!(value, Value::Once) {
        reading.once(None);
    }
    // What follows is read in another charset; a switch that is not named keeps its value.
    if &*cell == cell::CLIENT || variable == "optimizer_switch" {
        reading.reads([&*cell]);
    }
    reading.writes([&*cell]);
}

/// What stands behind the sign of an assignment.
enum Value {
    /// The same wherever it is evaluated, given what it reads.
    Same,
    /// It has to be evaluated once.
    Once,
    Unreadable,
}

/// Functions whose result depends on nothing but their arguments and what is read of the session.
const SAME: [&str; 14] = [
    "concat",
    "concat_ws",
    "replace",
    "lower",
    "upper",
    "trim",
    "if",
    "ifnull",
    "coalesce",
    "nullif",
    "length",
    "char_length",
    "repeat",
    "substring",
];

fn value(words: &mut Words<'_>, reading: &mut Reading) -> Value {
    let (mut depth, mut value, mut any) = (0_usize, Value::Same, false);
    let start = words.place();
    while let Some(token) = words.ahead() {
        let text = words.of(token);
        match token.kind {
            Kind::Comma if depth == 0 => break,
            Kind::Open => depth += 1,
            Kind::Close if depth == 0 => return Value::Unreadable,
            Kind::Close => depth -= 1,
            Kind::Comma | Kind::Number | Kind::String | Kind::Introducer => {}
            // A value that is made on the way goes to a variable of its own: whatever it is, only
            // this connection has it.
            Kind::Operator if text == b":=" => {
                reading.raise(Class::Local);
                return Value::Unreadable;
            }
            Kind::Operator => {}
            Kind::UserVariable => reading.reads([&*cell::user(text)]),
            Kind::SystemVariable => match variables::read(text) {
                Some(cell) => reading.reads([&*cell]),
                None => value = Value::Once,
            },
            Kind::Word => {
                let word = String::from_utf8_lossy(text).to_lowercase();
                words.next();
                let call = words.ahead().is_some_and(|next| next.kind == Kind::Open);
                let once = match call {
                    true => !SAME.contains(&word.as_str()),
                    false => depth > 0 && ["select", "from"].contains(&word.as_str()),
                };
                // Behind a parenthesis or as part of a term a word may be a function without one
                // (CURRENT_TIMESTAMP, CURRENT_USER).
                let once = once
                    || word.starts_with("current_")
                    || word.starts_with("utc_")
                    || ["localtime", "localtimestamp", "session_user"].contains(&word.as_str());
                if once {
                    value = Value::Once;
                }
                any = true;
                continue;
            }
            _ => return Value::Unreadable,
        }
        any = true;
        words.next();
    }
    let text = words.between(start);
    reading.text_reads(&text, true);
    if any && depth == 0 { value } else { Value::Unreadable }
}
