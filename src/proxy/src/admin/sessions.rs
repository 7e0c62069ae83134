//! `GET /sessions`: who is there, and what each holds.

use super::{
    Facts,
    guard::{Refusal, Refused, refuse},
    predictions,
};
use crate::{
    backend::sessions::Lease,
    live::{Described, Live},
};
use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
};
use utoipa::{IntoParams, ToSchema};

/// The answer to `GET /sessions`.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionList {
    /// How many there are that fit, shown or not.
    pub(super) total: usize,
    pub(super) sessions: Vec<SessionReport>,
}

/// One session that is logged in.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionReport {
    /// As its client sees it, in `CONNECTION_ID()`.
    id: u32,
    user: Arc<str>,
    /// Its client's address; `localhost` for a unix socket.
    client: String,
    schema: Option<String>,
    /// The listener that it came by, as configured.
    listener: Arc<str>,
    chain: Arc<str>,
    /// Its client was let in, by TLS or not, this long ago.
    age_seconds: f64,
    commands: u64,
    /// A command runs.
    running: bool,
    /// For how long it has run, or none has.
    since_seconds: f64,
    in_transaction: bool,
    /// It has left the chain: nothing more is known of it.
    fast_forward: bool,
    /// The one used last is the last.
    connections: Vec<ConnectionReport>,
    /// What ties it to a connection.
    pins: Vec<&'static str>,
    /// `off`, `while-alive` or `strict`.
    sticky: &'static str,
    /// Where it stays.
    sticky_servers: Vec<StickyReport>,
    /// What it has set, as entries of its log and bytes of their commands.
    log_entries: usize,
    log_bytes: usize,
    /// Whether its session commands may be answered from memory; `null` if its chain never does so.
    predicts: Option<bool>,
    /// Why not.
    predicts_not: Option<&'static str>,
}

/// A connection that a session holds.
#[derive(Serialize, ToSchema)]
struct ConnectionReport {
    hostgroup: u32,
    server: Arc<str>,
    /// Its id on that server.
    thread_id: u32,
    in_transaction: bool,
    /// So many places of the session's log it has not executed; that of its last command is meant.
    lag: u64,
}

/// A server that a session stays on.
#[derive(Serialize, ToSchema)]
struct StickyReport {
    hostgroup: u32,
    /// `null` if it is there no longer.
    server: Option<Arc<str>>,
}

/// How many sessions something ties to a connection.
#[derive(Serialize, ToSchema)]
pub(super) struct PinReport {
    /// `transaction`, or what `pins` of a session says.
    cause: &'static str,
    sessions: usize,
}

/// Which sessions are asked for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// This user's only.
    user: Option<String>,
    /// Those with a command or a transaction under way only.
    #[serde(default)]
    busy: bool,
    /// At most so many, those whose command has run longest first; 100 if left out, at most 10000.
    limit: Option<usize>,
}

/// Who is there, and what each holds
#[utoipa::path(get, path = "/sessions", tag = "seeing", params(Wanted),
    responses((status = 200, body = SessionList)))]
pub(super) async fn all(
    State(facts): State<Arc<Facts>>,
    Query(wanted): Query<Wanted>,
) -> Json<SessionList> {
    Json(list(&facts, &wanted))
}

/// One session
#[utoipa::path(get, path = "/sessions/{id}", tag = "seeing",
    params(("id" = u32, Path, description = "As CONNECTION_ID() says")),
    responses(
        (status = 200, body = SessionReport),
        (status = 404, description = "There is no such session", body = Refusal),
    ))]
pub(super) async fn one(
    State(facts): State<Arc<Facts>>,
    Path(id): Path<u32>,
) -> Result<Json<SessionReport>, Refused> {
    let live = facts.roll.find(id).ok_or_else(|| missing(id))?;
    Ok(Json(SessionReport::of(&facts, id, &live)))
}

/// How many sessions are tied to a connection, by cause
#[utoipa::path(get, path = "/pins", tag = "seeing", responses((status = 200, body = Vec<PinReport>)))]
pub(super) async fn pins(State(facts): State<Arc<Facts>>) -> Json<Vec<PinReport>> {
    Json(pinned(&facts))
}

