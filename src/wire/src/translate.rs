//! Other statement ids in what a client sends: its own become those that the server knows.
//!
//! Looked at are the headers of packets and, behind those that begin a command, the command byte and
//! the id. An [`Observer`] tells a file of the client's (LOCAL INFILE) from commands. When the last
//! of the statements is gone there is nothing left to do.
//!
//! Source: MySQL Internals, "Prepared Statements".

use crate::{
    Capabilities, CommandCode,
    command::statement::STATEMENT_ID,
    observe::{Commands, Event, Observer},
    packet::{HEADER_LEN, Header},
};
use bytes::BytesMut;
use std::collections::HashMap;

/// One connection's way to the server.
#[derive(Debug)]
pub struct Translate {
    /// The server's ids, by the client's.
    ids: HashMap<u32, u32>,
    /// The beginning of a packet of which more must be seen.
    held: BytesMut,
    /// Bytes of the packet at hand that are still to come.
    left: usize,
    commands: Commands,
    observer: Observer<()>,
}

impl Translate {
    /// Pairs of ids: the client's, and the server's for the same statement. Nothing is under way on
    /// the connection.
    #[must_use]
    pub fn new(pairs: &[(u32, u32)], caps: Capabilities) -> Self {
        Self {
            ids: pairs.iter().copied().collect(),
            held: BytesMut::new(),
            left: 0,
            commands: Commands::default(),
            observer: Observer::new(caps),
        }
    }

    /// Whether the rest can pass as it is.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ids.is_empty() && self.left == 0 && self.held.is_empty()
    }

    /// Takes whole commands that the server gets as they are.
    pub fn sent(&mut self, bytes: &[u8]) {
        self.observer.client(bytes, (), |_| {});
    }

    /// Takes what the server has sent, before the client has seen it.
    pub fn server(&mut self, bytes: &[u8]) {
        let commands = &mut self.commands;
        self.observer.server(bytes, (), |event| {
            if event == Event::FileAsked {
                commands.expect_file();
            }
        });
    }

    /// What goes to the server for these bytes of the client's: as many, but that up to eight may be
    /// held back until more come.
    pub fn client(&mut self, bytes: &[u8]) -> BytesMut {
        self.observer.client(bytes, (), |_| {});
        let mut bytes = match self.held.is_empty() {
            true => BytesMut::from(bytes),
            false => {
                self.held.extend_from_slice(bytes);
                self.held.split()
            }
        };
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let run = self.left.min(bytes.len() - at);
                (self.left, at) = (self.left - run, at + run);
                continue;
            }
            let Some(length) = self.packet(&mut bytes[at..]) else {
                self.held = bytes.split_off(at);
                break;
            };
            self.left = length;
        }
        bytes
    }

    /// What has been held back, when nothing more comes.
    pub fn rest(&mut self) -> BytesMut {
        self.held.split()
    }

    /// Looks at the packet that begins here, and says how long it is, header included. `None` if
    /// more of it must be there.
    fn packet(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let header = Header::parse(bytes)?;
        // Asked on a copy: the packet may have to be looked at again.
        let mut commands = self.commands;
        if commands.begin_with(header) {
            let seen = HEADER_LEN + header.len.min(STATEMENT_ID.end);
            self.command(bytes.get_mut(HEADER_LEN..seen)?);
        }
        self.commands = commands;
        Some(HEADER_LEN + header.len)
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
