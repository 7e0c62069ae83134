//! What is configured, and what all sessions of a chain share.

use chain::{
    HostgroupId, Session,
    balance::{Balance, Choice},
    counters::{Counter, Family},
    settings::{HumanDuration, Mistakes, Settings},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{sync::Arc, time::Duration};
use tower::BoxError;

/// The filter's settings.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What decides.
    #[serde(default)]
    policy: Policy,
    /// How one of the hostgroup's servers is chosen.
    #[serde(default)]
    balance: Balance,
    /// What a choice holds for. Default: "session"; with read-write-split, "command" for reads.
    balance_each: Option<Each>,
    /// No new work for a replica that is further behind its primary than this.
    max_lag: Option<HumanDuration>,
    /// With policy = "hostgroup": the hostgroup for every session of this chain, instead of the
    /// user's own.
    hostgroup: Option<u32>,
    /// With read-write-split: the cluster whose servers are meant. Default: that of the user's
    /// hostgroup.
    cluster: Option<String>,
    /// With read-write-split, together with `replicas`, instead of `cluster`: the hostgroup of the
    /// primary.
    primary: Option<u32>,
    /// The hostgroup of the replicas.
    replicas: Option<u32>,
    /// With read-write-split: where reads go while no replica takes work, or none is near enough.
    no_replica: Option<NoReplica>,
    /// With read-write-split: who executes SET, USE, PREPARE and the like first, and gives the reply.
    answer_from: Option<AnswerFrom>,
    /// With read-write-split: where a session reads that has written.
    after_write: Option<AfterWrite>,
    /// With after_write = "wait": how long a read may wait for a replica; then it goes to the
    /// primary. Default: 1s.
    after_write_timeout: Option<HumanDuration>,
    /// With after_write = "primary": how long after its last write. Default: for ever.
    after_write_window: Option<HumanDuration>,
}

/// What decides where a command goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The user's default hostgroup, or the one named by `hostgroup` here.
    #[default]
    Hostgroup,
    /// What is surely a read goes to a replica, anything else to the primary.
    ReadWriteSplit,
}

/// What a choice of a server holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Each {
    /// For all that the session does in that hostgroup, as long as the server takes work.
    Session,
    /// For one command that needs no particular connection.
    Command,
}

/// Where reads go while no replica takes work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoReplica {
    /// To the primary.
    #[default]
    Primary,
    /// Nowhere: they wait for a replica, within the connect budget.
    Wait,
}

/// Who answers what every connection of a session executes sooner or later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerFrom {
    /// The server that the session has used last; a replica while it has used none. A statement is
    /// prepared where it will be executed.
    #[default]
    LastUsed,
    /// A replica. A statement is prepared where it will be executed.
    Replica,
    /// The primary, which prepares all statements too: a session that works there and nowhere else
    /// opens no connection to a replica.
    Primary,
}

/// Where a session reads that has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AfterWrite {
    /// On any replica: it may not see what it has written.
    #[default]
    Any,
    /// On the primary.
    Primary,
    /// On a replica, once that has applied what the session has written (by GTID).
    Wait,
    /// On a replica that has applied it when it is asked, else on the primary: nothing waits.
    Gtid,
}

impl AfterWrite {
    /// Whether a replica is asked what it has.
    pub(crate) fn asks(self) -> bool {
        matches!(self, Self::Wait | Self::Gtid)
    }
}

/// What all sessions of a chain share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rule: Rule,
    pub(crate) choice: Choice,
    /// Commands that need no particular connection are balanced one by one.
    pub(crate) each_command: bool,
    /// What a session sets holds on all of its connections.
    pub(crate) keeps_state: bool,
    /// Sessions share their connections: what one says of its last statement may be another's.
    pub(crate) shares: bool,
    pub(crate) max_lag: Option<Duration>,
    /// How long a read waits for a replica that lacks what it must see.
    pub(crate) wait: Duration,
    pub(crate) counters: Counters,
}

/// The policy with what belongs to it.
#[derive(Debug)]
pub(crate) enum Rule {
    Hostgroup(Option<HostgroupId>),
    Split(Split),
}

/// What read-write-split knows.
#[derive(Debug)]
pub(crate) struct Split {
    groups: Groups,
    pub(crate) no_replica: NoReplica,
    pub(crate) answer_from: AnswerFrom,
    pub(crate) after_write: AfterWrite,
    pub(crate) window: Option<Duration>,
}

