//! What a filter counts for its operator: numbers that the admin port shows.
//!
//! A family is made with the filter's layer and given to [`Layer::counting`](crate::Layer::counting).
//! Adding to a counter looks nothing up and takes no lock.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// A number that only grows, from 0 on. Clones count together.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

/// Counters of one name, told apart by the value of one label.
#[derive(Clone)]
pub struct Family(Arc<Inner>);

struct Inner {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    /// Locked when a counter is made and when all are read.
    counters: Mutex<Vec<(String, Counter)>>,
    /// Where the numbers are looked up instead: they may fall again.
    measure: Option<Measure>,
}

/// Says what each value of the label has now.
type Measure = Box<dyn Fn() -> Vec<(String, u64)> + Send + Sync>;

impl Counter {
    /// One more.
    pub fn add_one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// So many more: counted by another one before a reload.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Family {
    /// A family without counters. `name` is what stands between `towpath_` and `_total` in
    /// Prometheus' text; `help` ends without a full stop; `label` is a name of Prometheus'.
    pub fn new(name: &'static str, help: &'static str, label: &'static str) -> Self {
        let (counters, measure) = (Mutex::default(), None);
        Self(Arc::new(Inner { name, help, label, counters, measure }))
    }

    /// Numbers that rise and fall, looked up whenever somebody asks: gauges. Their name has no
    /// `_total` behind it.
    pub fn measured(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        measure: impl Fn() -> Vec<(String, u64)> + Send + Sync + 'static,
    ) -> Self {
        let (counters, measure): (_, Measure) = (Mutex::default(), Box::new(measure));
        Self(Arc::new(Inner { name, help, label, counters, measure: Some(measure) }))
    }

    /// Whether its numbers may fall.
    pub fn is_measured(&self) -> bool {
        self.0.measure.is_some()
    }

    /// The counter of this value of the label. Looks it up, or makes it: do so once.
    pub fn counter(&self, value: impl Into<String>) -> Counter {
        let value = value.into();
        let mut counters = self.lock();
        if let Some((_, counter)) = counters.iter().find(|(known, _)| *known == value) {
            return counter.clone();
        }
        let counter = Counter::default();
        counters.push((value, counter.clone()));
        counter
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// What it counts, for people.
    pub fn help(&self) -> &'static str {
        self.0.help
    }

    /// The label's name.
    pub fn label(&self) -> &'static str {
        self.0.label
    }

    /// All values of the label and their counts, in the order in which they were made.
    pub fn counts(&self) -> Vec<(String, u64)> {
        if let Some(measure) = &self.0.measure {
            return measure();
        }
        self.lock().iter().map(|(value, counter)| (value.clone(), counter.get())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(String, Counter)>> {
        // A panic while locked leaves a list of whole entries.
        self.0.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter({})", self.get())
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Family({}: {:?})", self.name(), self.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::Family;

    #[test]
    fn a_label_has_one_counter() {
        let hits = Family::new("rule_hits", "Commands that a rule matched", "rule_id");
        let first = hits.counter("7");
        first.add_one();
        hits.counter("7").add_one();
        hits.clone().counter("8").add_one();
        assert_eq!(first.get(), 2);
        assert_eq!(hits.counts(), [("7".to_owned(), 2), ("8".to_owned(), 1)]);
    }
}
