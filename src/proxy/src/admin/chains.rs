//! `GET /chains`, `GET /rules`, `GET /counters`: what commands go through, and what was counted there.

use super::Facts;
use axum::{Json, extract::State};
use chain::{
    Part,
    composition::{Filter, Taken},
};
use serde::Serialize;
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};
use utoipa::ToSchema;

/// One chain.
#[derive(Serialize, ToSchema)]
pub(super) struct ChainReport {
    name: Arc<str>,
    /// From the client to the servers.
    filters: Vec<FilterReport>,
    /// What is taken below the filters of sessions: a connection is found, or opened.
    dispatch: TimeReport,
    /// What servers take, with the way to them.
    servers: TimeReport,
}

/// One filter of a chain.
#[derive(Serialize, ToSchema)]
struct FilterReport {
    name: String,
    /// `session`: once for each session; `backend`: once for each connection.
    part: &'static str,
    /// What it takes on its own, without what is below it.
    time: TimeReport,
    counters: Vec<CounterReport>,
}

/// What the commands that are measured have taken at one place in a chain: a few of some sessions.
#[derive(Serialize, ToSchema)]
struct TimeReport {
    /// How many were measured there.
    commands: u64,
    /// Until the first bytes of their replies, all together.
    seconds: f64,
}

/// What a filter counts, by the values of a label.
#[derive(Serialize, ToSchema)]
pub(super) struct CounterReport {
    chain: Arc<str>,
    filter: String,
    /// What stands in Prometheus' text between `towpath_` and `_total`.
    name: &'static str,
    help: &'static str,
    label: &'static str,
    counts: Vec<CountReport>,
}

/// One counter.
#[derive(Serialize, ToSchema)]
struct CountReport {
    value: String,
    count: u64,
}

/// One rule of a chain.
#[derive(Serialize, ToSchema)]
pub(super) struct RuleReport {
    chain: Arc<str>,
    rule_id: u64,
    /// Commands that it has matched.
    hits: u64,
    /// Its columns, as they are written.
    #[schema(value_type = Object)]
    rule: Value,
}

/// The chains, each with its filters and what they count
#[utoipa::path(get, path = "/chains", tag = "seeing", responses((status = 200, body = Vec<ChainReport>)))]
pub(super) async fn all(State(facts): State<Arc<Facts>>) -> Json<Vec<ChainReport>> {
    Json(reports(&facts))
}

/// The query rules, in their order, with their hits
#[utoipa::path(get, path = "/rules", tag = "seeing", responses((status = 200, body = Vec<RuleReport>)))]
pub(super) async fn rules(State(facts): State<Arc<Facts>>) -> Json<Vec<RuleReport>> {
    Json(hits(&facts))
}

/// What the filters count: hints, sticky modes, predictions, ...
#[utoipa::path(get, path = "/counters", tag = "seeing", responses((status = 200, body = Vec<CounterReport>)))]
pub(super) async fn counters(State(facts): State<Arc<Facts>>) -> Json<Vec<CounterReport>> {
    let of = |report: ChainReport| report.filters.into_iter().flat_map(|filter| filter.counters);
    Json(reports(&facts).into_iter().flat_map(of).collect())
}

pub(super) fn reports(facts: &Facts) -> Vec<ChainReport> {
    let report = |chain: &chain::Chain| ChainReport {
        name: chain.name().clone(),
        filters: chain.filters().map(|filter| FilterReport::of(chain.name(), &filter)).collect(),
        dispatch: chain.taken_by_dispatch().into(),
        servers: chain.taken_by_servers().into(),
    };
    facts.chains().iter().map(report).collect()
}

pub(super) fn hits(facts: &Facts) -> Vec<RuleReport> {
    let mut reports = Vec::new();
    for chain in &facts.chains() {
        for Filter { layer, .. } in chain.filters().filter(|filter| filter.name == "rules") {
            let counts = layer.counters().iter().filter(|family| family.name() == "rule_hits");
            let hits: HashMap<_, _> = counts.flat_map(|family| family.counts()).collect();
            let rows = layer.shown().and_then(Value::as_array);
            reports.extend(rows.into_iter().flatten().map(|rule| {
                let rule_id = rule["rule_id"].as_u64().unwrap_or_default();
                let hits = hits.get(&rule_id.to_string()).copied().unwrap_or_default();
                RuleReport { chain: chain.name().clone(), rule_id, hits, rule: rule.clone() }
            }));
        }
    }
    reports
}

impl FilterReport {
    fn of(chain: &Arc<str>, Filter { name, part, layer, taken }: &Filter<'_>) -> Self {
        let counters = layer.counters().iter().map(|family| CounterReport {
            chain: chain.clone(),
            filter: (*name).to_owned(),
            name: family.name(),
            help: family.help(),
            label: family.label(),
            counts: family
                .counts()
                .into_iter()
                .map(|(value, count)| CountReport { value, count })
                .collect(),
        });
        let part = if *part == Part::Backend { "backend" } else { "session" };
        let (name, time) = ((*name).to_owned(), (*taken).into());
        Self { name, part, time, counters: counters.collect() }
    }
}

impl From<Taken> for TimeReport {
    fn from(Taken { commands, time }: Taken) -> Self {
        Self { commands, seconds: time.as_secs_f64() }
    }
}
