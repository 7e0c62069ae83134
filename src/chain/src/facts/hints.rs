//! What comments in a statement ask of the proxy.

use super::{Fact, RuleVerdict, affinity::StickyMode};
use crate::{Command, topology::HostgroupId};
use std::{sync::Arc, time::Duration};

/// What the hints of a statement say, the last word on each thing; only what this user may ask for.
/// On a command only if there is at least one. A prepared statement's are on each of its EXECUTEs.
/// Writer: `hints`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `hostgroup`. Reader: `route`.
    pub hostgroup: Option<HostgroupId>,
    /// `route`, or MaxScale's `route to`. Reader: `route`.
    pub route: Option<RouteTo>,
    /// `sticky_backend`. Reader: `sticky`.
    pub sticky: Option<StickyMode>,
    /// `affinity_key`. Reader: `sticky`.
    pub affinity_key: Option<Arc<[u8]>>,
    /// `max_lag_ms`, or MaxScale's `max_slave_replication_lag`, which is in seconds: no replica
    /// that is further behind. Reader: `route`.
    pub max_lag: Option<Duration>,
    /// `min_gtid`: read only where this has been applied. Reader: `route`.
    pub min_gtid: Option<Arc<str>>,
    /// `timeout_ms` or `query_timeout`: kill the statement on its server after this long. Reader:
    /// the dispatcher.
    pub timeout: Option<Duration>,
    /// `retries` or `query_retries`. Reader: the dispatcher.
    pub retries: Option<u32>,
    /// `cache_ttl_ms` or `cache_ttl`: answer from memory for so long. Reader: `cache`.
    pub cache_ttl: Option<Duration>,
    /// `mirror`: send a copy there and drop its reply. Reader: the dispatcher.
    pub mirror: Option<HostgroupId>,
    /// `create_new_connection`: where it needs a connection, a new one and none from the pool.
    /// Reader: the dispatcher.
    pub new_connection: bool,
    /// `traceparent`, see [`TraceParent`](crate::trace_parent::TraceParent). For filters of one's
    /// own: the proxy's tracing begins before any filter, and reads the statement by itself.
    pub traceparent: Option<Arc<str>>,
    /// `tracestate`, beside it.
    pub tracestate: Option<Arc<str>>,
    /// Whether hints win where a rule says something else (`precedence`).
    pub beats_rules: bool,
}

/// Where a hint sends a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteTo {
    /// The primary.
    Primary,
    /// A replica.
    Replica,
    /// The server used last.
    Last,
    /// The server, or else the hostgroup, of this name.
    Named(Arc<str>),
}

impl Hints {
    /// What counts of a thing that hints and rules may both have a word on.
    pub fn or_rule<T>(hinted: Option<T>, ruled: Option<T>, beats_rules: bool) -> Option<T> {
        if beats_rules { hinted.or(ruled) } else { ruled.or(hinted) }
    }

    /// Whether they ask for nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self { beats_rules: self.beats_rules, ..Self::default() }
    }
}

/// What hints and rules together say to the dispatcher about a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Kill the statement on its server after this long.
    pub timeout: Option<Duration>,
    /// How often a read whose connection has died is sent again.
    pub retries: Option<u32>,
    /// Send a copy there and drop its reply.
    pub mirror: Option<HostgroupId>,
}

impl Orders {
    /// Those for this command.
    pub fn of(command: &Command) -> Self {
        let (hints, verdict) = (command.fact::<Hints>(), command.fact::<RuleVerdict>());
        if hints.is_none() && verdict.is_none() {
            return Self::default();
        }
        let first = hints.is_some_and(|hints| hints.beats_rules);
        let (timeout, retries, mirror) =
            hints.map(|hints| (hints.timeout, hints.retries, hints.mirror)).unwrap_or_default();
        let (ruled, again, copy) = verdict
            .map(|verdict| (verdict.timeout, verdict.retries, verdict.mirror))
            .unwrap_or_default();
        Self {
            timeout: Hints::or_rule(timeout, ruled, first),
            retries: Hints::or_rule(retries, again, first),
            mirror: Hints::or_rule(mirror, copy, first),
        }
    }
}

impl Fact for Hints {
    const NAME: &'static str = "hints";
}

#[cfg(test)]
mod tests {
    use super::{Hints, Orders};
    use crate::{Command, facts::RuleVerdict, testing, topology::HostgroupId};
    use std::time::Duration;

    fn orders(hints: Option<Hints>, verdict: Option<RuleVerdict>) -> Orders {
        let mut command = Command::query(testing::session(), "SELECT 1");
        if let Some(hints) = hints {
            command.note(hints);
        }
        if let Some(verdict) = verdict {
            command.note(verdict);
        }
        Orders::of(&command)
    }

    #[test]
    fn hints_and_rules_are_taken_together() {
        let second = Some(Duration::from_secs(1));
        let minute = Some(Duration::from_secs(60));
        let mirror = Some(HostgroupId(3));
        let hints = |beats_rules| {
            let hints = Hints { timeout: second, retries: Some(2), ..Hints::default() };
            Some(Hints { beats_rules, ..hints })
        };
        let verdict = Some(RuleVerdict { timeout: minute, mirror, ..RuleVerdict::default() });
        let all = |timeout| Orders { timeout, retries: Some(2), mirror };
        assert_eq!(orders(hints(true), verdict.clone()), all(second));
        assert_eq!(orders(hints(false), verdict.clone()), all(minute));
        assert_eq!(orders(None, verdict), Orders { timeout: minute, retries: None, mirror });
        let alone = Orders { timeout: second, retries: Some(2), mirror: None };
        assert_eq!(orders(hints(false), None), alone);
        assert_eq!(orders(None, None), Orders::default());
    }
}
