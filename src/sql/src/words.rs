//! Tables of words, hashed when the program is compiled.

/// A map from words, in any case, to `T`.
pub(crate) struct Words<T: 'static, const SLOTS: usize> {
    slots: [Option<Entry<T>>; SLOTS],
}

#[derive(Clone, Copy)]
struct Entry<T> {
    key: Key,
    word: &'static str,
    value: T,
}

/// Both ends of a word, blind to case: with the length, all of it up to 16 letters.
type Key = (u64, u64);

impl<T: Copy, const SLOTS: usize> Words<T, SLOTS> {
    /// The table of all `groups`. Words are written in lower case; one that stands twice, or a
    /// table that is more than half full, does not compile.
    pub(crate) const fn new(groups: &[(T, &[&'static str])]) -> Self {
        assert!(SLOTS.is_power_of_two());
        let mut slots: [Option<Entry<T>>; SLOTS] = [None; SLOTS];
        let mut count = 0;
        let mut group = 0;
        while group < groups.len() {
            let (value, words) = groups[group];
            let mut index = 0;
            while index < words.len() {
                let word = words[index];
                let key = key(word.as_bytes());
                let mut at = slot(key, word.len(), SLOTS);
                while let Some(known) = &slots[at] {
                    assert!(
                        !is_same(known.word.as_bytes(), word.as_bytes()),
                        "a word stands twice"
                    );
                    at = (at + 1) % SLOTS;
                }
                slots[at] = Some(Entry { key, word, value });
                count += 1;
                index += 1;
            }
            group += 1;
        }
        assert!(count * 2 <= SLOTS);
        Self { slots }
    }

    /// What `word` stands for.
    pub(crate) fn get(&self, word: &[u8]) -> Option<T> {
        let key = key(word);
        let mut at = slot(key, word.len(), SLOTS);
        while let Some(known) = &self.slots[at] {
            let alike = known.key == key && known.word.len() == word.len();
            if alike && (word.len() <= 16 || known.word.as_bytes().eq_ignore_ascii_case(word)) {
                return Some(known.value);
            }
            at = (at + 1) % SLOTS;
        }
        None
    }
}

/// Setting bit 5 makes lower case of letters, and keeps apart whatever else words are made of.
const fn key(word: &[u8]) -> Key {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    if let (Some(first), Some(last)) = (word.first_chunk(), word.last_chunk()) {
        return (u64::from_le_bytes(*first) | LOWER, u64::from_le_bytes(*last) | LOWER);
    }
    if let (Some(first), Some(last)) = (word.first_chunk(), word.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return (first as u64 | LOWER, last as u64 | LOWER);
    }
    let (first, middle, last) = match *word {
        [first, middle, last] => (first, middle, last),
        [first, last] => (first, 0, last),
        [only] => (only, 0, 0),
        _ => (0, 0, 0),
    };
    (u32::from_le_bytes([first, middle, last, 0]) as u64 | LOWER, 0)
}

const fn slot(key: Key, length: usize, slots: usize) -> usize {
    let mixed = key.0 ^ key.1.rotate_left(29) ^ ((length as u64) << 59);
    // The golden ratio's bits: Fibonacci hashing, the best bits are on top.
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - slots.trailing_zeros())) as usize
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

    const TABLE: Words<u8, 16> = Words::new(&[
        (1, &["select", "set", "a_word_of_more_than_sixteen"]),
        (2, &["x_1", "a", "describe", "procedure"]),
    ]);

    #[test]
    fn finds_words_in_any_case() {
        for (word, value) in [
            ("SELECT", 1),
            ("Set", 1),
            ("A_Word_Of_More_Than_Sixteen", 1),
            ("X_1", 2),
            ("a", 2),
            ("DESCRIBE", 2),
            ("proceDURE", 2),
        ] {
            assert_eq!(TABLE.get(word.as_bytes()), Some(value), "{word}");
        }
    }

    #[test]
    fn finds_nothing_else() {
        for word in [
            "",
            "b",
            "s",
            "se",
            "sat",
            "selec",
            "selects",
            "aelect",
            "x 1",
            "x1",
            "describf",
            "procedurd",
            "a_word_of_less_than_sixteen",
            "a_word_of_more-than_sixteen",
        ] {
            assert_eq!(TABLE.get(word.as_bytes()), None, "{word}");
        }
    }
}