pub(super) fn pinned(facts: &Facts) -> Vec<PinReport> {
    let mut causes = BTreeMap::<_, usize>::new();
    for (id, _) in facts.roll.all() {
        let Some(entry) = facts.ids.find(id) else { continue };
        if in_transaction(&entry.leases()) {
            *causes.entry("transaction").or_default() += 1;
        }
        for cause in entry.noted.ties() {
            *causes.entry(cause).or_default() += 1;
        }
    }
    causes.into_iter().map(|(cause, sessions)| PinReport { cause, sessions }).collect()
}

pub(super) fn missing(id: u32) -> Refused {
    refuse(StatusCode::NOT_FOUND, format!("there is no session {id}"))
}

/// The busiest sessions.
pub(super) fn busiest(facts: &Facts, limit: usize) -> SessionList {
    list(facts, &Wanted { user: None, busy: false, limit: Some(limit) })
}

fn list(facts: &Facts, wanted: &Wanted) -> SessionList {
    let mut fitting = facts.roll.all();
    if let Some(user) = &wanted.user {
        fitting.retain(|(_, live)| *live.described().session.user == **user);
    }
    if wanted.busy {
        let open = |id| facts.ids.find(id).is_some_and(|entry| in_transaction(&entry.leases()));
        fitting.retain(|(id, live)| live.at_work().0 || open(*id));
    }
    let total = fitting.len();
    // Those at work first, the longest first; then those that were at work last.
    fitting.sort_by_cached_key(|(_, live)| {
        let (running, since) = live.at_work();
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        (!running, if running { -micros } else { micros })
    });
    fitting.truncate(wanted.limit.unwrap_or(100).min(10_000));
    let report = |(id, live): &(u32, Arc<Live>)| SessionReport::of(facts, *id, live);
    SessionList { total, sessions: fitting.iter().map(report).collect() }
}

fn in_transaction(leases: &[Arc<Lease>]) -> bool {
    leases.iter().any(|lease| lease.in_transaction.load(Relaxed))
}

impl SessionReport {
    fn of(facts: &Facts, id: u32, live: &Live) -> Self {
        let Described { session, chain } = live.described();
        let entry = facts.ids.find(id);
        let leases = entry.as_ref().map(|entry| entry.leases()).unwrap_or_default();
        let affinity = entry.as_ref().and_then(|entry| entry.noted.affinity());
        let name = |id: u32| {
            let backend = facts.backends.iter().find(|backend| backend.server.id == id);
            backend.map(|backend| backend.server.name.clone())
        };
        let sticky_servers = affinity.iter().flat_map(|affinity| &affinity.servers);
        let sticky_servers = sticky_servers
            .map(|(hostgroup, id)| StickyReport { hostgroup: hostgroup.0, server: name(*id) });
        let (log_entries, log_bytes) = entry.as_ref().map_or((0, 0), |entry| entry.noted.log());
        let head = entry.as_ref().map(|entry| entry.noted.head()).unwrap_or_default();
        let in_transaction = in_transaction(&leases);
        let predicts = predictions::gives(facts, &chain).then(|| {
            let open = in_transaction.then_some("a transaction is open");
            entry.as_ref().and_then(|entry| entry.noted.no_memory()).or(open)
        });
        let (running, since) = live.at_work();
        let schema = session.current_schema.as_deref();
        Self {
            id,
            user: session.user.clone(),
            client: session.peer.to_string(),
            schema: schema.map(|schema| String::from_utf8_lossy(schema).into_owned()),
            listener: session.listener.clone(),
            chain,
            age_seconds: live.age().as_secs_f64(),
            commands: live.commands(),
            running,
            since_seconds: since.as_secs_f64(),
            in_transaction,
            fast_forward: live.forwarded.load(Relaxed),
            connections: leases.iter().map(|lease| ConnectionReport::of(lease, head)).collect(),
            pins: entry.as_ref().map(|entry| entry.noted.ties()).unwrap_or_default(),
            sticky: affinity.as_ref().map_or("off", |affinity| affinity.mode.name()),
            sticky_servers: sticky_servers.collect(),
            log_entries,
            log_bytes,
            predicts: predicts.map(|off| off.is_none()),
            predicts_not: predicts.flatten(),
        }
    }
}

impl ConnectionReport {
    fn of(lease: &Lease, head: u64) -> Self {
        Self {
            hostgroup: lease.backend.hostgroup.0,
            server: lease.backend.server.name.clone(),
            thread_id: lease.thread_id,
            in_transaction: lease.in_transaction.load(Relaxed),
            lag: head.saturating_sub(lease.head.load(Relaxed)),
        }
    }
}
