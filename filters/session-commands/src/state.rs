//! What a session's commands have made of it, as a number.

use bytes::Bytes;
use chain::facts::StateId;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
};

/// Gathers what makes a state, in order. Its key is random and of this process alone: nobody
/// outside can find two states with the same number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather(SipHasher24);

impl Gather {
    /// Of this `kind`: numbers of two kinds have nothing to do with each other.
    pub(crate) fn new(kind: u8) -> Self {
        static KEY: OnceLock<(u64, u64)> = OnceLock::new();
        let (first, second) = *KEY.get_or_init(|| {
            let random = || RandomState::new().build_hasher().finish();
            (random(), random())
        });
        let mut hasher = SipHasher24::new_with_keys(first, second);
        hasher.write_u8(kind);
        Self(hasher)
    }

    /// Takes in one piece, with its length: two pieces are not what they are in one.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.write_u64(bytes.len() as u64);
        self.0.write(bytes);
    }

    pub(crate) fn add_state(&mut self, StateId(state): StateId) {
        self.0.write(&state.to_le_bytes());
    }

    pub(crate) fn schema(&mut self, schema: Option<&Bytes>) {
        self.0.write_u8(u8::from(schema.is_some()));
        self.add(schema.map_or(&[], |name| &name[..]));
    }

    pub(crate) fn finish(&self) -> StateId {
        StateId(self.0.finish128().as_u128())
    }
}

#[cfg(test)]
mod tests {
    use super::Gather;

    fn of(kind: u8, pieces: &[&[u8]]) -> super::StateId {
        let mut gather = Gather::new(kind);
        pieces.iter().for_each(|piece| gather.add(piece));
        gather.finish()
    }

    #[test]
    fn equal_pieces_in_the_same_order_are_equal_and_nothing_else_is() {
        let all = [
            of(0, &[]),
            of(1, &[]),
            of(0, &[b""]),
            of(0, &[b"ab"]),
            of(0, &[b"a", b"b"]),
            of(0, &[b"b", b"a"]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
        assert_eq!(of(0, &[b"a", b"b"]), all[4]);
    }
}
