//! Statement ids: the session's above, the server's below.

use crate::Seen;
use bytes::{Bytes, BytesMut};
use chain::{Command, Frame, Reply};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};
use wire::{
    command::{CommandCode, statement::statement_id},
    err::{ErrPacket, codes},
    packet::HEADER_LEN,
};

/// The statements that this connection has, by the session's ids.
#[derive(Debug, Default)]
pub(crate) struct Ids(HashMap<u32, Known>);

#[derive(Debug)]
enum Known {
    /// The server's id.
    Here(u32),
    /// The server has refused it: with this ERR packet, or empty if it is another statement here.
    Broken(Bytes),
}

/// Where the id stands in the reply to COM_STMT_PREPARE, header included.
const ID: std::ops::Range<usize> = HEADER_LEN + 1..HEADER_LEN + 5;

/// Whether a command begins with a statement's id.
pub(crate) fn names_statement(code: CommandCode) -> bool {
    (CommandCode::STMT_EXECUTE.0..=CommandCode::STMT_RESET.0).contains(&code.0)
        || code == CommandCode::STMT_FETCH
        || code == CommandCode::STMT_BULK_EXECUTE
}

impl Ids {
    pub(crate) fn insert(&mut self, session: u32, server: u32) {
        self.0.insert(session, Known::Here(server));
    }

    /// Notes a statement that cannot be executed here.
    pub(crate) fn broken(&mut self, session: u32, error: Bytes) {
        self.0.insert(session, Known::Broken(error));
    }

    /// The session's and the server's id of each.
    pub(crate) fn pairs(&self) -> Vec<(u32, u32)> {
        let here = |(session, known): (&u32, &Known)| match known {
            Known::Here(server) => Some((*session, *server)),
            Known::Broken(_) => None,
        };
        self.0.iter().filter_map(here).collect()
    }

    /// Puts the server's id into a command. What to answer instead, if the statement is not here.
    pub(crate) fn translate(&mut self, command: &mut Command) -> Option<Reply> {
        let id = statement_id(command.whole())?;
        let closes = command.code() == CommandCode::STMT_CLOSE;
        let known = if closes { self.0.remove(&id) } else { None };
        match known.as_ref().or_else(|| self.0.get(&id)) {
            Some(Known::Here(server)) => {
                let mut payload = BytesMut::from(command.payload());
                payload[..4].copy_from_slice(&server.to_le_bytes());
                command.rewrite(payload);
                None
            }
            _ if closes || command.code() == CommandCode::STMT_SEND_LONG_DATA => {
                // No reply; it is no statement of this connection.
                self.is_foreign(id).then(|| Reply::new(chain::Body::end(chain::End::default())))
            }
            Some(Known::Broken(error)) => Some(refused(command, id, error)),
            // The server says so itself, unless it would take another statement for it.
            None => (!self.is_free(id)).then(|| refused(command, id, &Bytes::new())),
        }
    }

    /// Whether no statement of the server has this id.
    fn is_free(&self, id: u32) -> bool {
        !self.0.values().any(|known| matches!(known, Known::Here(server) if *server == id))
    }

    /// Whether the id is one of the session's, or would hit a statement of the server.
    fn is_foreign(&self, id: u32) -> bool {
        (id >= 1 << 31 && id != u32::MAX) || !self.is_free(id)
    }
}

fn refused(command: &Command, id: u32, error: &Bytes) -> Reply {
    let error = ErrPacket::decode(error).unwrap_or_else(|_| {
        let what = match command.code() {
            CommandCode::STMT_FETCH => "mysqld_stmt_fetch",
            CommandCode::STMT_RESET => "mysqld_stmt_reset",
            _ => "mysqld_stmt_execute",
        };
        let text = format!("Unknown prepared statement handler ({id}) given to {what}");
        ErrPacket::new(codes::ER_UNKNOWN_STMT_HANDLER, text)
    });
    Reply::err(command, &error)
}

/// Puts the session's id of a statement into the reply that names the server's, and notes how the
/// reply ends.
pub(crate) fn watch(reply: Reply, statement: Option<u32>, seen: Arc<OnceLock<Seen>>) -> Reply {
    let (mut at, mut header, mut server) = (0_usize, None, [0; 4]);
    let mut swap = move |run: Bytes| {
        let Some(session) = statement.filter(|_| at < ID.end).map(u32::to_le_bytes) else {
            return (run, None);
        };
        let mut run = BytesMut::from(&run[..]);
        for byte in run.iter_mut() {
            if at == HEADER_LEN {
                header = Some(*byte);
            } else if ID.contains(&at) && header == Some(0) {
                server[at - ID.start] = std::mem::replace(byte, session[at - ID.start]);
            }
            at += 1;
        }
        let whole = header == Some(0) && at >= ID.end;
        (run.freeze(), whole.then(|| u32::from_le_bytes(server)))
    };
    let mut id = None;
    reply.map_body(|body| {
        body.map(move |frame| match frame {
            Frame::Packets(run) => {
                let (run, found) = swap(run);
                id = id.or(found);
                Frame::Packets(run)
            }
            Frame::End(end) => {
                // It is all that there is if nothing is defined.
                let (packet, found) = swap(end.packet);
                id = id.or(found);
                // There is one end.
                let _ = seen.set(Seen { failed: end.error.is_some(), id });
                Frame::End(chain::End { packet, ..end })
            }
            frame => frame,
        })
    })
}
