//! From TOML's text to nodes: variables put in, secrets noted.

use super::{
    Mistake,
    node::{Node, Table, Value},
    source::{Source, WHOLE_FILE, is_secret},
};
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Where variables come from.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a whole file. What cannot be parsed is left out of the table.
pub(super) fn read(
    name: &str,
    text: &str,
    variables: Variables<'_>,
) -> (Source, Node, Vec<Mistake>) {
    let (parsed, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { source: Source::new(name, text), variables, refused: Vec::new() };
    let table = reader.table(parsed.get_ref(), false);
    let Reader { mut source, refused, .. } = reader;
    if !errors.is_empty() {
        source.hide_secrets_in_text();
    }
    // What is no TOML at all has an error on every line.
    let unparsed = errors.into_iter().take(100).map(|error| {
        let span = error.span().unwrap_or(WHOLE_FILE);
        Mistake { hides_others: true, ..source.mistake(&span, error.message()) }
    });
    let refused = refused.into_iter().map(|(span, (message, hint))| Mistake {
        hides_others: true,
        ..source.mistake(&span, message).hint(hint)
    });
    let mistakes = unparsed.chain(refused).collect();
    (source, Node::whole(table), mistakes)
}

/// Notes the secrets of a table that was read by somebody else.
pub(super) fn hide_secrets(source: &mut Source, table: &Table) {
    for (key, (_, node)) in table {
        match &node.value {
            _ if is_secret(key) => source.hide(node.span.clone()),
            Value::Table(inner) => hide_secrets(source, inner),
            Value::Array(items) => {
                let tables = items.iter().filter_map(|item| match &item.value {
                    Value::Table(inner) => Some(inner),
                    _ => None,
                });
                tables.for_each(|inner| hide_secrets(source, inner));
            }
            _ => {}
        }
    }
}

struct Reader<'a> {
    source: Source,
    variables: Variables<'a>,
    refused: Vec<(Range<usize>, Refused)>,
}

/// A message and a hint.
type Refused = (String, String);

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, secret: bool) -> Table {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name = ToString::to_string(key.get_ref());
            let hidden = is_secret(&name);
            if hidden && !secret {
                self.source.hide(value.span());
            }
            let node = self.node(value, secret || hidden);
            (name, (key.span(), node))
        };
        table.iter().map(entry).collect()
    }

    fn node(&mut self, value: &Spanned<DeValue<'_>>, secret: bool) -> Node {
        let span = value.span();
        let value = match value.get_ref() {
            DeValue::String(text) => Value::String(self.string(text, &span)),
            DeValue::Integer(number) => Value::Integer(
                i64::from_str_radix(number.as_str(), number.radix()).unwrap_or_else(|_| {
                    let message = "this integer does not fit into 64 bits".to_owned();
                    let hint = format!("TOML's integers go up to {}", i64::MAX);
                    self.refused.push((span.clone(), (message, hint)));
                    0
                }),
            ),
            // The parser has checked the form; what f64 cannot read is not a number.
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Boolean(*flag),
            DeValue::Datetime(time) => Value::Datetime(time.to_string()),
            DeValue::Array(items) => {
                Value::Array(items.iter().map(|item| self.node(item, secret)).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table, secret)),
        };
        Node { span, value }
    }

    fn string(&mut self, text: &str, span: &Range<usize>) -> String {
        if !text.contains("${") {
            return text.to_owned();
        }
        match expand(text, self.variables) {
            Ok(expanded) => {
                self.source.veil(span.clone());
                expanded
            }
            Err(refused) => {
                self.refused.push((span.clone(), refused));
                text.to_owned()
            }
        }
    }
}

/// Replaces each `${NAME}`; `$${` stands for `${` itself.
fn expand(text: &str, variables: Variables<'_>) -> Result<String, Refused> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        let (before, reference) = rest.split_at(at);
        rest = &reference[2..];
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            continue;
        }
        expanded.push_str(before);
        let name = rest.split_once('}').filter(|(name, _)| is_name(name));
        let Some((name, after)) = name else {
            let hint = "write ${NAME} for a variable of the environment, $${ for the characters ${";
            return Err(("${ without the name of a variable and }".to_owned(), hint.to_owned()));
        };
        let Some(value) = variables(name) else {
            let message = format!("the environment has no variable {name}");
            return Err((message, format!("set {name}, or write $${{ for the characters ${{")));
        };
        expanded.push_str(&value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    let first_fits = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first_fits && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
