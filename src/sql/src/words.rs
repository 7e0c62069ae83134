//! Tables of words, hashed when the program is compiled.

/// A map from words, in any case, to `T`. Three loads decide most misses.
pub(crate) struct Words<T: 'static, const SLOTS: usize> {
    slots: [Option<(&'static str, T)>; SLOTS],
}

impl<T: Copy, const SLOTS: usize> Words<T, SLOTS> {
    /// The table of all `groups`. Words are written in lower case; one that stands twice, or a
    /// table that is more than half full, does not compile.
    pub(crate) const fn new(groups: &[(T, &[&'static str])]) -> Self {
        assert!(SLOTS.is_power_of_two());
        let mut slots = [None; SLOTS];
        let mut count = 0;
        let mut group = 0;
        while group < groups.len() {
            let (value, words) = groups[group];
            let mut word = 0;
            while word < words.len() {
                let at = free_slot(&slots, words[word]);
                slots[at] = Some((words[word], value));
                count += 1;
                word += 1;
            }
            group += 1;
        }
        assert!(count * 2 <= SLOTS);
        Self { slots }
    }

    /// What `word` stands for.
    pub(crate) fn get(&self, word: &[u8]) -> Option<T> {
        if word.is_empty() {
            return None;
        }
        let mut at = hash(word) % SLOTS;
        while let Some((known, value)) = self.slots[at] {
            if known.as_bytes().eq_ignore_ascii_case(word) {
                return Some(value);
            }
            at = (at + 1) % SLOTS;
        }
        None
    }
}

/// Length, first, middle and last letter, blind to case.
const fn hash(word: &[u8]) -> usize {
    let n = word.len();
    let first = (word[0] | 0x20) as usize;
    let middle = (word[n / 2] | 0x20) as usize;
    let last = (word[n - 1] | 0x20) as usize;
    let mixed = n.wrapping_mul(0x9E37) ^ first.wrapping_mul(0x85EB) ^ middle.wrapping_mul(0xC2B3);
    let mixed = mixed.wrapping_add(last.wrapping_mul(0x2545));
    mixed ^ (mixed >> 7)
}

const fn free_slot<T: Copy>(slots: &[Option<(&'static str, T)>], word: &str) -> usize {
    let mut at = hash(word.as_bytes()) % slots.len();
    while let Some((known, _)) = &slots[at] {
        assert!(!is_same(known.as_bytes(), word.as_bytes()), "a word stands twice");
        at = (at + 1) % slots.len();
    }
    at
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::Words;

    const TABLE: Words<u8, 16> = Words::new(&[(1, &["select", "set"]), (2, &["x_1", "a"])]);

    #[test]
    fn finds_words_in_any_case_and_nothing_else() {
        let found = ["SELECT", "Set", "X_1", "a", "selec", "selects", "", "x 1"]
            .map(|w| TABLE.get(w.as_bytes()));
        assert_eq!(found, [Some(1), Some(1), Some(2), Some(2), None, None, None, None]);
    }
}
