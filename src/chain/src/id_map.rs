//! Maps by the ids of prepared statements.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

/// What is known of statements, by ids that the proxy or a server has given them. Clients do not
/// choose what is in it: an id is spread, and no secret is needed.
pub type IdMap<T> = HashMap<u32, T, BuildHasherDefault<Spread>>;

/// The same without more than the ids.
pub type IdSet = HashSet<u32, BuildHasherDefault<Spread>>;

/// Spreads one number over all bits of a hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, id: u32) {
        // The golden ratio, as Knuth has it.
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[cfg(test)]
mod tests {
    use super::{IdMap, IdSet};
    use std::hash::BuildHasher;

    #[test]
    fn ids_that_follow_each_other_are_far_apart() {
        let hasher = IdMap::<()>::default().hasher().clone();
        let first = 1 << 31;
        let hashes = || (first..first + 128).map(|id: u32| hasher.hash_one(id));
        // A map looks at both ends.
        let high: IdSet = hashes().map(|hash| (hash >> 57) as u32).collect();
        let low: IdSet = hashes().map(|hash| hash as u32 & 127).collect();
        assert_eq!(low.len(), 128);
        assert!(high.len() > 64, "{}", high.len());
    }
}
