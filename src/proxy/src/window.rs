//! So many lines of the log in a second, and the rest is counted.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The lines of one kind.
pub(crate) struct Window {
    /// Locked for a moment by whatever would be a line.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    began: Instant,
    written: u32,
    /// Since the line before.
    left_out: u64,
}

/// Lines that are written in one second.
const MOST: u32 = 10;

impl Window {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { began: Instant::now(), written: 0, left_out: 0 }) }
    }

    /// Whether there is room for a line now, and how many were left out before it.
    pub(crate) fn admit(&self) -> Option<u64> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now())
    }
}

impl State {
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.began) >= Duration::from_secs(1) {
            (self.began, self.written) = (now, 0);
        }
        if self.written >= MOST {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_second_and_the_rest_is_counted() {
        let now = Instant::now();
        let mut window = State { began: now, written: 0, left_out: 0 };
        assert!((0..MOST).all(|_| window.admit(now) == Some(0)));
        assert!((0..3).all(|_| window.admit(now + Duration::from_millis(999)).is_none()));
        assert_eq!(window.admit(now + Duration::from_secs(1)), Some(3));
        assert_eq!(window.admit(now + Duration::from_secs(1)), Some(0));
    }
}
