//! How long servers take, fine enough for percentiles with an error below 1 %.
//!
//! One histogram, three views: quantiles of the last minute, Prometheus' buckets, and the buckets
//! that OpenTelemetry recommends.

use std::{
    array,
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Values are counted in units of 64 ns. Below 128 of them each has a bucket of its own; beyond,
/// each power of two has 64, so that a bucket is at most 1/64 wide and its middle at most 1/128 off.
const UNIT_BITS: u32 = 6;
const SUB_BITS: u32 = 6;
/// Up to 2^36 units: over an hour. What takes longer counts as that.
const TOP_BITS: u32 = 36;
const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// Quantiles are of the last six slots of ten seconds, and of the one that has begun.
const SLOTS: usize = 6;
const SLOT: Duration = Duration::from_secs(10);

/// Durations of one kind of command on one server.
pub(crate) struct Latency {
    buckets: Box<[AtomicU64; BUCKETS]>,
    nanos: AtomicU64,
    /// Locked when quantiles are asked for, and every second by who turns slots.
    recent: Mutex<Recent>,
}

struct Recent {
    /// All counts when the slot began.
    base: Vec<u64>,
    began: Instant,
    /// What was counted in each slot: buckets and counts, where there are any.
    slots: VecDeque<Vec<(usize, u64)>>,
}

impl Default for Latency {
    fn default() -> Self {
        let base = vec![0; BUCKETS];
        let recent = Recent { base, began: Instant::now(), slots: VecDeque::new() };
        let buckets = Box::new(array::from_fn(|_| AtomicU64::new(0)));
        Self { buckets, nanos: AtomicU64::new(0), recent: Mutex::new(recent) }
    }
}

impl Latency {
    /// Counts one.
    pub(crate) fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)].fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    /// All of them together, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        Duration::from_nanos(self.nanos.load(Relaxed)).as_secs_f64()
    }

    /// How many took up to each of `bounds` (seconds, ascending) and longer than the one before; at
    /// the end how many took longer than all.
    pub(super) fn folded(&self, bounds: &[f64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len() + 1];
        let mut at = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            let count = bucket.load(Relaxed);
            if count > 0 {
                let middle = middle(index);
                while bounds.get(at).is_some_and(|bound| middle > *bound) {
                    at += 1;
                }
                counts[at] += count;
            }
        }
        counts
    }

    /// The durations, in seconds, that these shares of the last minute's commands did not exceed.
    /// `None` if there were none.
    pub(super) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> Option<[f64; N]> {
        let counts = self.counts_of_last_minute();
        let all: u64 = counts.iter().sum();
        let quantile = |share: f64| {
            let rank = ((share * all as f64).ceil() as u64).clamp(1, all);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            middle(found.unwrap_or(BUCKETS - 1))
        };
        (all > 0).then(|| shares.map(quantile))
    }

    /// Ends the slot that has begun, if it is over.
    pub(crate) fn turn(&self, now: Instant) {
        let mut recent = self.lock();
        if now.saturating_duration_since(recent.began) < SLOT {
            return;
        }
        let Recent { base, began, slots } = &mut *recent;
        let mut slot = Vec::new();
        for (at, (bucket, base)) in self.buckets.iter().zip(base).enumerate() {
            let count = bucket.load(Relaxed);
            if count > *base {
                slot.push((at, count - *base));
                *base = count;
            }
        }
        *began = now;
        slots.push_back(slot);
        if slots.len() > SLOTS {
            slots.pop_front();
        }
    }

    fn counts_of_last_minute(&self) -> Vec<u64> {
        let recent = self.lock();
        let current = self.buckets.iter().zip(&recent.base);
        let mut counts: Vec<_> =
            current.map(|(bucket, base)| bucket.load(Relaxed).saturating_sub(*base)).collect();
        for (at, count) in recent.slots.iter().flatten() {
            counts[*at] += count;
        }
        counts
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recent> {
        // A panic while locked leaves a slot that is too small.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bucket(nanos: u64) -> usize {
    let units = (nanos >> UNIT_BITS).min((1 << TOP_BITS) - 1);
    let shift = (u64::BITS - units.leading_zeros()).saturating_sub(SUB_BITS + 1);
    ((shift as usize) << SUB_BITS) + (units >> shift) as usize
}

/// The middle of a bucket, in seconds.
fn middle(bucket: usize) -> f64 {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let units = bucket - (shift << SUB_BITS);
    let nanos = ((units as f64) + 0.5) * (1u64 << shift) as f64 * f64::from(1 << UNIT_BITS);
    nanos / 1e9
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Latency, SLOT, SLOTS, bucket, middle};
    use std::time::{Duration, Instant};

    #[test]
    fn a_bucket_s_middle_is_within_a_percent() {
        let mut before = 0;
        let mut nanos = 10_000.0;
        while nanos < 4e12 {
            let at = bucket(nanos as u64);
            assert!((before..BUCKETS).contains(&at), "{nanos}");
            let off = (middle(at) - nanos / 1e9).abs() / (nanos / 1e9);
            assert!(off < 0.01, "{nanos}: {off}");
            before = at;
            nanos *= 1.003;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket(0), 0);
    }

    #[test]
    fn quantiles_are_of_the_last_minute() {
        let latency = Latency::default();
        assert_eq!(latency.quantiles([0.5]), None);
        (1..=1000).for_each(|n| latency.record(Duration::from_micros(n * 100)));
        let near = |latency: &Latency, share: f64, seconds: f64| {
            let [found] = latency.quantiles([share]).expect("there are some");
            assert!((found - seconds).abs() < seconds / 100.0, "{share}: {found}, not {seconds}");
        };
        for (share, seconds) in [(0.5, 0.05), (0.99, 0.099), (0.999, 0.0999), (0.0, 0.0001)] {
            near(&latency, share, seconds);
        }
        let mut now = Instant::now();
        now += SLOT;
        latency.turn(now);
        near(&latency, 0.99, 0.099);
        latency.turn(now + SLOT / 2);
        for _ in 0..SLOTS {
            now += SLOT;
            latency.turn(now);
        }
        assert_eq!(latency.quantiles([0.5]), None);
        latency.record(Duration::from_secs(2));
        near(&latency, 0.5, 2.0);
        assert_eq!(latency.folded(&[]), [1001]);
    }

    #[test]
    fn it_is_folded_into_wider_buckets() {
        let latency = Latency::default();
        for millis in [1, 2, 30, 40, 50, 5000] {
            latency.record(Duration::from_millis(millis));
        }
        assert_eq!(latency.folded(&[0.01, 0.1, 1.0]), [2, 3, 0, 1]);
        assert!((latency.seconds() - 5.123).abs() < 1e-6);
    }
}
