//! Whose turn it is, in each hostgroup by itself.

use crate::topology::HostgroupId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A counter for each hostgroup that has been asked for.
#[derive(Debug, Default)]
pub(super) struct Turns([Slot; SLOTS]);

#[derive(Debug, Default)]
struct Slot {
    /// The hostgroup's number and one; 0 if it is nobody's yet.
    owner: AtomicU64,
    turn: AtomicU32,
}

/// Hostgroups of one chain that count by themselves; beyond it some share a counter.
const SLOTS: usize = 16;

impl Turns {
    /// How often this hostgroup has been asked for before.
    pub(super) fn next(&self, hostgroup: HostgroupId) -> u32 {
        let start = hostgroup.0 as usize % SLOTS;
        let (before, after) = self.0.split_at(start);
        let slot = after.iter().chain(before).find(|slot| slot.is_of(hostgroup));
        slot.unwrap_or(&self.0[start]).turn.fetch_add(1, Relaxed)
    }
}

impl Slot {
    /// Whether it is this hostgroup's; it becomes so if it was nobody's.
    fn is_of(&self, hostgroup: HostgroupId) -> bool {
        let owner = u64::from(hostgroup.0) + 1;
        match self.owner.load(Relaxed) {
            0 => {
                let taken = self.owner.compare_exchange(0, owner, Relaxed, Relaxed);
                taken.is_ok() || taken == Err(owner)
            }
            other => other == owner,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SLOTS, Turns};
    use crate::topology::HostgroupId;

    #[test]
    fn hostgroups_count_by_themselves_as_long_as_there_is_room() {
        let turns = Turns::default();
        for turn in 0..3 {
            for group in [0, 16, 5, u32::MAX] {
                assert_eq!(turns.next(HostgroupId(group)), turn, "{group}");
            }
        }
        // More than there is room for count too, with others.
        for group in 100..200 {
            let turn = turns.next(HostgroupId(group));
            assert!(turns.next(HostgroupId(group)) > turn, "{group}");
        }
        assert_eq!(turns.0.len(), SLOTS);
    }
}
