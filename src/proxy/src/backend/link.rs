//! One connection to a server, between the commands of a session.

use super::{
    Backend, Key,
    connect::{ConnectError, Vendor},
    lasting::Lasting,
    leash::Leash,
    relay::WayHome,
    schema::Schema,
    seat::Seat,
    tally::Change,
};
use crate::{buffer, config::Account, stream::Stream};
use bytes::{Bytes, BytesMut};
use chain::{Command, End};
use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};
use tokio::{io::AsyncWriteExt, sync::OwnedSemaphorePermit};
use wire::{
    attributes::Attributes,
    auth::{Nonce, Plugin},
    capability::Capabilities,
    command::{CommandCode, Query},
    err::ErrPacket,
    packet::{Message, put_packet, take_message},
    proxy_protocol::Source,
    status::Status,
};

/// An open connection on which a login has succeeded, with nothing sent and nothing unread.
pub(crate) struct Link {
    pub(crate) io: Stream,
    pub(crate) backend: Arc<Backend>,
    pub(crate) key: Key,
    /// Who has logged in.
    pub(crate) account: Account,
    /// Whose connection it is, as its server was told if it is told such things.
    pub(crate) source: Source,
    pub(crate) vendor: Vendor,
    /// `None` if the greeting's version has a form of its own.
    pub(crate) version: Option<sql::Server>,
    /// What the server greeted with, for another login on this connection.
    pub(super) nonce: Nonce,
    pub(super) plugin: Plugin,
    /// What the login said.
    pub(super) capabilities: Capabilities,
    pub(super) attributes: Attributes,
    /// The server's id of the connection, from its greeting: what KILL takes there.
    pub(crate) thread_id: u32,
    /// Its session's place.
    pub(crate) seat: Arc<Seat>,
    pub(crate) schema: Schema,
    pub(crate) opened: Instant,
    /// COM_RESET_CONNECTION was executed since the login.
    pub(crate) was_reset: bool,
    /// Since then character set and collation have been brought back, and no session has had it.
    pub(super) is_named: bool,
    pub(crate) lasting: Lasting,
    /// Where it goes at the end of its stack, if it is a session's for as long as it is open.
    pub(crate) home: Option<WayHome>,
    /// What cuts it.
    pub(crate) leash: Leash,
    pub(crate) _room: OwnedSemaphorePermit,
}

/// MariaDB's highest collation id that a handshake has room for (utf8mb4_vietnamese_ci).
const MARIADB_LAST_ID: u16 = 247;

/// Replies to the proxy's own commands are short.
const REPLY_LIMIT: usize = 1 << 20;

impl Link {
    /// Makes the connection look as after a login of the session's own, with this schema.
    pub(crate) async fn begin(&mut self, schema: Option<&Bytes>) -> Result<(), ConnectError> {
        let names = self.set_names().filter(|_| !self.is_named);
        if let Some(names) = names {
            self.run(&names).await?;
        }
        // It is a session's from now on.
        self.is_named = false;
        // A reset keeps the schema, but not the schema's collation.
        if let Some(wanted) = schema
            && (self.was_reset || self.schema != Schema::Named(wanted.clone()))
        {
            self.ask(CommandCode::INIT_DB, wanted).await?;
            self.schema = Schema::Named(wanted.clone());
        }
        Ok(())
    }

    /// The statement that brings character set and collation to what a handshake of the session's
    /// would make them, where they are not.
    fn set_names(&self) -> Option<String> {
        set_names(self.vendor, self.key.collation, self.was_reset)
    }

    /// Undoes what a session has done: transaction, variables, temporary tables, locks, statements;
    /// and does what the next one would have to wait for.
    pub(crate) async fn reset(&mut self) -> Result<(), ConnectError> {
        let option = self.lasting.option_to_restore();
        (self.was_reset, self.is_named) = (true, true);
        let names = self.set_names().map(|names| self.query(&names));
        let mut commands = vec![(CommandCode::RESET_CONNECTION, &b""[..])];
        commands.extend(option.iter().map(|option| (CommandCode::SET_OPTION, &option[..])));
        commands.extend(names.iter().map(|names| (CommandCode::QUERY, &names[..])));
        self.ask_all(&commands).await
    }

