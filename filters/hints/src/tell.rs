//! Telling the operator what was asked for, and what of it does not count.

use crate::key::{Key, Keys};
use chain::counters::{Counter, Family};
use std::time::{Duration, Instant};

/// How long a session is silent after a line about its hints.
const PAUSE: Duration = Duration::from_secs(60);

/// One counter for each key.
#[derive(Clone, Debug)]
pub(crate) struct Counts(Vec<Counter>);

/// When one session's hints are worth a line in the log.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Option<Instant>);

impl Counts {
    pub(crate) fn of(family: &Family) -> Self {
        Self(Key::ALL.iter().map(|key| family.counter(key.name())).collect())
    }

    pub(crate) fn count(&self, keys: Keys) {
        keys.iter().for_each(|key| self.0[key as usize].add_one());
    }
}

impl Complaints {
    /// Says which hints are ignored, at most once a minute.
    pub(crate) fn about(&mut self, session: u32, keys: Keys) {
        if self.is_due(Instant::now()) {
            let keys = keys.names().join(", ");
            tracing::warn!(session, keys, "hints are ignored: their values do not fit");
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.0.is_none_or(|last| now.duration_since(last) >= PAUSE);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::{Complaints, PAUSE};
    use std::time::{Duration, Instant};

    #[test]
    fn a_session_is_complained_about_once_a_minute() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        let moment = Duration::from_millis(1);
        let due = [Duration::ZERO, moment, PAUSE - moment, PAUSE, PAUSE + moment, 2 * PAUSE]
            .map(|later| complaints.is_due(start + later));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