#[derive(Debug)]
enum Groups {
    OfUser,
    Named(Arc<str>),
    These(Pair),
}

/// The two hostgroups of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) primary: HostgroupId,
    pub(crate) replicas: HostgroupId,
}

/// What is counted.
#[derive(Debug)]
pub(crate) struct Counters {
    ignored: Family,
    causal: Family,
    pub(crate) in_transaction: Counter,
    pub(crate) pinned: Counter,
    pub(crate) unknown: Counter,
    pub(crate) replica: Counter,
    pub(crate) primary: Counter,
}

impl Config {
    /// Notes the keys that do not go together.
    pub(crate) fn check(&self, settings: &Settings, mistakes: &mut Mistakes) {
        let mut foreign = |keys: &[&str], why: &str, hint: &str| {
            for key in keys.iter().filter(|key| settings.has(key)) {
                let mistake = settings.mistake_at(key, format!("`{key}` has no meaning {why}"));
                mistakes.push(mistake.hint(hint));
            }
        };
        match self.policy {
            Policy::Hostgroup => foreign(
                &[
                    "cluster",
                    "primary",
                    "replicas",
                    "no_replica",
                    "answer_from",
                    "after_write",
                    "after_write_timeout",
                    "after_write_window",
                ],
                "with policy = \"hostgroup\"",
                "leave it out, or say policy = \"read-write-split\"",
            ),
            Policy::ReadWriteSplit => {
                foreign(
                    &["hostgroup"],
                    "with policy = \"read-write-split\"",
                    "name a `cluster`, or `primary` and `replicas`",
                );
                let after = self.after_write.unwrap_or_default();
                if after != AfterWrite::Wait {
                    let why = "without after_write = \"wait\"";
                    foreign(&["after_write_timeout"], why, "say that, or leave it out");
                }
                if after != AfterWrite::Primary {
                    let why = "without after_write = \"primary\"";
                    foreign(&["after_write_window"], why, "say that, or leave it out");
                }
            }
        }
        self.check_groups(settings, mistakes);
    }

    fn check_groups(&self, settings: &Settings, mistakes: &mut Mistakes) {
        let given = [("primary", self.primary), ("replicas", self.replicas)];
        let splits = self.policy == Policy::ReadWriteSplit;
        for (key, other) in [("primary", "replicas"), ("replicas", "primary")] {
            if splits && settings.has(key) && !settings.has(other) {
                let mistake = settings.mistake_at(key, format!("`{key}` stands alone"));
                mistakes.push(mistake.hint(format!("say `{other}` too: the other hostgroup")));
            }
        }
        if self.cluster.is_some() && settings.has("primary") {
            let message = "a cluster says which its hostgroups are";
            let mistake = settings.mistake_at("primary", message);
            mistakes.push(mistake.hint("leave out `cluster`, or `primary` and `replicas`"));
        }
        if let (Some(primary), true) = (self.primary, self.primary == self.replicas) {
            let message = format!("both are hostgroup {primary}: nothing would be split");
            let mistake = settings.mistake_at("replicas", message);
            mistakes.push(mistake.hint("name the hostgroup that has the replicas"));
        }
        if splits && self.primary.is_none() && self.replicas.is_none() {
            let (key, text) = match &self.cluster {
                Some(name) => ("cluster", format!("there is no cluster {name:?}")),
                None => ("policy", "no cluster says which the primary is".to_owned()),
            };
            mistakes.needs_cluster(self.cluster.clone(), settings.mistake_at(key, text));
        }
        for (key, id) in given.into_iter().chain([("hostgroup", self.hostgroup)]) {
            let Some(id) = id else { continue };
            let mistake = settings.mistake_at(key, format!("hostgroup {id} has no server"));
            mistakes.names_hostgroup(HostgroupId(id), mistake);
        }
    }
}

