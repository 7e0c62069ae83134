//! Walks a document with spans along a JSON Schema and finds all that does not fit.
//!
//! Knows the keywords that `schemars` writes for serde's types (JSON Schema draft 2020-12), not
//! all there are. A table with no word about further keys has none: unknown keys are mistakes.

use super::{
    Mistake,
    node::{Node, Table, Value},
    source::Source,
};
use regex::Regex;
use serde_json::Value as Json;
use std::{collections::HashMap, ops::Range};

/// A schema, and the patterns in it once they are compiled.
pub(super) struct Checker {
    root: Json,
    patterns: HashMap<String, Option<Regex>>,
}

impl Checker {
    pub(super) fn new(root: Json) -> Self {
        Self { root, patterns: HashMap::new() }
    }

    /// All that is wrong with `node`.
    pub(super) fn check(&mut self, source: &Source, node: &Node) -> Vec<Mistake> {
        let Self { root, patterns } = self;
        let mut walk = Walk { root, patterns, source, found: Vec::new() };
        walk.value(node, root);
        walk.found
    }
}

struct Walk<'a> {
    root: &'a Json,
    patterns: &'a mut HashMap<String, Option<Regex>>,
    source: &'a Source,
    found: Vec<Mistake>,
}

impl<'a> Walk<'a> {
    fn value(&mut self, node: &Node, schema: &'a Json) {
        let schema = self.resolve(schema);
        if is_fixed(schema) {
            return self.one_of(node, &words(schema).collect::<Vec<_>>());
        }
        if is_union(schema) {
            return self.union(node, schema);
        }
        if !has_kind(&node.value, schema) {
            let message = format!("expected {}, found {}", expected(schema), node.value.kind());
            return self.note(node, message, schema);
        }
        match &node.value {
            Value::String(text) => self.string(node, text, schema),
            Value::Integer(number) => self.in_range(node, *number as f64, schema),
            Value::Float(number) => self.in_range(node, *number, schema),
            Value::Array(items) => {
                let least = schema["minItems"].as_u64().filter(|least| *least > items.len() as u64);
                if let Some(least) = least {
                    let message = format!("expected {least} or more here, found {}", items.len());
                    self.note(node, message, schema);
                }
                items.iter().for_each(|item| self.value(item, &schema["items"]));
            }
            Value::Table(table) => self.table(node, table, schema),
            Value::Boolean(_) | Value::Datetime(_) => {}
        }
    }

