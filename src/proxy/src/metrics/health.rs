//! Health of servers.

use super::{ServerLabels, StateLabels};
use crate::backend::health::machine::{Lag, STATES, state_name};
use chain::{HostgroupId, topology::ServerState};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::sync::atomic::AtomicU64;

type Seconds = Gauge<f64, AtomicU64>;

/// Counted for each server of each hostgroup, or for each server wherever it stands.
#[derive(Clone, Default)]
pub(crate) struct Health {
    states: Family<StateLabels, Gauge>,
    members: Family<ServerLabels, Gauge>,
    transitions: Family<TransitionLabels, Counter>,
    probes: Family<ProbeLabels, Counter>,
    lag: Family<NameLabels, Seconds>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NameLabels {
    server: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TransitionLabels {
    server: String,
    from: &'static str,
    to: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ProbeLabels {
    server: String,
    probe: &'static str,
    result: &'static str,
}

impl Health {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "1 for the state that a server is in, 0 for the others";
        registry.register("backend_state", help, self.states.clone());
        let help = "1 for a server that belongs to the hostgroup now";
        registry.register("backend_member", help, self.members.clone());
        let help = "Changes of a server's state or role";
        registry.register("backend_transitions", help, self.transitions.clone());
        let help = "Questions of the monitor";
        registry.register("backend_probes", help, self.probes.clone());
        let help = "How far a server is behind its primary; NaN where nobody knows";
        registry.register_with_unit("backend_lag", help, Unit::Seconds, self.lag.clone());
    }

    pub(crate) fn is_in(&self, hostgroup: HostgroupId, server: &str, state: ServerState) {
        for one in STATES {
            let labels = StateLabels {
                hostgroup: hostgroup.0,
                server: server.to_owned(),
                state: state_name(one),
            };
            self.states.get_or_create(&labels).set(i64::from(one == state));
        }
    }

    pub(crate) fn is_member(&self, hostgroup: HostgroupId, server: &str, member: bool) {
        let labels = ServerLabels { hostgroup: hostgroup.0, server: server.to_owned() };
        self.members.get_or_create(&labels).set(i64::from(member));
    }

    /// Shows the server no more in this hostgroup.
    pub(crate) fn forget(&self, hostgroup: HostgroupId, server: &str) {
        for one in STATES {
            let labels = StateLabels {
                hostgroup: hostgroup.0,
                server: server.to_owned(),
                state: state_name(one),
            };
            self.states.remove(&labels);
        }
        let labels = ServerLabels { hostgroup: hostgroup.0, server: server.to_owned() };
        self.members.remove(&labels);
    }

    /// Shows the server no more, wherever it stood.
    pub(crate) fn forget_everywhere(&self, server: &str) {
        self.lag.remove(&NameLabels { server: server.to_owned() });
        for probe in ["ping", "read-only", "lag"] {
            for result in ["ok", "failed"] {
                let server = server.to_owned();
                self.probes.remove(&ProbeLabels { server, probe, result });
            }
        }
    }

    pub(crate) fn changed(&self, server: &str, from: &'static str, to: &'static str) {
        let labels = TransitionLabels { server: server.to_owned(), from, to };
        self.transitions.get_or_create(&labels).inc();
    }

    pub(crate) fn probed(&self, server: &str, probe: &'static str, well: bool) {
        let result = if well { "ok" } else { "failed" };
        let labels = ProbeLabels { server: server.to_owned(), probe, result };
        self.probes.get_or_create(&labels).inc();
    }

    pub(crate) fn is_behind(&self, server: &str, lag: Lag) {
        let seconds = match lag {
            Lag::Unknown => f64::NAN,
            Lag::Stopped => f64::INFINITY,
            Lag::By(lag) => lag.as_secs_f64(),
        };
        self.lag.get_or_create(&NameLabels { server: server.to_owned() }).set(seconds);
    }
}
