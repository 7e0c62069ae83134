//! Connection attributes: what a client says about itself at its login.
//!
//! Source: MySQL manual, "Performance Schema Connection Attribute Tables"; MySQL Internals,
//! "Protocol::HandshakeResponse41".

use crate::{
    put,
    read::{DecodeError, Reader},
};
use bytes::{Bytes, BytesMut};

/// What connection attributes may take, in bytes. Servers answer a login with more by ERR 1043.
pub const MAX_ATTRIBUTES: usize = u16::MAX as usize;

/// Names and values, such as `program_name`, in the character set of the login.
///
/// They are kept as they came: servers let a client in whose attributes do not add up, and so does
/// this.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Attributes(Bytes);

impl Attributes {
    /// Attributes as they are on the wire, behind their length.
    #[must_use]
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Names and values, in the order given, up to the first that does not add up.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut r = Reader::new(&self.0);
        std::iter::from_fn(move || {
            let name = r.string("attribute name").ok()?;
            Some((name, r.string("attribute value").ok()?))
        })
    }

    /// These and then `more`, or these alone: where they do not add up, what follows would be
    /// misread, and together they may take [`MAX_ATTRIBUTES`].
    #[must_use]
    pub fn joined(&self, more: &Self) -> Self {
        let pairs = self.iter().map(|(name, value)| put::string_len(name) + put::string_len(value));
        let adds_up = pairs.sum::<usize>() == self.0.len();
        if !adds_up || self.0.len() + more.0.len() > MAX_ATTRIBUTES {
            return self.clone();
        }
        Self([&self.0[..], &more.0].concat().into())
    }

    /// Bytes that they take, without their length.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads them off a login or COM_CHANGE_USER, with their length.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = r.string("connection attributes")?;
        if bytes.len() > MAX_ATTRIBUTES {
            return Err(DecodeError::Invalid("length of connection attributes"));
        }
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }

    /// Appends them, behind their length.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        put::string(out, &self.0);
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut out = BytesMut::new();
        for (name, value) in pairs {
            put::string(&mut out, name.as_ref());
            put::string(&mut out, value.as_ref());
        }
        Self(out.freeze())
    }
}

/// How long they are: the values are the client's own business.
impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attributes({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_where_that_can_be_read() {
        let ours: Attributes = [("_ours", "1")].into_iter().collect();
        let theirs: Attributes = [("a", "b"), ("c", "")].into_iter().collect();
        let joined: Vec<_> = [("a", "b"), ("c", ""), ("_ours", "1")]
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .into();
        let both = theirs.joined(&ours);
        assert!(both.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).eq(joined));
        assert_eq!(Attributes::default().joined(&ours), ours);
        let cut = Attributes::raw(&b"\x01a\x05b"[..]);
        assert_eq!(cut.joined(&ours), cut);
        let full: Attributes = [(vec![0; 3], vec![1; MAX_ATTRIBUTES - 10])].into_iter().collect();
        assert_eq!(full.joined(&ours), full);
    }
}