    /// Runs a statement that gives no rows.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), ConnectError> {
        let query = self.query(sql);
        self.ask(CommandCode::QUERY, &query).await
    }

    /// The payload of a COM_QUERY.
    pub(super) fn query(&self, sql: &str) -> Bytes {
        let mut query = BytesMut::new();
        Query::new(sql.as_bytes()).encode(&mut query, self.key.capabilities);
        query.freeze().slice(1..)
    }

    /// Sends a command.
    pub(super) async fn send(&mut self, code: CommandCode, payload: &[u8]) -> io::Result<()> {
        let mut packet = BytesMut::with_capacity(payload.len() + 8);
        put_packet(&mut packet, 0, &[&[code.0], payload].concat());
        self.io.write_all(&packet).await?;
        self.io.flush().await
    }

    /// Says goodbye, so that the server does not count an aborted client.
    pub(crate) async fn quit(mut self) {
        let mut packet = BytesMut::new();
        put_packet(&mut packet, 0, &[CommandCode::QUIT.0]);
        // It is closed in any event.
        let _ = self.io.write_all(&packet).await;
        let _ = self.io.shutdown().await;
    }

    /// Notes what a command is about to do to the connection.
    pub(super) fn sends(&mut self, command: &Command) {
        self.lasting.follow(command);
        self.was_reset |= command.code() == CommandCode::RESET_CONNECTION;
    }

    /// Notes what a command has done to the prepared statements, and to the transaction.
    pub(super) fn counts(&self, change: Change, end: &End) {
        if let Some(lease) = &*self.seat.lease() {
            lease.prepared.done(change, end);
            if let Some(status) = end.status {
                let open = Status::IN_TRANS | Status::IN_TRANS_READONLY;
                lease.in_transaction.store(!(status & open).is_empty(), Relaxed);
            }
        }
    }

    /// Whether the server has said something, or closed: on an idle connection nothing good.
    pub(crate) fn has_news(&self) -> bool {
        self.io.has_news()
    }

    /// Sends a command whose reply is one OK or ERR packet, and reads it.
    pub(super) async fn ask(
        &mut self,
        code: CommandCode,
        payload: &[u8],
    ) -> Result<(), ConnectError> {
        self.ask_all(&[(code, payload)]).await
    }

    /// The same with several commands in one write. After an error the replies to those behind it
    /// have not been read: the connection is to be closed.
    async fn ask_all(&mut self, commands: &[(CommandCode, &[u8])]) -> Result<(), ConnectError> {
        let mut packets = BytesMut::new();
        for (code, payload) in commands {
            put_packet(&mut packets, 0, &[&[code.0], *payload].concat());
        }
        self.io.write_all(&packets).await?;
        self.io.flush().await?;
        let mut read = BytesMut::new();
        for (code, _) in commands {
            let reply = read_message(&mut self.io, &mut read, REPLY_LIMIT).await?.payload();
            match reply.first() {
                // COM_SET_OPTION is answered by an EOF packet
                Some(0x00 | 0xFE) => {}
                Some(0xFF) => return Err(ConnectError::Refused(ErrPacket::decode(&reply)?)),
                _ => {
                    let text = format!("an odd reply to {}", code.name());
                    return Err(ConnectError::Protocol(text));
                }
            }
        }
        if read.is_empty() {
            return Ok(());
        }
        Err(ConnectError::Protocol("more than the replies to the proxy's own commands".into()))
    }
}

/// The statement that brings character set and collation to what a handshake with the collation `id`
/// would make them, where they are not.
pub(super) fn set_names(vendor: Vendor, id: u16, was_reset: bool) -> Option<String> {
    match vendor {
        // After a reset they are the server's default. And a handshake has no room for more than 8
        // bits.
        Vendor::MySql if was_reset || id > u16::from(u8::MAX) => {
            let (charset, collation) = wire::collation::names(id)?;
            Some(format!("SET NAMES {charset} COLLATE {collation}"))
        }
        // After a reset they are the handshake's again, but for an id that is MySQL's alone: a
        // handshake with that one makes them the global ones, a reset does not.
        Vendor::MariaDb if was_reset && id > MARIADB_LAST_ID => Some("SET NAMES DEFAULT".into()),
        _ => None,
    }
}

/// Reads one message. The end of the stream is an error.
pub(crate) async fn read_message(
    io: &mut Stream,
    buffer: &mut BytesMut,
    limit: usize,
) -> Result<Message, ConnectError> {
    loop {
        if let Some(message) = take_message(buffer, limit)? {
            return Ok(message);
        }
        if buffer::append(io, buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}
