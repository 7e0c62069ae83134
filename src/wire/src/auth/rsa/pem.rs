//! PEM (RFC 7468), as far as keys need it.

use zeroize::Zeroizing;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LINE: usize = 64;

/// The first block with this label; `None` if there is none, or it is no base64.
pub(super) fn decode(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, after) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = after.split_once(&format!("-----END {label}-----"))?;
    let (mut out, mut bits, mut have) = (Vec::with_capacity(body.len() / 4 * 3), 0u32, 0u32);
    for byte in body.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)?;
        bits = bits << 6 | digit as u32;
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have & 0xFF) as u8);
        }
    }
    Some(out)
}

/// One block of this label.
pub(super) fn encode(der: &[u8], label: &str) -> String {
    let mut body = String::with_capacity(der.len() * 3 / 2);
    for group in der.chunks(3) {
        let word = group.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - group.len()));
        for digit in 0..4 {
            body.push(match digit <= group.len() {
                true => char::from(ALPHABET[(word >> (18 - 6 * digit) & 63) as usize]),
                false => '=',
            });
            if body.len() % (LINE + 1) == LINE {
                body.push('\n');
            }
        }
    }
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", body.trim_end())
}

/// A PKCS #1 private key as the PKCS #8 that contains it (RFC 5208): version 0, the algorithm
/// rsaEncryption, the key as an octet string.
pub(super) fn wrap_pkcs1(key: &[u8]) -> Zeroizing<Vec<u8>> {
    const VERSION_AND_ALGORITHM: [u8; 18] = [
        0x02, 0x01, 0x00, 0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01,
        0x01, 0x05, 0x00,
    ];
    const OCTET_STRING: u8 = 0x04;
    const SEQUENCE: u8 = 0x30;
    let mut inner = Zeroizing::new(VERSION_AND_ALGORITHM.to_vec());
    inner.extend_from_slice(&tagged(OCTET_STRING, key));
    tagged(SEQUENCE, &inner)
}

/// DER: a tag, a length, a value.
fn tagged(tag: u8, value: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(vec![tag]);
    let len = value.len().to_be_bytes();
    let len = &len[len.iter().take_while(|&&byte| byte == 0).count()..];
    match len {
        [] => out.push(0),
        [short @ 0..=0x7F] => out.push(*short),
        long => {
            out.push(0x80 | long.len() as u8);
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(value);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_comes_back(der in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = encode(&der, "KEY");
            prop_assert!(text.lines().all(|line| line.len() <= LINE));
            prop_assert_eq!(decode(&text, "KEY"), Some(der));
        }
    }

    #[test]
    fn vectors_of_rfc_4648() {
        for (plain, text) in
            [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            let pem = encode(plain.as_bytes(), "X");
            assert_eq!(pem, format!("-----BEGIN X-----\n{text}\n-----END X-----\n"));
        }
    }

    #[test]
    fn der_lengths() {
        assert_eq!(tagged(4, &[0; 0x7F])[..2], [4, 0x7F]);
        assert_eq!(tagged(4, &[0; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(tagged(4, &[0; 0x102])[..4], [4, 0x82, 1, 2]);
    }

    #[test]
    fn other_labels_and_other_letters_are_nothing() {
        assert_eq!(decode(&encode(b"x", "KEY"), "OTHER"), None);
        assert_eq!(decode("-----BEGIN X-----\n!!\n-----END X-----", "X"), None);
    }
}
