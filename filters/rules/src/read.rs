//! From settings to rules: every mistake of every rule, each with its place.

use crate::{
    Elsewhere, Loaded,
    compile::{self, Found},
    fast_routing::FastRouting,
    proxysql,
    row::{FastRoute, Row},
    rule::Rule,
    set::RuleSet,
};
use chain::{
    HostgroupId,
    counters::Family,
    registry::Want,
    settings::{Mistake, Mistakes, Settings, read_text},
};
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::HashMap, path::Path};

/// How large a file of rules may be, in bytes.
const LARGEST: u64 = 64 << 20;

/// What stands beside the rules themselves.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Numbers {
    #[serde(default)]
    #[schemars(range(max = 1000))]
    iterations: u32,
}

/// Reads the filter's settings and the file that they name.
pub(crate) fn read(settings: &Settings, mistakes: &mut Mistakes) -> Option<Loaded> {
    let before = mistakes.len();
    settings.allow_keys(&["rules", "fast_routing", "iterations"], mistakes);
    let numbers: Option<Numbers> = only(settings, &["iterations"]).deserialize(mistakes);
    let mut reader = Reader::new(mistakes);
    reader.all(settings);
    let Reader { rules, fast_routing, hits, .. } = reader;
    if mistakes.len() > before {
        return None;
    }
    let wants = wants(&rules);
    let shown = shown(&rules);
    let set = RuleSet::new(rules, fast_routing, numbers?.iterations);
    Some(Loaded { set, hits, wants, shown })
}

/// The rules as they were written, in their order, for the admin port.
fn shown(rules: &[Rule]) -> Value {
    let mut rows: Vec<_> = rules.iter().map(|rule| &rule.row).collect();
    rows.sort_by_key(|row| row.rule_id);
    let rows = rows.into_iter().filter_map(|row| match serde_json::to_value(row) {
        Ok(Value::Object(columns)) => Some(columns.into_iter().filter(|(_, v)| !v.is_null())),
        _ => None,
    });
    rows.map(|columns| Value::Object(columns.collect())).collect()
}

/// The filters that do what rules only order; each once, for the first rule that orders it.
fn wants(rules: &[Rule]) -> Vec<Want> {
    let caches: fn(&&Rule) -> bool = |rule| rule.actions.cache.is_some();
    let sticks: fn(&&Rule) -> bool = |rule| rule.actions.sticky == Some(true);
    let switches: fn(&&Rule) -> bool = |rule| rule.actions.switch;
    let follows: fn(&&Rule) -> bool = |rule| rule.actions.gtid_from.is_some();
    [
        ("cache", "cache_ttl", caches),
        ("sticky", "sticky_conn", sticks),
        ("fast-forward", "switch_to_fast_forward", switches),
        // A read that goes elsewhere finds there what its session has set and prepared.
        ("session-commands", "gtid_from_hostgroup", follows),
    ]
    .into_iter()
    .filter_map(|(filter, column, orders)| {
        let what = format!("`{column}` of rule {}", rules.iter().find(orders)?.id);
        Some(Want { filter, what })
    })
    .collect()
}

struct Reader<'a> {
    mistakes: &'a mut Mistakes,
    rules: Vec<Rule>,
    seen: HashMap<u32, Settings>,
    fast_routing: FastRouting,
    hits: Family,
}

impl<'a> Reader<'a> {
    fn new(mistakes: &'a mut Mistakes) -> Self {
        let hits = Family::new("rule_hits", "Commands that a rule matched", "rule_id");
        let (rules, seen) = (Vec::new(), HashMap::new());
        Self { mistakes, rules, seen, fast_routing: FastRouting::default(), hits }
    }

    /// `rules` in any of its three forms, and `fast_routing`.
    fn all(&mut self, settings: &Settings) {
        let quiet = &mut Mistakes::default();
        if !settings.has("rules") {
            let mistake = settings.mistake("missing key `rules`");
            let hint =
                "rules = \"rules.toml\", a list of rules, or { proxysql = \"proxysql.cnf\" }";
            self.mistakes.push(mistake.hint(hint));
        } else if let Some(name) = settings.text("rules", quiet) {
            if let Some((path, text)) = self.file(settings, "rules", &name) {
                let file = Settings::parse(&path, &text, self.mistakes);
                file.allow_keys(&["rule", "fast_routing"], self.mistakes);
                self.rows(&file, "rule");
                self.fast_routes(&file, "fast_routing");
            }
        } else if let Some(elsewhere) = settings.table("rules", quiet) {
            if let Some(Elsewhere { proxysql }) = elsewhere.deserialize(self.mistakes)
                && let Some((path, text)) = self.file(&elsewhere, "proxysql", &proxysql)
                && let Some(file) = proxysql::read(&path, &text, self.mistakes)
            {
                self.rows(&file, proxysql::RULES);
                self.fast_routes(&file, proxysql::FAST_ROUTING);
            }
        } else {
            self.rows(settings, "rules");
        }
        self.fast_routes(settings, "fast_routing");
    }