impl Shared {
    pub(crate) fn new(config: Config, keeps_state: bool, shares: bool) -> Result<Self, BoxError> {
        let splits = config.policy == Policy::ReadWriteSplit;
        if !keeps_state && (splits || config.balance_each == Some(Each::Command)) {
            let what =
                if splits { "policy \"read-write-split\"" } else { "balance_each \"command\"" };
            let text = format!(
                "{what} sends the commands of one session to several servers, and no filter above \
                 keeps what the session has set the same on all of them; put \
                 {{ use = \"session-commands\" }} above it, and {{ use = \"catch-up\" }} into \
                 `backend`"
            );
            return Err(text.into());
        }
        let each = config.balance_each;
        let each_command = each.map_or(splits && keeps_state, |each| each == Each::Command);
        let timeout = match config.after_write {
            Some(AfterWrite::Gtid) => Duration::ZERO,
            _ => config.after_write_timeout.map_or(WAIT, |timeout| timeout.0),
        };
        let groups = match (config.cluster, config.primary, config.replicas) {
            (Some(name), ..) => Groups::Named(name.into()),
            (None, Some(primary), Some(replicas)) => Groups::These(Pair {
                primary: HostgroupId(primary),
                replicas: HostgroupId(replicas),
            }),
            _ => Groups::OfUser,
        };
        let rule = match config.policy {
            Policy::Hostgroup => Rule::Hostgroup(config.hostgroup.map(HostgroupId)),
            Policy::ReadWriteSplit => Rule::Split(Split {
                groups,
                no_replica: config.no_replica.unwrap_or_default(),
                answer_from: config.answer_from.unwrap_or_default(),
                after_write: config.after_write.unwrap_or_default(),
                window: config.after_write_window.map(|window| window.0),
            }),
        };
        Ok(Self {
            rule,
            choice: Choice::new(config.balance),
            each_command,
            keeps_state,
            shares,
            max_lag: config.max_lag.map(|lag| lag.0),
            wait: timeout,
            counters: Counters::new(),
        })
    }

    /// The hostgroups of the primary and of the replicas, for a session. `None` where no cluster is
    /// meant.
    pub(crate) fn pair(&self, session: &Session) -> Option<Pair> {
        let topology = &session.topology;
        let cluster = match &self.rule {
            Rule::Split(Split { groups: Groups::These(pair), .. }) => return Some(*pair),
            Rule::Split(Split { groups: Groups::Named(name), .. }) => {
                topology.clusters().iter().find(|cluster| cluster.name == *name)
            }
            Rule::Hostgroup(Some(id)) => topology.cluster_of(*id),
            _ => topology.cluster_of(session.hostgroup),
        };
        cluster.map(|cluster| Pair { primary: cluster.writer, replicas: cluster.reader })
    }

    /// The hostgroup of the primary of these replicas, where the settings say so and no cluster does.
    pub(crate) fn primary_of(&self, replicas: HostgroupId) -> Option<HostgroupId> {
        match &self.rule {
            Rule::Split(Split { groups: Groups::These(pair), .. }) => {
                (pair.replicas == replicas).then_some(pair.primary)
            }
            _ => None,
        }
    }

    /// Why there is no [`Self::pair`], for people.
    pub(crate) fn no_pair(&self, session: &Session) -> String {
        match &self.rule {
            Rule::Split(Split { groups: Groups::Named(name), .. }) => {
                format!("there is no cluster {name:?}")
            }
            _ => format!("hostgroup {} belongs to no cluster", session.hostgroup),
        }
    }

    pub(crate) fn split(&self) -> Option<&Split> {
        match &self.rule {
            Rule::Split(split) => Some(split),
            Rule::Hostgroup(_) => None,
        }
    }

    /// Whether it must be known what a session has written.
    pub(crate) fn watches_writes(&self) -> bool {
        self.split().is_some_and(|split| split.after_write != AfterWrite::Any)
    }
}

/// How long a read waits for a replica, where nothing is said.
const WAIT: Duration = Duration::from_secs(1);

impl Counters {
    fn new() -> Self {
        let help = "Routing hints that were not followed, by what was in their way";
        let ignored = Family::new("route_hints_ignored", help, "reason");
        let help = "Reads that had to see an earlier write, by where they went";
        let causal = Family::new("causal_reads", help, "server");
        Self {
            in_transaction: ignored.counter("transaction"),
            pinned: ignored.counter("pinned"),
            unknown: ignored.counter("unknown"),
            replica: causal.counter("replica"),
            primary: causal.counter("primary"),
            ignored,
            causal,
        }
    }

    pub(crate) fn families(&self) -> [Family; 2] {
        [self.ignored.clone(), self.causal.clone()]
    }
}
