//! ProxySQL's configuration file: its rules, as ours are read.

mod lexer;
mod libconfig;

use chain::settings::{Mistakes, Node, Settings, Table, Value};
use libconfig::Refused;

/// The list of rules.
pub(crate) const RULES: &str = "mysql_query_rules";

/// The list of fast routes.
pub(crate) const FAST_ROUTING: &str = "mysql_query_rules_fast_routing";

/// Columns that are true or false here and 1 or 0 in ProxySQL.
const BOOLEANS: [&str; 6] =
    ["active", "negate_match_pattern", "cache_empty_result", "sticky_conn", "log", "apply"];

/// Columns with which ProxySQL does nothing.
const UNUSED: [&str; 2] = ["reconnect", "cache_timeout"];

/// The two lists of the file `path`. What else is in the file is none of ours, but must be in the
/// right form.
pub(crate) fn read(path: &str, text: &str, mistakes: &mut Mistakes) -> Option<Settings> {
    let mut table = match libconfig::read(text) {
        Ok(table) => table,
        Err(Refused { at, message, hint }) => {
            let node = Node { span: at..at + 1, value: Value::Boolean(false) };
            let place = Table::from([("here".to_owned(), (at..at, node))]);
            let place = Settings::made(path, text, place, mistakes);
            let mut mistake = place.mistake_at("here", message);
            // What is not understood may hold passwords.
            mistake.source_line.clear();
            mistake.indent.clear();
            mistakes.push(if hint.is_empty() { mistake } else { mistake.hint(hint) });
            return None;
        }
    };
    for key in [RULES, FAST_ROUTING] {
        if let Some((_, list)) = table.get_mut(key) {
            adapt(list);
        }
    }
    let has_rules = table.contains_key(RULES);
    let file = Settings::made(path, text, table, mistakes);
    if !has_rules {
        let mistake = file.mistake(format!("there is no {RULES} in it"));
        let hint = format!("{RULES} = ( {{ rule_id = 1, ... }} )");
        mistakes.push(mistake.hint(hint));
    }
    has_rules.then_some(file)
}

fn adapt(list: &mut Node) {
    let Value::Array(rows) = &mut list.value else { return };
    let tables = rows.iter_mut().filter_map(|row| match &mut row.value {
        Value::Table(table) => Some(table),
        _ => None,
    });
    for table in tables {
        table.retain(|key, _| !UNUSED.contains(&key.as_str()));
        for (key, (_, node)) in table {
            if let (true, Value::Integer(number @ (0 | 1))) =
                (BOOLEANS.contains(&key.as_str()), &node.value)
            {
                node.value = Value::Boolean(*number == 1);
            }
        }
    }
}
