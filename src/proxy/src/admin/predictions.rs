//! `GET /predictions`: what chains answer from memory, and how sure that is.

use super::Facts;
use axum::{Json, extract::State};
use chain::{Chain, counters::Family};
use serde::Serialize;
use std::{collections::HashMap, sync::Arc};
use utoipa::ToSchema;

/// What one chain answers from memory.
#[derive(Serialize, ToSchema)]
pub(super) struct PredictionReport {
    chain: Arc<str>,
    commands: CommandCounts,
    /// Answers from memory that a server has not confirmed.
    mismatches: MismatchCounts,
    changes: ChangeCounts,
    keys: KeyCounts,
    /// Memory that they take.
    bytes: u64,
    /// For how many versions of servers nothing is given at the moment: too many answers were wrong.
    stopped: u64,
}

/// Session commands.
#[derive(Serialize, ToSchema)]
struct CommandCounts {
    /// Answered from memory.
    predicted: u64,
    /// Answered by a server.
    sent: u64,
    /// Executed on a further connection.
    replayed: u64,
    /// Answered from memory, and never executed by any server.
    avoided: u64,
}

/// By what was wrong.
#[derive(Serialize, ToSchema)]
struct MismatchCounts {
    /// The session's state was another.
    hard: u64,
    /// It was not.
    soft: u64,
}

/// What was found out about replies.
#[derive(Serialize, ToSchema)]
struct ChangeCounts {
    /// They have become sure.
    predictable: u64,
    /// There was another one.
    volatile: u64,
    /// How often too many were wrong.
    tripped: u64,
}

/// Commands that are remembered, by how sure the reply to them is.
#[derive(Serialize, ToSchema)]
struct KeyCounts {
    cold: u64,
    predictable: u64,
    volatile: u64,
}

/// What chains answer from memory
///
/// One entry for each chain whose `session-commands` has `mode = "predict"`.
#[utoipa::path(get, path = "/predictions", tag = "seeing",
    responses((status = 200, body = Vec<PredictionReport>)))]
pub(super) async fn all(State(facts): State<Arc<Facts>>) -> Json<Vec<PredictionReport>> {
    Json(facts.chains().iter().filter_map(PredictionReport::of).collect())
}

/// Whether this chain answers anything from memory.
pub(super) fn gives(facts: &Facts, chain: &str) -> bool {
    let chains = facts.chains();
    let chain = chains.iter().find(|known| **known.name() == *chain);
    chain.is_some_and(|chain| chain.counters().any(|family| family.name() == KEYS))
}

/// Counted by `session-commands` where it answers from memory.
const KEYS: &str = "prediction_keys";

impl PredictionReport {
    /// `None` for a chain that gives no such answers.
    fn of(chain: &Chain) -> Option<Self> {
        let families: Vec<&Family> = chain.counters().collect();
        let counts = |name: &str| -> Option<HashMap<String, u64>> {
            let family = families.iter().find(|family| family.name() == name)?;
            Some(family.counts().into_iter().collect())
        };
        let keys = counts(KEYS)?;
        let [commands, mismatches, changes, memory] = [
            "session_commands",
            "prediction_mismatches",
            "prediction_changes",
            "prediction_memory",
        ]
        .map(|name| counts(name).unwrap_or_default());
        let of =
            |counts: &HashMap<String, u64>, what| counts.get(what).copied().unwrap_or_default();
        Some(Self {
            chain: chain.name().clone(),
            commands: CommandCounts {
                predicted: of(&commands, "predicted"),
                sent: of(&commands, "sent"),
                replayed: of(&commands, "replayed"),
                avoided: of(&commands, "avoided"),
            },
            mismatches: MismatchCounts {
                hard: of(&mismatches, "hard"),
                soft: of(&mismatches, "soft"),
            },
            changes: ChangeCounts {
                predictable: of(&changes, "predictable"),
                volatile: of(&changes, "volatile"),
                tripped: of(&changes, "tripped"),
            },
            keys: KeyCounts {
                cold: of(&keys, "cold"),
                predictable: of(&keys, "predictable"),
                volatile: of(&keys, "volatile"),
            },
            bytes: of(&memory, "bytes"),
            stopped: of(&memory, "stopped"),
        })
    }
}
