//! What is printed.

use super::Note;
use bytes::Bytes;
use chain::{HostgroupId, facts::RuleVerdict};
use serde_json::{Map, Value, json};
use std::fmt;

/// What becomes of a statement.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) digest: String,
    pub(super) digest_text: String,
    pub(super) class: String,
    pub(super) notes: Vec<Note>,
    /// The text that a server would get, if it is not the client's.
    pub(super) text: Option<Bytes>,
    pub(super) verdict: Option<RuleVerdict>,
    /// Where it goes. `None` if it reaches no server.
    pub(super) hostgroup: Option<HostgroupId>,
    pub(super) switches: bool,
    /// What the chain answers by itself.
    pub(super) answer: Option<String>,
}

/// Filters whose notes have lines of their own.
const OURS: [&str; 2] = ["rules", "route"];

impl Report {
    pub(super) fn as_json(&self) -> Value {
        let rules = self.notes_of("rules").filter(|what| what.get("rule_id").is_some());
        let others = self.notes.iter().filter(|note| !OURS.contains(&note.filter));
        let others = others.map(|note| json!({ "filter": note.filter, "what": note.what }));
        json!({
            "digest": self.digest,
            "digest_text": self.digest_text,
            "class": self.class,
            "rules": rules.collect::<Vec<_>>(),
            "fast_routing": self.fast_routing(),
            "other_filters": others.collect::<Vec<_>>(),
            "rewritten": self.rewritten(),
            "mirror": self.mirror(),
            "route": self.notes_of("route").last(),
            "hostgroup": self.hostgroup.map(|hostgroup| hostgroup.0),
            "fast_forward": self.switches,
            "answer": self.answer,
        })
    }

    fn notes_of(&self, filter: &'static str) -> impl Iterator<Item = &Value> {
        self.notes.iter().filter(move |note| note.filter == filter).map(|note| &note.what)
    }

    fn fast_routing(&self) -> Option<&Value> {
        self.notes_of("rules").find_map(|what| what.get("fast_routing"))
    }

    fn rewritten(&self) -> Option<String> {
        self.text.as_ref().map(|text| String::from_utf8_lossy(text).into_owned())
    }

    fn mirror(&self) -> Option<u32> {
        self.verdict.as_ref().and_then(|verdict| verdict.mirror).map(|hostgroup| hostgroup.0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: &dyn fmt::Display| writeln!(f, "{name:13}{text}");
        line("digest", &self.digest)?;
        line("", &self.digest_text)?;
        line("class", &self.class)?;
        for what in self.notes_of("rules") {
            if let Some(id) = what.get("rule_id") {
                line(&format!("rule {id}"), &settings(&what["sets"]))?;
                if let Some(comment) = what["comment"].as_str() {
                    line("", &format!("# {comment}"))?;
                }
            }
        }
        if let Some(hostgroup) = self.fast_routing() {
            line("fast routing", &format!("destination_hostgroup = {hostgroup}"))?;
        }
        for note in self.notes.iter().filter(|note| !OURS.contains(&note.filter)) {
            // A name may fill its column.
            line(&format!("{} ", note.filter), &settings(&note.what))?;
        }
        if let Some(text) = self.rewritten() {
            line("rewritten", &text)?;
        }
        if let Some(hostgroup) = self.mirror() {
            line("mirror", &format!("hostgroup {hostgroup}"))?;
        }
        if let Some(what) = self.notes_of("route").last() {
            let text = |key: &str| what[key].as_str().unwrap_or_default();
            line("policy", &format!("{}: {}", text("policy"), text("why")))?;
            line("server", &text("server"))?;
        }
        match (&self.answer, self.hostgroup) {
            (Some(answer), _) => line("answered", answer)?,
            (None, Some(hostgroup)) => line("hostgroup", &hostgroup)?,
            (None, None) => line("hostgroup", &"none")?,
        }
        line("fast-forward", &if self.switches { "yes" } else { "no" })
    }
}

/// The entries of a table, as they are written in TOML.
fn settings(table: &Value) -> String {
    let empty = Map::new();
    let entries = table.as_object().unwrap_or(&empty).iter();
    let entries: Vec<_> = entries.map(|(key, value)| format!("{key} = {value}")).collect();
    if entries.is_empty() { "sets nothing".to_owned() } else { entries.join(", ") }
}
