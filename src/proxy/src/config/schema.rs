//! The JSON Schema of the whole file: the tables' types and the filters' settings.

use super::{
    Admin, Backend, Cluster, Hostgroup, Limits, Listener, Log, MonitorTable, Otlp, Reload, Server,
    Shutdown, Tcp, Trace, user::UserTable,
};
use chain::{Part, Registry};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The configuration of Towpath, a MySQL proxy built as a chain of filters. In every string,
/// ${NAME} stands for a variable of the environment.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "Towpath")]
#[expect(dead_code, reason = "the tables are read one by one; this is their schema as a whole")]
struct File {
    /// Other files with more of these tables, relative to this one. They include no others.
    #[schemars(default)]
    include: Vec<String>,
    /// Metrics and status over HTTP.
    #[schemars(default)]
    admin: Admin,
    /// What is logged, to standard error.
    #[schemars(default)]
    log: Log,
    /// Where traces and metrics are sent, by OTLP.
    #[schemars(default)]
    otlp: Otlp,
    /// Which commands are traced, and what is told of them.
    #[schemars(default)]
    trace: Trace,
    /// Bounds on what clients can take.
    #[schemars(default)]
    limits: Limits,
    /// Where clients connect.
    #[schemars(default)]
    listener: Vec<Listener>,
    /// Who may log in.
    #[schemars(default)]
    user: Vec<UserTable>,
    /// The servers, each in one hostgroup.
    #[schemars(default)]
    server: Vec<Server>,
    /// Names for hostgroups.
    #[schemars(default)]
    hostgroup: Vec<Hostgroup>,
    /// Pairs of hostgroups whose servers change sides by what they are.
    #[schemars(default)]
    cluster: Vec<Cluster>,
    /// How servers are watched.
    #[schemars(default)]
    monitor: MonitorTable,
    /// Connections to servers, and the pools that keep them.
    #[schemars(default)]
    backend: Backend,
    /// TCP connections: how peers are noticed that are gone without a word.
    #[schemars(default)]
    tcp: Tcp,
    /// How the proxy ends.
    #[schemars(default)]
    shutdown: Shutdown,
    /// When the configuration is read again.
    #[schemars(default)]
    reload: Reload,
    /// What commands go through: `[chain.NAME]`.
    #[schemars(default)]
    chain: Chains,
}

/// Put in place of by [`of_file`], which knows the filters.
#[derive(Default)]
struct Chains;

impl JsonSchema for Chains {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Chains".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// The keys that may stand at the top of a file.
pub(super) fn keys() -> Vec<String> {
    let schema = schema_for!(File).to_value();
    let properties = schema["properties"].as_object();
    properties.into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

pub(super) fn of_file(registry: &Registry) -> Value {
    let mut generator = SchemaGenerator::default();
    let session = filters(registry, Part::Session, &mut generator);
    let backend = filters(registry, Part::Backend, &mut generator);
    let mut schema = generator.into_root_schema_for::<File>().to_value();
    schema["$defs"]["Chain"] = json!({
        "description": "Two lists of filters; the first of a list is the first to see a command.",
        "type": "object",
        "properties": {
            "session": {
                "description": "For each client session, above the choice of a server.",
                "type": "array",
                "items": session,
            },
            "backend": {
                "description": "For each connection to a server.",
                "type": "array",
                "items": backend,
            },
            "multiplex": {
                "description": "Whether sessions give their connections to others between two \
                                commands. Needs the filters session-commands and catch-up.",
                "type": "boolean",
                "default": false,
            },
        },
        "additionalProperties": false,
    });
    let chain = &mut schema["properties"]["chain"];
    chain["additionalProperties"] = json!({ "$ref": "#/$defs/Chain" });
    schema
}

/// Any of the filters of one part: their settings, and `use` with their name.
fn filters(registry: &Registry, part: Part, generator: &mut SchemaGenerator) -> Value {
    let fitting = registry.iter().filter(|(_, entry)| [part, Part::Either].contains(&entry.part));
    let options = fitting.map(|(name, entry)| {
        let mut schema = entry.schema(generator).to_value();
        schema["properties"]["use"] = json!({ "const": name });
        match schema["required"].as_array_mut() {
            Some(required) => required.push(json!("use")),
            None => schema["required"] = json!(["use"]),
        }
        schema["additionalProperties"] = json!(false);
        schema
    });
    match options.collect::<Vec<_>>() {
        none if none.is_empty() => json!(false),
        some => json!({ "oneOf": some }),
    }
}
