//! Answers from memory: what servers have always answered to a session command, they need not be
//! asked again.
//!
//! ```text
//! command ──▶ asked.rs: may it be answered so, and what does its reply depend on?
//!                │ a key: bytes, account, schema, capabilities, what the session has set, ...
//!                ▼
//!             store.rs ──▶ a template ──▶ a reply, and an entry of the log; no server is asked
//!                ▲   └───▶ nothing ────▶ goes down, and its reply is noted
//!                └── evidence.rs: what each server answers when it executes the entry after all
//! ```
//!
//! Decided by the specification's "Prediction": an error is never given from memory, nothing is in a
//! transaction or while something ties the session to its connection, and what turns out to be
//! wrong once is not given again.

mod asked;
mod breaker;
mod entry;
mod epochs;
mod evidence;
mod settings;
mod store;
mod template;

pub use settings::Settings;
pub(crate) use {
    asked::{Asked, Predicting},
    evidence::Evidence,
    template::Template,
};

use breaker::Breaker;
use chain::{
    Topology,
    counters::{Counter, Family},
};
use epochs::Epochs;
use evidence::Avoiding;
use smallvec::SmallVec;
use std::{collections::BTreeMap, sync::Arc, time::Instant};
use store::{Census, Change, Store};

/// What all sessions of a chain know.
#[derive(Debug)]
pub(crate) struct Memory {
    settings: Settings,
    store: Store,
    epochs: Epochs,
    breaker: Breaker,
    counters: Counters,
}

/// What is counted.
#[derive(Debug)]
struct Counters {
    families: [Family; 5],
    predicted: Counter,
    sent: Counter,
    replayed: Counter,
    avoided: Counter,
    hard: Counter,
    soft: Counter,
    wrong: Family,
    avoided_by: Family,
    promoted: Counter,
    spoilt: Counter,
    tripped: Counter,
}

impl Memory {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            store: Store::new(settings),
            epochs: Epochs::default(),
            breaker: Breaker::new(Instant::now()),
            counters: Counters::new(),
        }
    }

    /// For `/metrics`.
    pub(crate) fn families(self: &Arc<Self>) -> Vec<Family> {
        let (keys, rest) = (self.clone(), self.clone());
        let keys = Family::measured(
            "prediction_keys",
            "Session commands that are remembered, by how sure the reply to them is",
            "state",
            move || keys.keys(),
        );
        let rest = Family::measured(
            "prediction_memory",
            "What they take (bytes), and for how many versions of servers nothing is given from \
             memory at the moment (stopped)",
            "what",
            move || rest.rest(),
        );
        self.counters.families.iter().cloned().chain([keys, rest]).collect()
    }

    /// What these servers are counted by.
    fn avoiding(&self, topology: &Topology) -> Box<[Avoiding]> {
        let mut all = BTreeMap::<_, Avoiding>::new();
        for server in topology.hostgroups().iter().flat_map(|group| &group.servers) {
            let one = all.entry(&*server.name).or_insert_with(|| Avoiding {
                ids: SmallVec::new(),
                avoided: self.counters.avoided_by.counter(&*server.name),
            });
            one.ids.push(server.id);
        }
        all.into_values().collect()
    }

    fn keys(&self) -> Vec<(String, u64)> {
        let Census { cold, predictable, volatile, .. } = self.store.census();
        let all = [("cold", cold), ("predictable", predictable), ("volatile", volatile)];
        all.map(|(state, count)| (state.to_owned(), count)).into()
    }

    fn rest(&self) -> Vec<(String, u64)> {
        let stopped = self.breaker.stopped(Instant::now()) as u64;
        vec![("bytes".to_owned(), self.store.census().bytes), ("stopped".to_owned(), stopped)]
    }

    fn count(&self, change: Change) {
        match change {
            Change::None => {}
            Change::Promoted => self.counters.promoted.add_one(),
            Change::Spoilt => self.counters.spoilt.add_one(),
        }
    }
}

impl Counters {
    fn new() -> Self {
        let commands = Family::new(
            "session_commands",
            "Session commands answered from memory (predicted) or by a server (sent), executed on \
             a further connection (replayed), and those from memory that no server ever executed \
             (avoided)",
            "what",
        );
        let mismatches = Family::new(
            "prediction_mismatches",
            "Session commands that another server answered differently than was known, by whether \
             the session's state is another there (hard) or not (soft)",
            "kind",
        );
        let wrong = Family::new(
            "prediction_mismatches_by_class",
            "The same, by the class of the session command",
            "class",
        );
        let avoided_by = Family::new(
            "session_commands_avoided",
            "Session commands that a server never executed, counted when they are of no more use",
            "server",
        );
        let changes = Family::new(
            "prediction_changes",
            "Replies to session commands that have become sure (predictable) or are not any more \
             (volatile), and how often too many were wrong (tripped)",
            "what",
        );
        Self {
            predicted: commands.counter("predicted"),
            sent: commands.counter("sent"),
            replayed: commands.counter("replayed"),
            avoided: commands.counter("avoided"),
            hard: mismatches.counter("hard"),
            soft: mismatches.counter("soft"),
            promoted: changes.counter("predictable"),
            spoilt: changes.counter("volatile"),
            tripped: changes.counter("tripped"),
            families: [commands, mismatches, wrong.clone(), avoided_by.clone(), changes],
            wrong,
            avoided_by,
        }
    }
}
