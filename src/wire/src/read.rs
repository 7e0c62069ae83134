//! Reads the protocol's basic types off a payload.

use thiserror::Error;

/// Why a payload could not be decoded. Names the field, never its contents.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The payload ends before or within this field.
    #[error("the packet ends within its {0}")]
    Truncated(&'static str),
    /// This field has a value that the protocol does not allow.
    #[error("the packet has a wrong {0}")]
    Invalid(&'static str),
}

/// What is left of a payload. Every method takes the name of the field it reads, for the error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

type Result<T> = std::result::Result<T, DecodeError>;

impl<'a> Reader<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The next byte, without taking it.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    pub(crate) fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Truncated(what))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated(what))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// `int<lenenc>`. 0xFB (NULL) and 0xFF (ERR) are no integers.
    pub(crate) fn int(&mut self, what: &'static str) -> Result<u64> {
        match self.u8(what)? {
            small @ 0..=0xFA => Ok(small.into()),
            0xFC => self.u16(what).map(u64::from),
            0xFD => {
                let [a, b, c] = self.array(what)?;
                Ok(u32::from_le_bytes([a, b, c, 0]).into())
            }
            0xFE => self.u64(what),
            0xFB | 0xFF => Err(DecodeError::Invalid(what)),
        }
    }

    /// `string<lenenc>`.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let len = self.int(what)?;
        self.bytes(usize::try_from(len).unwrap_or(usize::MAX), what)
    }

    /// `string<NUL>`; where the NUL is missing, what is left, as servers read it.
    pub(crate) fn until_nul(&mut self) -> &'a [u8] {
        match memchr::memchr(0, self.0) {
            Some(at) => {
                let taken = &self.0[..at];
                self.0 = &self.0[at + 1..];
                taken
            }
            None => self.rest(),
        }
    }

    /// Takes `len` bytes, or what is left.
    pub(crate) fn skip_up_to(&mut self, len: usize) {
        self.0 = self.0.get(len..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::put;
    use bytes::BytesMut;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_length_encoded_integer_comes_back(value: u64, small in 0u64..70_000) {
            for value in [value, small] {
                let mut out = BytesMut::new();
                put::int(&mut out, value);
                prop_assert_eq!(out.len(), put::int_len(value));
                let mut reader = Reader::new(&out);
                prop_assert_eq!(reader.int("value"), Ok(value));
                prop_assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn borders_of_length_encoded_integers() {
        for (value, len) in [(250, 1), (251, 3), (0xFFFF, 3), (0x1_0000, 4), (0xFF_FFFF, 4)] {
            assert_eq!(put::int_len(value), len, "{value}");
        }
        assert_eq!(put::int_len(0x100_0000), 9);
        assert_eq!(Reader::new(&[0xFB]).int("count"), Err(DecodeError::Invalid("count")));
        assert_eq!(Reader::new(&[0xFC, 1]).int("count"), Err(DecodeError::Truncated("count")));
    }

    #[test]
    fn a_length_beyond_the_payload_is_an_error() {
        let huge = [0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, b'x'];
        assert_eq!(Reader::new(&huge).string("name"), Err(DecodeError::Truncated("name")));
    }

    #[test]
    fn a_string_without_its_nul_is_the_rest() {
        let mut reader = Reader::new(b"one\0two");
        assert_eq!(reader.until_nul(), b"one");
        assert_eq!(reader.until_nul(), b"two");
        assert!(reader.is_empty());
    }
}
