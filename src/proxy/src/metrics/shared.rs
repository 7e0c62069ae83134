//! Connections that sessions share.

use super::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::collections::BTreeMap;

/// What becomes of connections between two commands.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// The session got its own again.
    pub(crate) own: Counter,
    /// Another's, in the state that it needed.
    pub(crate) equal: Counter,
    /// Another's, which was reset.
    pub(crate) renewed: Counter,
    pinned: Family<CauseLabels, Gauge>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CauseLabels {
    cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FitLabels {
    fit: &'static str,
}

impl Shared {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let shared = Self::default();
        let taken = Family::<FitLabels, Counter>::default();
        let help = "Connections taken from the pool that had a session before";
        registry.register("backend_shared", help, taken.clone());
        let of = |fit| taken.get_or_create(&FitLabels { fit }).clone();
        let shared = Self { own: of("own"), equal: of("equal"), renewed: of("renewed"), ..shared };
        let help = "Sessions that keep a connection between two commands, by the cause";
        registry.register("sessions_pinned", help, shared.pinned.clone());
        shared
    }
}

impl Metrics {
    /// Notes how many sessions keep a connection for each cause.
    pub(crate) fn pinned(&self, pins: &BTreeMap<&'static str, u32>) {
        let pinned = &self.shared.pinned;
        pinned.clear();
        for (cause, sessions) in pins {
            pinned.get_or_create(&CauseLabels { cause }).set((*sessions).into());
        }
    }
}
