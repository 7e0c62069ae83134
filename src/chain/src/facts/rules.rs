//! What query rules have decided about a command.

use super::Fact;
use crate::topology::HostgroupId;
use smallvec::SmallVec;
use std::{sync::Arc, time::Duration};

/// The outcome of all rules that matched: the last word on each thing. On a command only if at
/// least one did, or fast routing knows its hostgroup. Writer: `rules`.
///
/// Columns of ProxySQL's `mysql_query_rules` that the rules themselves see to (`error_msg`,
/// `replace_pattern`, `delay`, ...) are not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleVerdict {
    /// Ids of the rules that matched, in the order in which they did.
    pub rules: SmallVec<[u32; 4]>,
    /// `destination_hostgroup`. Reader: `route`.
    pub hostgroup: Option<HostgroupId>,
    /// Kill the statement on its server after this long. Reader: the dispatcher.
    pub timeout: Option<Duration>,
    /// How often a read whose connection died before its first reply byte is sent again. Reader:
    /// the dispatcher.
    pub retries: Option<u32>,
    /// Send a copy there and drop its reply. Reader: the dispatcher.
    pub mirror: Option<HostgroupId>,
    /// The copy's text, where rules have made another one for it. Reader: the dispatcher.
    pub mirror_text: Option<Arc<[u8]>>,
    /// `cache_ttl`: whether its result may be given from memory. Reader: `cache`.
    pub cache: Option<Caching>,
    /// Whether the connection may go to another session after this command.
    pub multiplex: Option<Multiplex>,
    /// Makes the session sticky, or ends that.
    pub sticky: Option<bool>,
    /// `gtid_from_hostgroup`: read only where all is known that the session has written in this one.
    /// Reader: `route`.
    pub gtid_from: Option<HostgroupId>,
    /// Whether the command belongs in the event log.
    pub log: Option<bool>,
    /// The session leaves the chain with this command, for good. Reader: `fast-forward`.
    pub switch_to_fast_forward: bool,
}

/// Whether a result may be given from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// For how long. 0: not at all.
    pub ttl: Duration,
    /// `cache_empty_result`: also one without rows.
    pub empty: bool,
}

/// What a rule says about giving the connection to other sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplex {
    /// 0: the session keeps it.
    Pin,
    /// 1: it may go.
    Allow,
    /// 2: a `@` in this statement does not keep it.
    IgnoreUserVariables,
}

impl Fact for RuleVerdict {
    const NAME: &'static str = "rule-verdict";
}

/// A rule wants the command of this reply logged; on the reply. Writer: `rules`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The rules that have matched the command.
    pub rules: SmallVec<[u32; 4]>,
}

impl Fact for Logged {
    const NAME: &'static str = "logged";
}
