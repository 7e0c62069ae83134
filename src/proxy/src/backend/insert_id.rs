//! Asking a connection what LAST_INSERT_ID() says there.

use super::{
    connect::ConnectError,
    link::{Link, read_message},
};
use bytes::{Bytes, BytesMut};
use wire::{capability::Capabilities, command::CommandCode, packet::take_message};

/// The question. A session may have set `sql_select_limit`, which gives way to a limit of its own.
pub(super) const QUESTION: &str = "SELECT LAST_INSERT_ID() LIMIT 1";

/// The same where the session has no use for the connection any more: it says 0 then.
pub(super) const LAST_QUESTION: &str = "SELECT LAST_INSERT_ID(), LAST_INSERT_ID(0) LIMIT 1";

/// An answer is a definition and a number.
const LIMIT: usize = 1 << 16;

/// The number in the last packet of an answer, its end apart.
pub(super) fn number(packets: &Bytes) -> Option<u64> {
    let (mut packets, mut row) = (BytesMut::from(&packets[..]), None);
    while let Ok(Some(message)) = take_message(&mut packets, LIMIT) {
        let payload = message.payload();
        // The end of the definitions.
        if payload.first() != Some(&0xFE) {
            row = Some(payload);
        }
    }
    of_row(&row?)
}

/// A row begins with a text, its length before it, in the session's character set: in some of them
/// a digit has more than one byte.
fn of_row(row: &[u8]) -> Option<u64> {
    let (length, rest) = row.split_first()?;
    let digits = rest.get(..usize::from(*length))?.iter().copied().filter(u8::is_ascii_digit);
    String::from_utf8(digits.collect()).ok()?.parse().ok()
}

impl Link {
    /// Tells the session that had the connection what only the connection knows, if it may yet want
    /// to know: before that is gone.
    pub(super) async fn pay_debt(&mut self) -> Result<(), ConnectError> {
        let Some(debt) = self.seat.debt() else { return Ok(()) };
        let query = self.query(QUESTION);
        self.send(CommandCode::QUERY, &query).await?;
        let deprecated = self.key.capabilities.contains(Capabilities::DEPRECATE_EOF);
        // Those of the definitions, which are left out for some, and of the rows.
        let mut ends = if deprecated { 1 } else { 2 };
        let (mut read, mut row) = (BytesMut::new(), None);
        while ends > 0 {
            let payload = read_message(&mut self.io, &mut read, LIMIT).await?.payload();
            match payload.first() {
                // The session learns nothing, and the connection is as it was.
                Some(0xFF) => return Ok(()),
                Some(0xFE) => ends -= 1,
                _ => row = Some(payload),
            }
        }
        if let Some(id) = row.and_then(|row| of_row(&row)) {
            // It may have ended meanwhile.
            let _ = debt.send(id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{number, of_row};
    use bytes::{Bytes, BytesMut};
    use wire::packet::put_packet;

    #[test]
    fn the_last_packet_is_the_row() {
        for with_eof in [false, true] {
            let mut packets = BytesMut::new();
            put_packet(&mut packets, 1, &[1]);
            put_packet(&mut packets, 2, b"\x03def 99");
            if with_eof {
                put_packet(&mut packets, 3, &[0xFE, 0, 0, 2, 0]);
            }
            put_packet(&mut packets, 4, b"\x0518446");
            assert_eq!(number(&packets.freeze()), Some(18446));
        }
        assert_eq!(number(&Bytes::new()), None);
    }

    #[test]
    fn in_any_character_set() {
        assert_eq!(of_row(b"\x021\x00\x010"), Some(1));
        assert_eq!(of_row(b"\x06\x001\x002\x003"), Some(123));
        assert_eq!(of_row(b"\x1418446744073709551615"), Some(u64::MAX));
        assert_eq!(of_row(b"\xFB"), None);
    }
}
