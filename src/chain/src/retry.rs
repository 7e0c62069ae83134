//! When to try again what has failed.

use std::time::{Duration, Instant};

/// Waits 1 s before the first try, twice as long before each one that follows, at most 60 s.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    next: Instant,
    pause: Duration,
}

impl Retry {
    /// The first pause.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// No pause is longer.
    pub const LONGEST: Duration = Duration::from_secs(60);

    /// It has failed now, for the first time.
    pub fn failed(now: Instant) -> Self {
        Self { next: now + Self::SHORTEST, pause: Self::SHORTEST }
    }

    /// It has failed again, now.
    pub fn again(&mut self, now: Instant) {
        self.pause = (self.pause * 2).min(Self::LONGEST);
        self.next = now + self.pause;
    }

    /// Whether it is time to try.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }
}

#[cfg(test)]
mod tests {
    use super::Retry;
    use std::time::{Duration, Instant};

    #[test]
    fn pauses_double_up_to_the_longest() {
        let start = Instant::now();
        let mut retry = Retry::failed(start);
        assert!(!retry.is_due(start) && retry.is_due(start + Retry::SHORTEST));
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            retry.again(start);
            let pause = Duration::from_secs(seconds);
            assert!(!retry.is_due(start + pause - Duration::from_millis(1)));
            assert!(retry.is_due(start + pause));
        }
    }
}