    /// A file's path, as people read it, and its text.
    fn file(&mut self, settings: &Settings, key: &str, name: &str) -> Option<(String, String)> {
        let path = settings.beside(name);
        match read_text(Path::new(&path), LARGEST) {
            Ok(text) => Some((path.display().to_string(), text)),
            Err(why) => {
                let name = if settings.may_quote(key) { name } else { "the file" };
                let message = format!("{name} cannot be read: {why}");
                self.mistakes.push(settings.mistake_at(key, message));
                None
            }
        }
    }

    fn rows(&mut self, settings: &Settings, key: &str) {
        // What is no table is noted here, what is wrong in a table below.
        settings.tables(key, self.mistakes);
        for (table, row) in settings.deserialize_all::<Row>(key, &mut Mistakes::default()) {
            let id = rule_id(&table);
            let named = |mistake| named(id, mistake);
            let row = row.or_else(|| self.salvage(&table, &named));
            if let Some(id) = id {
                match self.seen.get(&id) {
                    None => drop(self.seen.insert(id, table.clone())),
                    Some(first) => {
                        let first = first.mistake_at("rule_id", "");
                        let message = "there is another rule of this id";
                        let mistake = named(table.mistake_at("rule_id", message));
                        let other = format!("the other one is in {}:{}", first.file, first.line);
                        self.mistakes.push(mistake.hint(other));
                    }
                }
            }
            let Some(row) = row else { continue };
            let is_active = row.active;
            let mut found = Found::default();
            let rule = compile::rule(row, &table, &self.hits, &mut found);
            self.mistakes.extend(found.mistakes.into_iter().map(named));
            for (id, mistake) in found.hostgroups {
                self.mistakes.names_hostgroup(id, named(mistake));
            }
            self.rules.extend(rule.filter(|_| is_active));
        }
    }

    fn fast_routes(&mut self, settings: &Settings, key: &str) {
        let rows = settings.deserialize_all::<FastRoute>(key, self.mistakes);
        for (table, row) in rows {
            let Some(row) = row else { continue };
            let hostgroup = HostgroupId(row.destination_hostgroup);
            if !self.fast_routing.add(&row.username, &row.schemaname, row.flag_in, hostgroup) {
                let message = "there is another line of this username, schemaname and flagIN";
                self.mistakes.push(table.mistake(message).hint("remove one of them"));
            }
            let missing = compile::missing(&table, "destination_hostgroup", hostgroup);
            self.mistakes.names_hostgroup(hostgroup, missing);
        }
    }

    /// Notes what is wrong with the form of a rule, and reads what is left of it, so that what it
    /// says is checked all the same.
    fn salvage(&mut self, table: &Settings, named: &dyn Fn(Mistake) -> Mistake) -> Option<Row> {
        let mut wrong = Mistakes::default();
        table.deserialize::<Row>(&mut wrong);
        self.mistakes.extend(wrong.iter().cloned().map(named));
        let columns = columns::<Row>();
        let fits = |key: &&str| {
            let at = table.mistake_at(key, "");
            let is_wrong = |other: &Mistake| (other.line, other.column) == (at.line, at.column);
            columns.iter().any(|column| column == key) && !wrong.iter().any(is_wrong)
        };
        let good: Vec<_> = table.keys().filter(fits).collect();
        let mut rest = only(table, &good);
        if rest.deserialize::<Row>(&mut Mistakes::default()).is_none() {
            rest = rest.without("attributes");
        }
        rest.deserialize(&mut Mistakes::default())
    }
}

/// The mistake as one of this rule.
fn named(id: Option<u32>, mut mistake: Mistake) -> Mistake {
    if let Some(id) = id {
        mistake.message = format!("rule {id}: {}", mistake.message);
    }
    mistake
}

fn rule_id(table: &Settings) -> Option<u32> {
    #[derive(Deserialize, JsonSchema)]
    struct Id {
        rule_id: u32,
    }
    let id: Option<Id> = only(table, &["rule_id"]).deserialize(&mut Mistakes::default());
    id.map(|id| id.rule_id)
}

/// A table with only these of its keys.
fn only(settings: &Settings, keys: &[&str]) -> Settings {
    let others = settings.keys().filter(|key| !keys.contains(key));
    others.fold(settings.clone(), |rest, key| rest.without(key))
}

fn columns<T: JsonSchema + DeserializeOwned>() -> Vec<String> {
    let schema = schema_for!(T).to_value();
    schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}
