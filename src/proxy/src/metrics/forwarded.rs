//! Sessions that have left the chain.

use super::{by_command, durations};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::time::Duration;
use wire::command::CommandCode;

/// What is counted of all of them.
pub(crate) struct Forwarded {
    pub(crate) sessions: Gauge,
    pub(crate) up: Counter,
    pub(crate) down: Counter,
    /// Bytes that a server sent before it closed and that its client did not read in time.
    pub(crate) lost: Counter,
    pub(crate) observed: Observed,
}

/// What is counted of those that are observed.
pub(crate) struct Observed {
    commands: Vec<Counter>,
    errors: Counter,
    duration: Histogram,
    /// Sessions that could not be followed to their end.
    pub(crate) stopped: Counter,
    /// Statements of which nobody is told.
    pub(crate) dropped: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DirectionLabels {
    direction: &'static str,
}

impl Forwarded {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let sessions = Gauge::default();
        let help = "Sessions that have left the chain";
        registry.register("forwarded_sessions", help, sessions.clone());
        let bytes = Family::<DirectionLabels, Counter>::default();
        let help = "Bytes forwarded without a chain";
        registry.register_with_unit("forwarded", help, Unit::Bytes, bytes.clone());
        let direction = |direction| bytes.get_or_create(&DirectionLabels { direction }).clone();
        let lost = Counter::default();
        let help = "Bytes whose client did not read them in time after its server had closed";
        registry.register_with_unit("forwarded_lost", help, Unit::Bytes, lost.clone());
        Self {
            sessions,
            up: direction("up"),
            down: direction("down"),
            lost,
            observed: Observed::new(registry),
        }
    }

    /// Counts bytes that have gone out.
    pub(crate) fn moved(&self, up: u64, down: u64) {
        self.up.inc_by(up);
        self.down.inc_by(down);
    }
}

impl Observed {
    fn new(registry: &mut Registry) -> Self {
        let help = "Commands seen in observed sessions";
        let commands = by_command(registry, "observed_commands", help);
        let errors = Counter::default();
        let help = "Replies that ended with an error in observed sessions";
        registry.register("observed_errors", help, errors.clone());
        let duration = durations();
        let help = "From the beginning of a command to the end of its reply, in observed sessions";
        let name = "observed_command_duration";
        registry.register_with_unit(name, help, Unit::Seconds, duration.clone());
        let stopped = Counter::default();
        let help = "Sessions that could not be observed to their end";
        registry.register("observed_stopped", help, stopped.clone());
        let dropped = Counter::default();
        let help =
            "Statements of observed sessions that have no digest and no span, for want of room";
        registry.register("observed_dropped", help, dropped.clone());
        Self { commands, errors, duration, stopped, dropped }
    }

    /// Counts a command.
    pub(crate) fn asked(&self, command: CommandCode) {
        self.commands[usize::from(command.0)].inc();
    }

    /// Counts a reply that has ended.
    pub(crate) fn answered(&self, failed: bool, took: Duration) {
        self.errors.inc_by(failed.into());
        self.duration.observe(took.as_secs_f64());
    }

    /// How many commands with this code were seen.
    #[cfg(test)]
    pub(crate) fn seen(&self, command: CommandCode) -> u64 {
        self.commands[usize::from(command.0)].get()
    }
}
