//! Ids as expressions that a server evaluates, as long as what they stand in for.
//!
//! An expression has to have the type that CONNECTION_ID() has with that vendor, or column
//! definitions, binary rows and whatever is computed from it would differ: BIGINT(21) UNSIGNED on
//! MySQL, INT(10) UNSIGNED on MariaDB. On MySQL `id | 0` is one. On MariaDB it is also a BIGINT,
//! and of the functions that can be written in 15 bytes CRC32() alone is an INT(10) UNSIGNED: five
//! letters are found of which the id is the checksum.

use crate::backend::connect::Vendor;
use sql::ConnectionId;

/// Puts an expression with the value `id` in place of what `place` names in `text`. The length
/// does not change, nor what stands between name and parentheses.
pub(super) fn put(text: &mut [u8], place: &ConnectionId, vendor: Vendor, id: u32) {
    match place {
        // `@@pseudo_thread_id` may be NULL, as its type goes: so is what was divided.
        ConnectionId::Variable(span) => {
            fill(&mut text[span.clone()], b"(", format!("{id}/1|0)").as_bytes());
        }
        ConnectionId::Call { name, open, close } => {
            text[*open] = b' ';
            text[*close] = b')';
            match (vendor, letters(id)) {
                (Vendor::MariaDb, Some(letters)) if name.end == *open && open + 1 == *close => {
                    // What the letters are does not depend on `character_set_connection` here.
                    let letters = [b"N'", &letters[..], b"'"].concat();
                    fill(&mut text[name.start..*close], b"CRC32(", &letters);
                }
                (Vendor::MariaDb, Some(letters)) => {
                    let letters = [b"'", &letters[..], b"'"].concat();
                    fill(&mut text[name.clone()], b"CRC32(", &letters);
                }
                _ => fill(&mut text[name.clone()], b"(", format!("{id}|0").as_bytes()),
            }
        }
    }
}

/// `head`, blanks, `tail`. The shortest name has 13 bytes, the shortest variable 18.
fn fill(place: &mut [u8], head: &[u8], tail: &[u8]) {
    place.fill(b' ');
    place[..head.len()].copy_from_slice(head);
    let at = place.len() - tail.len();
    place[at..].copy_from_slice(tail);
}

/// Five letters whose CRC32 is `id`. Four bytes can be had for every id, whatever the first is;
/// for about 4 ids of 10 some of them are never of [`is_plain`].
pub(crate) fn letters(id: u32) -> Option<[u8; 5]> {
    let before = (0..4).fold(!id, |sum, _| {
        let index = LAST_STEP[(sum >> 24) as usize];
        ((sum ^ TABLE[usize::from(index)]) << 8) | u32::from(index)
    });
    (0..=u8::MAX).filter(|&first| is_plain(first)).find_map(|first| {
        let sum = (u32::MAX >> 8) ^ TABLE[usize::from(0xFF ^ first)];
        let [a, b, c, d] = (sum ^ before).to_le_bytes();
        [a, b, c, d].into_iter().all(is_plain).then_some([first, a, b, c, d])
    })
}

/// Whether a byte is the same letter in every charset that a client may have, and needs no escape.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'?' | b'A'..=b'Z' | b'a'..=b'z' | b'_') && byte != b'\''
}

/// CRC-32 as in ITU-T V.42, reflected.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut sum, mut bit) = (index as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xEDB8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
    }
    table
};

/// Which entry of [`TABLE`] has these upper 8 bits: all are different.
const LAST_STEP: [u8; 256] = {
    let mut inverse = [0; 256];
    let mut index = 0;
    while index < 256 {
        inverse[(TABLE[index] >> 24) as usize] = index as u8;
        index += 1;
    }
    inverse
};

#[cfg(test)]
mod tests {
    use super::{TABLE, letters, put};
    use crate::backend::connect::Vendor;
    use sql::{Dialect, connection_ids};

    fn crc32(text: &[u8]) -> u32 {
        !text.iter().fold(!0, |sum, byte| (sum >> 8) ^ TABLE[(sum as u8 ^ byte) as usize])
    }

    #[test]
    fn letters_have_their_id_for_a_checksum() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        let ids = (1_u32 << 31)..(1 << 31) + 1000;
        let spelled: Vec<_> = ids.filter_map(|id| Some((id, letters(id)?))).collect();
        assert!(spelled.len() > 500, "{}", spelled.len());
        for (id, letters) in spelled {
            assert_eq!(crc32(&letters), id);
        }
    }

    #[test]
    fn expressions_are_as_long_as_what_they_stand_for() {
        let id = (1_u32 << 31..).find(|id| letters(*id).is_some()).unwrap();
        let spelled = String::from_utf8(letters(id).unwrap().to_vec()).unwrap();
        for (text, mysql, mariadb) in [
            ("SELECT CONNECTION_ID()+1", "SELECT (ID|0 )+1", "SELECT CRC32(N'WORD')+1"),
            ("SELECT connection_id\n( )", "SELECT (ID|0\n  )", "SELECT CRC32('WORD'\n  )"),
            ("DO `CONNECTION_ID`()", "DO (  ID|0 )", "DO CRC32(  N'WORD')"),
            ("DO @@pseudo_thread_id", "DO (  ID/1|0)", "DO (  ID/1|0)"),
            ("DO @@session.pseudo_thread_id", "DO (          ID/1|0)", "DO (          ID/1|0)"),
        ] {
            for (vendor, expected) in [(Vendor::MySql, mysql), (Vendor::MariaDb, mariadb)] {
                let expected = expected.replace("ID", &id.to_string()).replace("WORD", &spelled);
                let mut ours = text.as_bytes().to_vec();
                for place in connection_ids(text.as_bytes(), Dialect::default()).read {
                    put(&mut ours, &place, vendor, id);
                }
                assert_eq!(String::from_utf8_lossy(&ours), expected);
                assert_eq!(ours.len(), text.len());
            }
        }
    }
}
