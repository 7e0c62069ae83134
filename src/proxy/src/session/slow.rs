//! Commands whose replies took long: a line of the log for each, with no values in it.

use super::watch::Seen;
use crate::window::Window;
use std::time::Duration;

/// What is slow, and how much of it is told.
pub(crate) struct SlowLog {
    threshold: Duration,
    window: Window,
}

impl SlowLog {
    /// None for a threshold of 0.
    pub(crate) fn of(threshold: Duration) -> Option<Self> {
        (!threshold.is_zero()).then(|| Self { threshold, window: Window::new() })
    }

    /// Tells of a command that is over, if it was slow.
    pub(super) fn saw(&self, seen: &Seen<'_>) {
        if seen.took >= self.threshold
            && let Some(left_out) = self.window.admit()
        {
            tell(seen, left_out);
        }
    }
}

fn tell(seen: &Seen<'_>, left_out: u64) {
    let digest = seen.digest();
    let words = digest.map(|digest| String::from_utf8_lossy(digest.text.as_ref()));
    let schema = seen.session.current_schema.as_ref();
    let schema = schema.map(|schema| String::from_utf8_lossy(schema));
    tracing::info!(
        target: "slow",
        session = seen.session.id,
        user = &*seen.session.user,
        schema = schema.as_deref(),
        client = %seen.session.peer,
        command = seen.code.name(),
        digest = digest.map(|digest| digest.hash.to_string()),
        digest_text = words.as_deref(),
        hostgroup = seen.target.map(|target| target.hostgroup.0),
        server = seen.target.map(|target| &*target.server.name),
        microseconds = seen.microseconds(),
        bytes = seen.ended.map(|ended| ended.bytes),
        error = seen.ended.and_then(|ended| ended.error),
        left_out = (left_out > 0).then_some(left_out),
        "{}", seen.outcome()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_threshold_nothing_is_watched() {
        assert!(SlowLog::of(Duration::ZERO).is_none());
        assert!(SlowLog::of(Duration::from_millis(1)).is_some());
    }
}
