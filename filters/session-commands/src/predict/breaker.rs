//! Stops all answers from memory for a version of servers that has taken too many of them back.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

/// See the module. Counts may be a little off where two come at once.
#[derive(Debug)]
pub(crate) struct Breaker {
    began: Instant,
    slots: [Slot; SLOTS],
}

/// One profile, or several that happen to share it. Times are in ms since the breaker began.
#[derive(Debug, Default)]
struct Slot {
    since: AtomicU64,
    right: AtomicU64,
    wrong: AtomicU64,
    off_until: AtomicU64,
}

const SLOTS: usize = 16;
const WINDOW: u64 = 60_000;
const PAUSE: u64 = 300_000;
/// Fewer wrong ones say nothing.
const FEWEST: u64 = 5;

impl Breaker {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, slots: Default::default() }
    }

    /// Whether nothing is to be given from memory for servers of this profile.
    pub(crate) fn is_off(&self, profile: Option<NonZeroU64>, now: Instant) -> bool {
        self.slot(profile).off_until.load(Relaxed) > self.ms(now)
    }

    /// For how many versions nothing is given.
    pub(crate) fn stopped(&self, now: Instant) -> usize {
        let now = self.ms(now);
        self.slots.iter().filter(|slot| slot.off_until.load(Relaxed) > now).count()
    }

    /// Takes in that a server has confirmed an answer from memory, or has not; `rate` is in percent.
    /// True if that was one too many.
    pub(crate) fn verified(
        &self,
        profile: Option<NonZeroU64>,
        right: bool,
        rate: u8,
        now: Instant,
    ) -> bool {
        let (slot, now) = (self.slot(profile), self.ms(now));
        if now.saturating_sub(slot.since.load(Relaxed)) >= WINDOW {
            slot.since.store(now, Relaxed);
            slot.right.store(0, Relaxed);
            slot.wrong.store(0, Relaxed);
        }
        if right {
            slot.right.fetch_add(1, Relaxed);
            return false;
        }
        let wrong = slot.wrong.fetch_add(1, Relaxed) + 1;
        let all = wrong + slot.right.load(Relaxed);
        let trips = wrong >= FEWEST && wrong * 100 > all * u64::from(rate);
        trips && slot.off_until.swap(now + PAUSE, Relaxed) <= now
    }

    fn slot(&self, profile: Option<NonZeroU64>) -> &Slot {
        &self.slots[profile.map_or(0, NonZeroU64::get) as usize % SLOTS]
    }

    fn ms(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Breaker;
    use std::{
        num::NonZeroU64,
        time::{Duration, Instant},
    };

    #[test]
    fn too_many_wrong_answers_stop_them_for_a_while() {
        let begin = Instant::now();
        let (breaker, one, other) = (Breaker::new(begin), NonZeroU64::new(1), NonZeroU64::new(2));
        for _ in 0..100 {
            assert!(!breaker.verified(one, true, 5, begin));
        }
        let now = begin + Duration::from_secs(59);
        for wrong in 1..=6 {
            assert_eq!(breaker.verified(one, false, 5, now), wrong == 6, "{wrong} of 100 and some");
        }
        assert!(breaker.is_off(one, now) && !breaker.is_off(other, now));
        assert!(!breaker.verified(one, false, 5, now), "it is off already");
        assert!(!breaker.is_off(one, now + Duration::from_secs(300)));
        let later = now + Duration::from_secs(61);
        for _ in 0..4 {
            assert!(!breaker.verified(other, false, 0, later), "too few to tell");
        }
        assert!(breaker.verified(other, false, 0, later));
    }
}
