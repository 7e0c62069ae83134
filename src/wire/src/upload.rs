//! Where a client's file ends (LOAD DATA LOCAL INFILE).
//!
//! Source: MySQL Internals, "Protocol::LOCAL_INFILE_Data".

use crate::packet::{HEADER_LEN, Header, MAX_PAYLOAD};

/// Finds the empty packet that ends a file in the bytes that a client sends.
#[derive(Clone, Debug, Default)]
pub struct UploadScanner {
    /// Payload bytes of the packet under way that have not come yet.
    left: usize,
    header: [u8; HEADER_LEN],
    have: usize,
    /// The next packet goes on with the message of the one before, also if it is empty.
    continues: bool,
}

impl UploadScanner {
    /// Takes the next bytes, any run of them. Gives the number that belong to the file when its
    /// last packet is among them.
    pub fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let passed = self.left.min(bytes.len() - at);
            (self.left, at) = (self.left - passed, at + passed);
            let taken = (HEADER_LEN - self.have).min(bytes.len() - at);
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[at..at + taken]);
            (self.have, at) = (self.have + taken, at + taken);
            if let (HEADER_LEN, Some(header)) = (self.have, Header::parse(&self.header)) {
                self.have = 0;
                self.left = header.len;
                if header.len == 0 && !self.continues {
                    return Some(at);
                }
                self.continues = header.len == MAX_PAYLOAD;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_however_the_bytes_are_cut() {
        let mut file = vec![3, 0, 0, 2, 0, 0, 0, 1, 0, 0, 3, b'x'];
        file.extend([0, 0, 0, 4]);
        let end = file.len();
        file.extend(b"next");
        for cut in 0..=end {
            let mut scanner = UploadScanner::default();
            let (first, second) = file.split_at(cut);
            let found = match scanner.scan(first) {
                Some(at) => at,
                None => cut + scanner.scan(second).expect("the end is there"),
            };
            assert_eq!(found, end, "cut at {cut}");
        }
        assert_eq!(UploadScanner::default().scan(&file[..end - 1]), None);
    }

    #[test]
    fn an_empty_packet_behind_a_full_one_ends_its_message_only() {
        let mut file = vec![0xFF, 0xFF, 0xFF, 2];
        file.resize(HEADER_LEN + MAX_PAYLOAD, b'x');
        file.extend([0, 0, 0, 3]);
        assert_eq!(UploadScanner::default().scan(&file), None);
        file.extend([0, 0, 0, 4]);
        assert_eq!(UploadScanner::default().scan(&file), Some(file.len()));
    }
}
