//! ProxySQL's configuration file.

use chain::settings::{Mistakes, Settings};

/// The list of rules.
pub(crate) const RULES: &str = "mysql_query_rules";

/// The list of fast routes.
pub(crate) const FAST_ROUTING: &str = "mysql_query_rules_fast_routing";

pub(crate) fn read(path: &str, text: &str, mistakes: &mut Mistakes) -> Option<Settings> {
    Some(Settings::made(path, text, Default::default(), mistakes))
}
