//! Statements that were prepared before the switch: the client's ids for them become the server's.
//!
//! Nothing is looked at but packet headers and, behind those of commands, the command byte and the
//! id. When the last of these statements is gone the bytes are not looked at any more.

use bytes::{Buf, BytesMut};
use std::collections::HashMap;
use wire::{
    command::CommandCode,
    packet::{HEADER_LEN, MAX_PAYLOAD},
};

/// What the client sends, on its way.
#[derive(Debug)]
pub(super) struct Translate {
    /// The server's ids, by the client's.
    ids: HashMap<u32, u32>,
    /// The beginning of a packet of which more must be seen.
    held: BytesMut,
    /// Bytes of the packet at hand that are still to come.
    left: usize,
    before: Before,
}

/// The packet before the one at hand.
#[derive(Clone, Copy, Debug)]
struct Before {
    seq: u8,
    length: usize,
}

/// What has to be seen of a command: its byte and an id.
const COMMAND: usize = 1 + 4;

impl Translate {
    /// None of these is known to the server by the client's id.
    pub(super) fn new(pairs: &[(u32, u32)]) -> Self {
        let before = Before { seq: 0, length: 0 };
        Self { ids: pairs.iter().copied().collect(), held: BytesMut::new(), left: 0, before }
    }

    /// Whether the rest can pass as it is.
    pub(super) fn is_done(&self) -> bool {
        self.ids.is_empty() && self.left == 0 && self.held.is_empty()
    }

    /// What goes to the server for these bytes of the client's. A few may be held back until more
    /// come.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> BytesMut {
        let mut bytes = match self.held.is_empty() {
            true => BytesMut::from(bytes),
            false => {
                self.held.extend_from_slice(bytes);
                self.held.split()
            }
        };
        let mut out = BytesMut::with_capacity(bytes.len());
        while !bytes.is_empty() {
            if self.left > 0 {
                let run = bytes.split_to(self.left.min(bytes.len()));
                self.left -= run.len();
                out.extend_from_slice(&run);
                continue;
            }
            let Some(length) = self.packet(&mut bytes) else {
                self.held = bytes;
                break;
            };
            self.left = length;
        }
        out
    }

    /// Looks at the packet that begins here, and says how long it is, header included. `None` if
    /// more of it must be there.
    fn packet(&mut self, bytes: &mut BytesMut) -> Option<usize> {
        let header = bytes.first_chunk::<HEADER_LEN>()?;
        let (mut length, seq) = (&header[..3], header[3]);
        let length = length.get_uint_le(3) as usize;
        if self.begins_command(seq) {
            let seen = HEADER_LEN + length.min(COMMAND);
            self.command(bytes.get_mut(HEADER_LEN..seen)?);
        }
        self.before = Before { seq, length };
        Some(HEADER_LEN + length)
    }

    /// Every command begins with sequence id 0. So may the 256th packet of a file, which the one
    /// before it shows: it is no empty one, which would end the file.
    fn begins_command(&self, seq: u8) -> bool {
        let Before { seq: before, length } = self.before;
        let goes_on = length == MAX_PAYLOAD || (before == u8::MAX && length > 0);
        seq == 0 && !goes_on
    }

    fn command(&mut self, command: &mut [u8]) {
        let Some((&mut code, id)) = command.split_first_mut() else { return };
        match CommandCode(code) {
            // The session's statements go with it.
            CommandCode::RESET_CONNECTION | CommandCode::CHANGE_USER => self.ids.clear(),
            CommandCode::STMT_EXECUTE
            | CommandCode::STMT_BULK_EXECUTE
            | CommandCode::STMT_SEND_LONG_DATA
            | CommandCode::STMT_RESET
            | CommandCode::STMT_FETCH
            | CommandCode::STMT_CLOSE => {
                let Some(id) = id.first_chunk_mut::<4>() else { return };
                let known = u32::from_le_bytes(*id);
                let Some(server) = self.ids.get(&known) else { return };
                *id = server.to_le_bytes();
                if code == CommandCode::STMT_CLOSE.0 {
                    self.ids.remove(&known);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: u32 = 0x8000_0001;

    fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_le_bytes();
        [&length[..3], &[seq], payload].concat()
    }

    fn named(code: CommandCode, id: u32, more: &[u8]) -> Vec<u8> {
        packet(0, &[&[code.0][..], &id.to_le_bytes(), more].concat())
    }

    /// What comes out of `bytes` in pieces of `size`, and whether it is done then.
    fn through(bytes: &[u8], size: usize) -> (Vec<u8>, bool) {
        let mut translate = Translate::new(&[(CLIENTS, 3)]);
        let out = bytes.chunks(size).flat_map(|piece| translate.pass(piece)).collect();
        (out, translate.is_done())
    }

    #[test]
    fn ids_are_translated_until_the_statement_is_closed() {
        let execute = CommandCode::STMT_EXECUTE;
        let commands = [
            packet(0, &[&[CommandCode::QUERY.0][..], &CLIENTS.to_le_bytes()].concat()),
            named(execute, CLIENTS, b"parameters"),
            named(execute, 7, b""),
            packet(0, &[execute.0, 1]),
            named(CommandCode::STMT_CLOSE, CLIENTS, b""),
            named(execute, CLIENTS, b""),
        ]
        .concat();
        let expected = [
            packet(0, &[&[CommandCode::QUERY.0][..], &CLIENTS.to_le_bytes()].concat()),
            named(execute, 3, b"parameters"),
            named(execute, 7, b""),
            packet(0, &[execute.0, 1]),
            named(CommandCode::STMT_CLOSE, 3, b""),
            named(execute, CLIENTS, b""),
        ]
        .concat();
        for size in 1..commands.len() {
            assert_eq!(through(&commands, size), (expected.clone(), true), "pieces of {size}");
        }
    }

    #[test]
    fn a_reset_forgets_them_all() {
        let reset = packet(0, &[CommandCode::RESET_CONNECTION.0]);
        assert!(through(&reset, 1).1);
    }

    #[test]
    fn data_is_no_command() {
        let looks_like_one = [&[CommandCode::STMT_EXECUTE.0][..], &CLIENTS.to_le_bytes()].concat();
        // A file of so many packets that the ids begin anew.
        let mut file = packet(0, &[CommandCode::QUERY.0]);
        for seq in 2..=u8::MAX {
            file.extend(packet(seq, &looks_like_one));
        }
        file.extend(packet(0, &looks_like_one));
        assert_eq!(through(&file, 1000).0, file);
        // The end of one, with the last id, and then a command.
        let mut ended = packet(0, &[CommandCode::QUERY.0]);
        ended.extend(packet(u8::MAX, b""));
        let before = ended.clone();
        ended.extend(packet(0, &looks_like_one));
        let out = through(&ended, 1000).0;
        assert_eq!(out[..before.len()], before);
        assert_eq!(out[before.len() + 5..], 3_u32.to_le_bytes());
    }

    #[test]
    fn what_follows_16_mebibytes_is_no_command() {
        let mut bytes = vec![0xFF, 0xFF, 0xFF, 0, CommandCode::QUERY.0];
        bytes.resize(HEADER_LEN + MAX_PAYLOAD, b'x');
        let looks_like_one = [&[CommandCode::STMT_EXECUTE.0][..], &CLIENTS.to_le_bytes()].concat();
        bytes.extend(packet(0, &looks_like_one));
        assert!(through(&bytes, 1 << 16).0 == bytes);
    }
}
