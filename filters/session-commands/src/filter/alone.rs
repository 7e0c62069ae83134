//! What is answered without a server, because none has anything to say about it.

use super::SessionCommands;
use crate::plan::Plan;
use bytes::{BufMut, BytesMut};
use chain::{Body, Command, End, Reply};
use wire::{
    capability::Capabilities,
    command::{
        CommandCode,
        statement::{LAST_PREPARED, statement_id},
    },
    eof::EofPacket,
    packet::put_packet,
    status::Status,
};

impl SessionCommands {
    /// The reply to a command that no server has to see.
    pub(super) fn alone(&mut self, command: &Command, plan: &Plan) -> Option<Reply> {
        let attached = self.last.is_some();
        match command.code() {
            CommandCode::PING if !attached => Some(Reply::ok(command, status(command))),
            CommandCode::SET_OPTION if !attached => {
                matches!(command.payload(), [0 | 1, 0]).then(|| self.remember(command, plan))
            }
            CommandCode::STMT_CLOSE if !attached || plan.names_nothing || plan.closes_unseen => {
                Some(Reply::none())
            }
            CommandCode::STMT_SEND_LONG_DATA if plan.names_nothing => Some(Reply::none()),
            CommandCode::STMT_EXECUTE
            | CommandCode::STMT_BULK_EXECUTE
            | CommandCode::STMT_FETCH
            | CommandCode::STMT_RESET
                if plan.names_nothing =>
            {
                let id = statement_id(command.whole()).unwrap_or_default();
                Some(Reply::unknown_statement(command, id))
            }
            // No connection has a cursor or data for it.
            CommandCode::STMT_RESET if self.ties.is_empty() && !self.is_prepared_last(command) => {
                Some(Reply::ok(command, status(command)))
            }
            _ => None,
        }
    }

    /// Whether it names a statement that the session does not have.
    pub(super) fn names_nothing(&self, id: u32) -> bool {
        id != LAST_PREPARED && !self.statements.has(id)
    }

    fn is_prepared_last(&self, command: &Command) -> bool {
        statement_id(command.whole()) == Some(LAST_PREPARED)
    }

    /// Every connection gets the option before anything else runs there.
    fn remember(&mut self, command: &Command, plan: &Plan) -> Reply {
        for entry in &plan.entries {
            let lsn = self.log.reserve();
            self.log.append(lsn, entry.clone());
        }
        let status = status(command);
        let mut payload = BytesMut::new();
        if command.session().capabilities.contains(Capabilities::DEPRECATE_EOF) {
            // An OK packet in the place of the EOF: no rows, no id, no warnings.
            payload.put_slice(&[wire::eof::HEADER, 0, 0]);
            payload.put_u16_le(status.0);
            payload.put_u16_le(0);
        } else {
            EofPacket { warnings: 0, status }.encode(&mut payload);
        }
        let mut packet = BytesMut::new();
        put_packet(&mut packet, command.reply_seq(), &payload);
        let packet = packet.freeze();
        Reply::new(Body::end(End { packet, status: Some(status), ..End::default() }))
    }
}

/// What lasts of what the last reply said.
fn status(command: &Command) -> Status {
    let lasting = [
        Status::IN_TRANS,
        Status::IN_TRANS_READONLY,
        Status::AUTOCOMMIT,
        Status::NO_BACKSLASH_ESCAPES,
        Status::ANSI_QUOTES,
    ];
    let last = command.session().status();
    let is_set = |flag: &Status| last.contains(*flag);
    lasting.into_iter().filter(is_set).fold(Status::EMPTY, |all, flag| all | flag)
}
