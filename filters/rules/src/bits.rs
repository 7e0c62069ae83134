//! Sets of rules, by their place in the order of evaluation.

/// One bit for each rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// No rule of `rules`.
    pub(crate) fn none(rules: usize) -> Self {
        Self(vec![0; rules.div_ceil(64)])
    }

    /// Those of `rules` for which `fits` says so.
    pub(crate) fn of<T>(rules: &[T], fits: impl Fn(&T) -> bool) -> Self {
        let mut bits = Self::none(rules.len());
        for (at, _) in rules.iter().enumerate().filter(|(_, rule)| fits(rule)) {
            bits.insert(at);
        }
        bits
    }

    pub(crate) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(crate) fn flip(&mut self, at: usize) {
        self.0[at / 64] ^= 1 << (at % 64);
    }

    pub(crate) fn word(&self, word: usize) -> u64 {
        self.0[word]
    }

    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

/// A set that has few members for its range: the words that are not empty, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sparse(Vec<(usize, u64)>);

impl Sparse {
    /// Adds a member; in ascending order only.
    pub(crate) fn push(&mut self, at: usize) {
        let (word, bit) = (at / 64, 1 << (at % 64));
        match self.0.last_mut() {
            Some((last, bits)) if *last == word => *bits |= bit,
            _ => self.0.push((word, bit)),
        }
    }

    /// The first member from `from` on that is in every one of `masks` too.
    pub(crate) fn first_from(&self, from: usize, masks: &[&Bits]) -> Option<usize> {
        let start = self.0.partition_point(|(word, _)| *word < from / 64);
        for &(word, bits) in &self.0[start..] {
            let bits = if word == from / 64 { bits & (u64::MAX << (from % 64)) } else { bits };
            let bits = masks.iter().fold(bits, |bits, mask| bits & mask.word(word));
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, Sparse};

    #[test]
    fn members_are_found_in_order_and_masked() {
        let members = [0, 5, 63, 64, 200];
        let mut sparse = Sparse::default();
        members.iter().for_each(|at| sparse.push(*at));
        let all = Bits::of(&[(); 201], |()| true);
        let found = |masks: &[&Bits]| {
            let mut found = Vec::new();
            while let Some(at) = sparse.first_from(found.last().map_or(0, |at| at + 1), masks) {
                found.push(at);
            }
            found
        };
        assert_eq!(found(&[]), members);
        assert_eq!(found(&[&all]), members);
        let mut odd = Bits::none(201);
        [5, 63, 201 - 2].iter().for_each(|at| odd.insert(*at));
        assert_eq!(found(&[&all, &odd]), [5, 63]);
        odd.flip(63);
        odd.flip(200);
        assert_eq!(found(&[&odd]), [5, 200]);
    }
}
