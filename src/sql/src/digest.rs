//! A statement without its values, and a number for that.
//!
//! The text is ProxySQL's, so that digests of its rules and statistics mean the same here: values
//! are `?`, long lists end in `...`, comments are gone, blanks are single. What ProxySQL gets wrong
//! is not repeated: a `--` comment at the very end, an apostrophe inside backticks, and the sign in
//! `a - 1`.

mod normal;
mod spooky;

use crate::Dialect;
use normal::Normal;
use std::fmt;

/// How long a digest's text is at most, in bytes, where nobody says otherwise.
pub const DIGEST_LIMIT: usize = 2048;

/// What statements have in common that differ in values only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The statement without its values, in the client's charset.
    pub text: Vec<u8>,
    /// SpookyHash V2 of the text: 64 bits, seed 0.
    pub hash: DigestHash,
}

/// The number of a digest. Shown as ProxySQL does: `0x1C46AE529DD5A40E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DigestHash(pub u64);

/// The digest of `text`, whose own text has at most `limit` bytes. Any bytes have one.
pub fn digest(text: &[u8], dialect: Dialect, limit: usize) -> Digest {
    let mut out = Vec::with_capacity(text.len().min(limit).min(256));
    let hash = digest_into(text, dialect, limit, &mut out);
    Digest { text: out, hash }
}

/// As [`digest`], with the text in a buffer of the caller's, which is emptied first.
pub fn digest_into(text: &[u8], dialect: Dialect, limit: usize, out: &mut Vec<u8>) -> DigestHash {
    out.clear();
    Normal::new(text, dialect, limit, out).run();
    DigestHash(spooky::hash64(out))
}

impl DigestHash {
    /// Reads one as rules write it: hexadecimal, with or without `0x`, in any case, at most 16
    /// digits. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let all_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let fits = (1..=16).contains(&digits.len());
        (all_hex && fits).then(|| u64::from_str_radix(digits, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for DigestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016X}", self.0)
    }
}
