//! When the configuration is read again: `[reload]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the configuration is read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Reload {
    /// Whether it is read again when one of its files changes. SIGHUP and POST /reload have it read
    /// again in any event.
    pub watch: bool,
}