    fn table(&mut self, node: &Node, table: &Table, schema: &'a Json) {
        let open = !schema.is_object();
        // A required key that was only misspelt is not missing as well.
        let mut misspelt = Vec::new();
        for (key, (place, value)) in table {
            let known = &schema["properties"][key];
            let others = &schema["additionalProperties"];
            match (known.is_null(), others) {
                (false, _) => self.value(value, known),
                (true, Json::Null | Json::Bool(false)) if !open => {
                    let names = schema["properties"].as_object().into_iter().flatten();
                    let names: Vec<_> = names.map(|(name, _)| name.as_str()).collect();
                    misspelt.extend(nearest(key, &names));
                    self.found.push(unknown_key(self.source, key, place, names));
                }
                (true, others) => self.value(value, others),
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        for key in required.filter_map(Json::as_str) {
            if !table.contains_key(key) && !misspelt.contains(&key) {
                let about = self.resolve(&schema["properties"][key]);
                self.note(node, format!("missing key `{key}`"), about);
            }
        }
    }

    /// One of several: fits when any fits, else the nearest one tells what is wrong.
    fn union(&mut self, node: &Node, schema: &'a Json) {
        let options = self.options(schema);
        if options.iter().all(|option| is_fixed(option) || is_null(option)) {
            let words: Vec<_> = options.into_iter().flat_map(words).collect();
            return self.one_of(node, &words);
        }
        let before = std::mem::take(&mut self.found);
        let tries = options.iter().filter(|option| has_kind(&node.value, option)).map(|option| {
            self.value(node, option);
            std::mem::take(&mut self.found)
        });
        let nearest = tries.min_by_key(Vec::len);
        self.found = before;
        match nearest {
            Some(nearest) => self.found.extend(nearest),
            None => {
                let kinds = options.into_iter().filter(|option| !is_null(option)).map(expected);
                let kinds = kinds.collect::<Vec<_>>().join(" or ");
                let message = format!("expected {kinds}, found {}", node.value.kind());
                self.note(node, message, &Json::Null);
            }
        }
    }

    /// A value of a fixed set of strings. Sets of other values are left to serde.
    fn one_of(&mut self, node: &Node, words: &[&str]) {
        let (given, message) = match &node.value {
            _ if words.is_empty() => return,
            Value::String(text) if words.contains(&text.as_str()) => return,
            Value::String(text) => (
                text.as_str(),
                format!("{} is not known here", self.source.quote(text, &node.span)),
            ),
            other => ("", format!("expected a string, found {}", other.kind())),
        };
        let mistake = self.source.mistake(&node.span, message);
        self.found.push(suggest(mistake, given, words.iter().copied(), "one of"));
    }

    fn string(&mut self, node: &Node, text: &str, schema: &Json) {
        let fits = schema["pattern"].as_str().is_none_or(|pattern| self.matches(pattern, text));
        let length = text.chars().count() as u64;
        if schema["minLength"].as_u64().is_some_and(|least| length < least) {
            self.note(node, "this must not be empty".to_owned(), schema);
        } else if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
            self.note(node, format!("this is too long: at most {most} characters"), schema);
        } else if !fits {
            let quoted = self.source.quote(text, &node.span);
            self.note(node, format!("{quoted} is not {}", expected(schema)), schema);
        }
    }

    fn in_range(&mut self, node: &Node, number: f64, schema: &Json) {
        let (low, high) = match schema["format"].as_str() {
            Some("uint32") => (None, Some(f64::from(u32::MAX))),
            Some("int32") => (Some(f64::from(i32::MIN)), Some(f64::from(i32::MAX))),
            _ => (None, None),
        };
        let least = schema["minimum"].as_f64().or(low).filter(|least| number < *least);
        let most = schema["maximum"].as_f64().or(high).filter(|most| number > *most);
        let why = match (least, most) {
            (Some(least), _) => format!("too small: at least {least}"),
            (_, Some(most)) => format!("too large: at most {most}"),
            _ => return,
        };
        let veiled = self.source.is_veiled(&node.span);
        let shown = if veiled { "this value".to_owned() } else { number.to_string() };
        self.note(node, format!("{shown} is {why}"), schema);
    }

    /// Notes a mistake, with the schema's examples as its hint.
    fn note(&mut self, node: &Node, message: String, schema: &Json) {
        let mistake = self.source.mistake(&node.span, message);
        let examples = schema["examples"].as_array().into_iter().flatten();
        let examples: Vec<_> = examples.map(Json::to_string).collect();
        self.found.push(match examples.is_empty() {
            true => mistake,
            false => mistake.hint(format!("for example {}", examples.join(" or "))),
        });
    }

    /// A pattern that is no regular expression of ours fits everything; serde has its say later.
    fn matches(&mut self, pattern: &str, text: &str) -> bool {
        let compiled = self.patterns.entry(pattern.to_owned());
        let compiled = compiled.or_insert_with(|| Regex::new(pattern).ok());
        compiled.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }

    fn resolve(&self, schema: &'a Json) -> &'a Json {
        let pointer = schema["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
        pointer.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    /// The schemas to choose from, nested choices laid flat.
    fn options(&self, schema: &'a Json) -> Vec<&'a Json> {
        let list = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        let resolved = list.into_iter().flatten().map(|option| self.resolve(option));
        let flat = |option| match is_union(option) {
            true => self.options(option),
            false => vec![option],
        };
        resolved.flat_map(flat).collect()
    }
}

/// A key that is not one of `names`.
pub(super) fn unknown_key<'a>(
    source: &Source,
    key: &str,
    place: &Range<usize>,
    names: impl IntoIterator<Item = &'a str>,
) -> Mistake {
    let mistake = source.mistake(place, format!("unknown key `{}`", key.escape_debug()));
    suggest(mistake, key, names, "known keys")
}

/// Adds the name that was probably meant, or all there are.
pub(super) fn suggest<'a>(
    mistake: Mistake,
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
    all: &str,
) -> Mistake {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    match nearest(given, &names) {
        Some(name) => mistake.hint(format!("did you mean `{name}`?")),
        None if names.is_empty() => mistake,
        None => mistake.hint(format!("{all}: {}", names.join(", "))),
    }
}

/// The one of `names` that is so like `given` that it was probably meant.
fn nearest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let likeness = |name: &&str| (strsim::jaro_winkler(given, name) * 1000.0) as u64;
    names.iter().copied().max_by_key(likeness).filter(|name| likeness(name) >= 800)
}

fn is_union(schema: &Json) -> bool {
    schema["oneOf"].is_array() || schema["anyOf"].is_array()
}

fn is_fixed(schema: &Json) -> bool {
    schema["enum"].is_array() || !schema["const"].is_null()
}

fn is_null(schema: &Json) -> bool {
    schema["type"] == "null"
}

/// The strings that a schema of fixed values allows.
fn words(schema: &Json) -> impl Iterator<Item = &str> {
    let listed = schema["enum"].as_array().into_iter().flatten();
    listed.chain([&schema["const"]]).filter_map(Json::as_str)
}

fn types(schema: &Json) -> Vec<&str> {
    match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(several) => several.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_kind(value: &Value, schema: &Json) -> bool {
    let fits = |name: &&str| match value {
        Value::String(_) => *name == "string",
        Value::Datetime(_) => *name == "string" && schema["format"].is_string(),
        Value::Integer(_) => matches!(*name, "integer" | "number"),
        Value::Float(_) => *name == "number",
        Value::Boolean(_) => *name == "boolean",
        Value::Array(_) => *name == "array",
        Value::Table(_) => *name == "object",
    };
    let types = types(schema);
    types.is_empty() || types.iter().any(fits)
}

/// What a schema wants, with its article: the title of a value with a form of its own ("a
/// duration"), else its types.
fn expected(schema: &Json) -> String {
    let types = types(schema);
    if let (Some(title), false) = (schema["title"].as_str(), types.contains(&"object")) {
        let article = if title.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        return format!("{article} {title}");
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        return format!("a string of the form {pattern}");
    }
    let names = types.into_iter().filter(|name| *name != "null").map(|name| match name {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        _ => "a table",
    });
    names.collect::<Vec<_>>().join(" or ")
}
