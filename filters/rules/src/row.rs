//! A rule as it is written: the columns of ProxySQL's `mysql_query_rules`, by their names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One rule. A predicate that is left out is true; of the actions, those that are named overwrite
/// what rules before have decided.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// The rule's place in the order; each has its own.
    pub(crate) rule_id: u32,
    /// Whether it is looked at.
    #[serde(default = "yes")]
    pub(crate) active: bool,
    /// The user, exactly.
    #[schemars(length(min = 1))]
    pub(crate) username: Option<String>,
    /// The schema that the session is in, exactly.
    #[schemars(length(min = 1))]
    pub(crate) schemaname: Option<String>,
    /// The label that the walk must have.
    #[serde(default, rename = "flagIN")]
    pub(crate) flag_in: u32,
    /// Where the client comes from: an address, a CIDR block, a prefix that ends in `%`, or
    /// `localhost` for unix sockets.
    pub(crate) client_addr: Option<String>,
    /// The listener's address, as configured, without its port.
    #[schemars(length(min = 1))]
    pub(crate) proxy_addr: Option<String>,
    /// The listener's port.
    pub(crate) proxy_port: Option<u16>,
    /// The digest, 64 bits in hexadecimal.
    pub(crate) digest: Option<String>,
    /// A regular expression for the digest's text.
    #[schemars(length(min = 1))]
    pub(crate) match_digest: Option<String>,
    /// A regular expression for the text as it was sent, comments included.
    #[schemars(length(min = 1))]
    pub(crate) match_pattern: Option<String>,
    /// Whether the regular expressions must not match.
    #[serde(default)]
    pub(crate) negate_match_pattern: bool,
    /// How they match: `CASELESS`, `GLOBAL` (all places are replaced), both with a comma between,
    /// or nothing.
    #[serde(default = "caseless")]
    pub(crate) re_modifiers: String,
    /// The label from here on, unless `apply` ends the walk.
    #[serde(rename = "flagOUT")]
    pub(crate) flag_out: Option<u32>,
    /// What stands for what `match_pattern` has found; `\1` is its first group.
    pub(crate) replace_pattern: Option<String>,
    /// Where the command goes.
    pub(crate) destination_hostgroup: Option<u32>,
    /// How long the result may be given from memory, in milliseconds.
    #[schemars(range(min = 1))]
    pub(crate) cache_ttl: Option<u32>,
    /// Whether a result without rows may be.
    pub(crate) cache_empty_result: Option<bool>,
    /// After how many milliseconds the statement is killed.
    pub(crate) timeout: Option<u32>,
    /// How often a read whose connection has died is sent again.
    #[schemars(range(max = 1000))]
    pub(crate) retries: Option<u32>,
    /// How many milliseconds the command waits before it is sent.
    pub(crate) delay: Option<u32>,
    /// The label with which the walks of the session's next commands begin, until a rule says
    /// otherwise.
    #[serde(rename = "next_query_flagIN")]
    pub(crate) next_query_flag_in: Option<u32>,
    /// The label with which a walk for the copy begins.
    #[serde(rename = "mirror_flagOUT")]
    pub(crate) mirror_flag_out: Option<u32>,
    /// Where a copy is sent; its reply is dropped.
    pub(crate) mirror_hostgroup: Option<u32>,
    /// The statement is refused with this text: ERR 1148 (42000).
    pub(crate) error_msg: Option<String>,
    /// The statement is answered with an OK that has this text.
    #[serde(rename = "OK_msg")]
    pub(crate) ok_msg: Option<String>,
    /// Whether the session is sticky from this command on.
    pub(crate) sticky_conn: Option<bool>,
    /// 0: the session keeps its connection, 1: it may go, 2: a `@` in this statement does not keep
    /// it.
    #[schemars(range(max = 2))]
    pub(crate) multiplex: Option<u8>,
    /// The hostgroup whose last write decides which readers will do.
    pub(crate) gtid_from_hostgroup: Option<u32>,
    /// Whether the command is logged.
    pub(crate) log: Option<bool>,
    /// Whether the walk ends here.
    #[serde(default)]
    pub(crate) apply: bool,
    /// More, as a table or as a string of JSON.
    pub(crate) attributes: Option<WrittenAttributes>,
    /// For people.
    pub(crate) comment: Option<String>,
}

/// `attributes`, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum WrittenAttributes {
    /// JSON, as in ProxySQL.
    Json(String),
    /// A table of the same.
    Table(Attributes),
}

/// What else a rule can do.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attributes {
    /// One of these is chosen by weight and becomes the label, in place of `flagOUT`.
    #[serde(default, rename = "flagOUTs", skip_serializing_if = "Vec::is_empty")]
    pub(crate) flag_outs: Vec<WeightedFlag>,
    /// Whether the session leaves the chain with this command, for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) switch_to_fast_forward: Option<bool>,
}

/// One of several labels.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightedFlag {
    /// The label.
    pub(crate) id: u32,
    /// How often, in proportion to the others'.
    pub(crate) weight: u32,
}

/// One line of `mysql_query_rules_fast_routing`: where commands go that no rule with `apply` has
/// matched.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FastRoute {
    /// The user, exactly.
    #[schemars(length(min = 1))]
    pub(crate) username: String,
    /// The schema that the session is in, exactly; empty for none.
    pub(crate) schemaname: String,
    /// The label that the walk has ended with.
    #[serde(default, rename = "flagIN")]
    pub(crate) flag_in: u32,
    /// Where the command goes.
    pub(crate) destination_hostgroup: u32,
    /// For people.
    pub(crate) comment: Option<String>,
}

/// Columns that say which commands a rule is for; the others say what is done with them.
pub(crate) const PREDICATES: [&str; 14] = [
    "rule_id",
    "active",
    "username",
    "schemaname",
    "flagIN",
    "client_addr",
    "proxy_addr",
    "proxy_port",
    "digest",
    "match_digest",
    "match_pattern",
    "negate_match_pattern",
    "re_modifiers",
    "comment",
];

fn yes() -> bool {
    true
}

fn caseless() -> String {
    "CASELESS".to_owned()
}
