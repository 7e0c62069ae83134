//! What has been seen of a proxy: the last overview, and how its counters have moved.

use crate::sessions::Sessions;
use serde::Deserialize;
use std::collections::{HashMap, VecDeque};

/// What is read of `GET /overview`.
#[derive(Deserialize)]
pub(crate) struct Overview {
    unix_time: f64,
    pub(crate) status: Status,
    totals: Totals,
    pub(crate) pools: Vec<Pool>,
    pub(crate) sessions: Sessions,
    pub(crate) digests: Option<Vec<Digest>>,
}

#[derive(Deserialize)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) uptime_seconds: f64,
    pub(crate) state: String,
    pub(crate) sessions: i64,
}

#[derive(Deserialize)]
struct Totals {
    commands: u64,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Pool {
    pub(crate) hostgroup: u32,
    pub(crate) server: String,
    pub(crate) state: String,
    pub(crate) attached: u32,
    pub(crate) idle: u32,
    pub(crate) outstanding: u32,
    answered: u64,
    answered_seconds: f64,
}

#[derive(Deserialize)]
pub(crate) struct Digest {
    pub(crate) text: String,
    pub(crate) user: String,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) seconds: f64,
    pub(crate) p99_seconds: f64,
}

/// How a server's counters have moved since the overview before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moved {
    /// Commands a second.
    pub(crate) rate: f64,
    /// Seconds for one, if there was one.
    pub(crate) time: Option<f64>,
}

/// Everything that is shown.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) last: Option<Overview>,
    pub(crate) servers: HashMap<(u32, String), Moved>,
    /// Commands a second, the newest last.
    pub(crate) rates: VecDeque<u64>,
    /// Why there is nothing newer.
    pub(crate) failure: Option<String>,
}

/// How many rates are kept.
const RATES: usize = 300;

impl Seen {
    /// A newer overview.
    pub(crate) fn add(&mut self, overview: Overview) {
        if let Some(before) = &self.last {
            let passed = (overview.unix_time - before.unix_time).max(0.001);
            // A process that was started anew counts from 0 on.
            let commands = overview.totals.commands.saturating_sub(before.totals.commands);
            self.rates.push_back((commands as f64 / passed).round() as u64);
            if self.rates.len() > RATES {
                self.rates.pop_front();
            }
            let pools = overview.pools.iter();
            self.servers = pools.map(|pool| (pool.key(), pool.moved(before, passed))).collect();
        }
        (self.last, self.failure) = (Some(overview), None);
    }

    /// There is none, and why.
    pub(crate) fn failed(&mut self, why: String) {
        self.failure = Some(why);
    }
}

impl Pool {
    pub(crate) fn key(&self) -> (u32, String) {
        (self.hostgroup, self.server.clone())
    }

    fn moved(&self, before: &Overview, passed: f64) -> Moved {
        let Some(old) = before.pools.iter().find(|old| old.key() == self.key()) else {
            return Moved::default();
        };
        let answered = self.answered.saturating_sub(old.answered) as f64;
        let time = (self.answered_seconds - old.answered_seconds) / answered;
        Moved { rate: answered / passed, time: (answered > 0.0).then_some(time) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Moved, Overview, Seen};
    use serde_json::json;

    fn overview(unix_time: f64, commands: u64, seconds: f64) -> Overview {
        serde_json::from_value(json!({
            "unix_time": unix_time,
            "status": { "version": "0", "uptime_seconds": 1, "state": "running", "sessions": 1 },
            "totals": { "commands": commands },
            "pools": [{
                "hostgroup": 0, "server": "db1", "state": "online", "attached": 1, "idle": 0,
                "outstanding": 0, "answered": commands, "answered_seconds": seconds,
            }],
            "sessions": { "total": 0, "sessions": [] },
            "digests": null,
        }))
        .expect("an overview")
    }

    #[test]
    fn rates_are_what_was_added() {
        let mut seen = Seen::default();
        seen.add(overview(10.0, 100, 1.0));
        assert!(seen.rates.is_empty());
        seen.add(overview(12.0, 300, 2.0));
        assert_eq!(seen.rates, [100]);
        let moved = seen.servers[&(0, "db1".to_owned())];
        assert_eq!(moved, Moved { rate: 100.0, time: Some(0.005) });
        // started anew
        seen.add(overview(13.0, 5, 0.1));
        assert_eq!(seen.rates, [100, 0]);
    }
}
