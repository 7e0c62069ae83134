//! One rule, ready to be asked.

use crate::{
    address::{Clients, Listener},
    pattern::{Pattern, Replacement},
    row::Row,
};
use chain::{
    HostgroupId, Session,
    counters::Counter,
    facts::{Caching, Multiplex, RuleVerdict},
};
use serde_json::{Map, Value};
use sql::DigestHash;
use std::{sync::Arc, time::Duration};

/// One active rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) id: u32,
    /// As it was written, for whoever explains it.
    pub(crate) row: Row,
    pub(crate) flag: u32,
    pub(crate) session: OfSession,
    pub(crate) text: OfText,
    pub(crate) replacement: Option<Replacement>,
    pub(crate) exit: Exit,
    pub(crate) actions: Actions,
    pub(crate) hits: Counter,
}

/// Predicates about the session: true or false for as long as it is in a schema.
#[derive(Debug, Default)]
pub(crate) struct OfSession {
    pub(crate) user: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) clients: Option<Clients>,
    pub(crate) listener: Option<Listener>,
    pub(crate) port: Option<u16>,
}

/// Predicates about the statement.
#[derive(Debug, Default)]
pub(crate) struct OfText {
    pub(crate) hash: Option<DigestHash>,
    pub(crate) digest: Option<Pattern>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) negated: bool,
}

/// How the walk goes on behind the rule.
#[derive(Debug)]
pub(crate) enum Exit {
    /// Not at all.
    Apply,
    /// With the same label.
    On,
    /// With another one.
    Flag(u32),
    /// With one of these, chosen by weight.
    Weighted(Vec<(u32, u32)>),
}

/// What a rule decides. What is `None` it leaves as it is.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) hostgroup: Option<HostgroupId>,
    pub(crate) cache: Option<Caching>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: Option<u32>,
    pub(crate) delay: Option<Duration>,
    pub(crate) next_flag: Option<u32>,
    pub(crate) mirror: Option<HostgroupId>,
    pub(crate) mirror_flag: Option<u32>,
    pub(crate) error: Option<Arc<str>>,
    pub(crate) ok: Option<Arc<str>>,
    pub(crate) sticky: Option<bool>,
    pub(crate) multiplex: Option<Multiplex>,
    pub(crate) gtid_from: Option<HostgroupId>,
    pub(crate) log: Option<bool>,
    pub(crate) switch: bool,
}

/// What the rules have decided about one command.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) verdict: RuleVerdict,
    /// The statement's new text.
    pub(crate) text: Option<Vec<u8>>,
    /// It would have become too long.
    pub(crate) too_long: bool,
    pub(crate) delay: Option<Duration>,
    pub(crate) next_flag: Option<u32>,
    pub(crate) mirror_flag: Option<u32>,
    pub(crate) error: Option<Arc<str>>,
    pub(crate) ok: Option<Arc<str>>,
}

impl OfSession {
    pub(crate) fn hold(&self, session: &Session) -> bool {
        let schema = session.current_schema.as_deref();
        self.user.as_deref().is_none_or(|user| *user == *session.user)
            && self.schema.as_deref().is_none_or(|name| schema == Some(name.as_bytes()))
            && self.port.is_none_or(|port| port == session.port)
            && self.clients.as_ref().is_none_or(|clients| clients.has(session.peer))
            && self.listener.as_ref().is_none_or(|listener| listener.is(&session.listener))
    }
}

impl OfText {
    /// Whether a command without a text can match.
    pub(crate) fn is_empty(&self) -> bool {
        self.hash.is_none() && self.digest.is_none() && self.pattern.is_none()
    }
}

impl Actions {
    /// Overwrites what `outcome` says, where these actions say something.
    pub(crate) fn put(&self, outcome: &mut Outcome) {
        fn put<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        let verdict = &mut outcome.verdict;
        put(&mut verdict.hostgroup, &self.hostgroup);
        put(&mut verdict.timeout, &self.timeout);
        put(&mut verdict.retries, &self.retries);
        put(&mut verdict.mirror, &self.mirror);
        put(&mut verdict.multiplex, &self.multiplex);
        put(&mut verdict.sticky, &self.sticky);
        put(&mut verdict.gtid_from, &self.gtid_from);
        put(&mut verdict.log, &self.log);
        verdict.switch_to_fast_forward |= self.switch;
        put(&mut verdict.cache, &self.cache);
        put(&mut outcome.delay, &self.delay);
        put(&mut outcome.next_flag, &self.next_flag);
        put(&mut outcome.mirror_flag, &self.mirror_flag);
        put(&mut outcome.error, &self.error);
        put(&mut outcome.ok, &self.ok);
    }
}

impl Rule {
    /// The label behind this rule.
    pub(crate) fn flag_out(&self, random: &mut fastrand::Rng) -> Option<u32> {
        match &self.exit {
            Exit::Apply | Exit::On => None,
            Exit::Flag(flag) => Some(*flag),
            Exit::Weighted(flags) => {
                let total = flags.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let mut turn = random.u64(0..total);
                let chosen = flags.iter().find(|(_, weight)| {
                    let here = turn < u64::from(*weight);
                    turn = turn.saturating_sub(u64::from(*weight));
                    here
                });
                chosen.map(|(flag, _)| *flag)
            }
        }
    }

    /// For people: its id, its comment and what it sets.
    pub(crate) fn explained(&self, flag_out: Option<u32>) -> Value {
        let row = serde_json::to_value(&self.row);
        let mut set: Map<String, Value> = match row {
            Ok(Value::Object(row)) => row
                .into_iter()
                .filter(|(key, value)| {
                    !crate::row::PREDICATES.contains(&key.as_str())
                        && !matches!(value, Value::Null | Value::Bool(false))
                })
                .collect(),
            _ => Map::new(),
        };
        if let Some(flag) = flag_out {
            set.insert("flagOUT".to_owned(), flag.into());
        }
        let comment = self.row.comment.clone();
        let mut explained = Map::from_iter([("rule_id".to_owned(), self.id.into())]);
        explained.extend(comment.map(|comment| ("comment".to_owned(), comment.into())));
        explained.insert("sets".to_owned(), Value::Object(set));
        Value::Object(explained)
    }
}
