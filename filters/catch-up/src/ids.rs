//! Statement ids: the session's above, the server's below.

mod watch;

use bytes::{Bytes, BytesMut};
use chain::{
    Command, Reply,
    facts::{Expected, LogEntry, SessionLog, StateId, Unprepared},
    id_map::IdMap,
    retry::Retry,
};
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};
use wire::{
    command::{CommandCode, statement::statement_id},
    err::ErrPacket,
};

pub(crate) use watch::watch;

/// The statements that this connection has.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// The session's own, by its ids.
    known: IdMap<Known>,
    /// Those whose context the session's next log tells.
    unlabelled: Vec<u32>,
    /// Those of sessions that had the connection before; the one used last is the last.
    spare: VecDeque<Spare>,
    /// The server's ids of those that nobody can use again.
    closing: Vec<u32>,
}

#[derive(Debug)]
enum Known {
    Here {
        /// The server's id.
        server: u32,
        /// See [`LogEntry::context`]; `None` also where another session must not have it.
        context: Option<StateId>,
    },
    /// The server has refused it: with this ERR packet, or empty if it is another statement here.
    Broken { error: Bytes, retry: Retry },
}

#[derive(Debug)]
struct Spare {
    context: StateId,
    server: u32,
}

/// Errors of a replica that has not yet got what the primary has: no such schema, table, column,
/// routine.
const LAGGING: [u16; 4] = [1049, 1146, 1054, 1305];

/// Whether a command begins with a statement's id.
pub(crate) fn names_statement(code: CommandCode) -> bool {
    (CommandCode::STMT_EXECUTE.0..=CommandCode::STMT_RESET.0).contains(&code.0)
        || code == CommandCode::STMT_FETCH
        || code == CommandCode::STMT_BULK_EXECUTE
}

/// The session's id of the statement that an entry prepares.
pub(crate) fn prepares(entry: &LogEntry) -> Option<u32> {
    match entry.expected {
        Expected::Statement { id, .. } => Some(id),
        _ => None,
    }
}

/// What another session must have of a statement for it to be the same one. The dispatcher puts
/// each session's own id into a text that asks for it.
fn shared_context(entry: &LogEntry) -> Option<StateId> {
    entry.context.filter(|_| !sql::may_name_connection_id(&entry.payload))
}

impl Ids {
    /// Notes a statement of the session's, which the log has told of.
    pub(crate) fn insert(&mut self, entry: &LogEntry, session: u32, server: u32) {
        self.known.insert(session, Known::Here { server, context: shared_context(entry) });
    }

    /// Notes a statement that the session itself has prepared here.
    pub(crate) fn insert_own(&mut self, session: u32, server: u32) {
        self.known.insert(session, Known::Here { server, context: None });
        self.unlabelled.push(session);
    }

    /// Notes a statement that cannot be executed here.
    pub(crate) fn broken(&mut self, session: u32, why: Bytes) {
        let now = Instant::now();
        if let Some(Known::Broken { error, retry }) = self.known.get_mut(&session) {
            retry.again(now);
            *error = why;
            return;
        }
        self.known.insert(session, Known::Broken { error: why, retry: Retry::failed(now) });
    }

    /// Whether there is nothing to be learnt from the session's next log.
    pub(crate) fn is_settled(&self) -> bool {
        self.unlabelled.is_empty()
    }

    /// Learns the contexts of the statements that the session has prepared itself.
    pub(crate) fn label(&mut self, log: &SessionLog) {
        for id in std::mem::take(&mut self.unlabelled) {
            let entry = log.entries.iter().rev().find(|entry| prepares(entry) == Some(id));
            if let (Some(entry), Some(Known::Here { context, .. })) =
                (entry, self.known.get_mut(&id))
            {
                *context = shared_context(entry);
            }
        }
    }

    /// Forgets the session's statements but those that its log has.
    pub(crate) fn retain(&mut self, entries: &[Arc<LogEntry>]) {
        let kept: HashSet<_> = entries.iter().filter_map(|entry| prepares(entry)).collect();
        let gone = self.known.keys().copied().filter(|id| !kept.contains(id));
        for id in gone.collect::<Vec<_>>() {
            if let Some(Known::Here { server, .. }) = self.known.remove(&id) {
                self.closing.push(server);
            }
        }
        self.unlabelled.retain(|id| kept.contains(id));
    }

    /// The connection is another session's from now on.
    pub(crate) fn pass_on(&mut self) {
        self.unlabelled.clear();
        for known in std::mem::take(&mut self.known).into_values() {
            match known {
                Known::Here { server, context: Some(context) } => {
                    self.spare.push_back(Spare { context, server });
                }
                Known::Here { server, context: None } => self.closing.push(server),
                Known::Broken { .. } => {}
            }
        }
    }

    /// Takes over what a session before has prepared, if that is there.
    pub(crate) fn take_over(&mut self, entry: &LogEntry, session: u32) -> bool {
        let Some(wanted) = shared_context(entry) else { return false };
        let Some(at) = self.spare.iter().rposition(|spare| spare.context == wanted) else {
            return false;
        };
        let Some(Spare { server, .. }) = self.spare.remove(at) else { return false };
        self.insert(entry, session, server);
        true
    }

    /// The server's ids of what is to be closed: beyond `limit`, what has been there longest.
    pub(crate) fn surplus(&mut self, limit: usize) -> Vec<u32> {
        let beyond = self.spare.len().saturating_sub(limit);
        let mut closing = std::mem::take(&mut self.closing);
        closing.extend(self.spare.drain(..beyond).map(|spare| spare.server));
        closing
    }

    /// The session's and the server's id of each.
    pub(crate) fn pairs(&self) -> Vec<(u32, u32)> {
        let here = |(session, known): (&u32, &Known)| match known {
            Known::Here { server, .. } => Some((*session, *server)),
            Known::Broken { .. } => None,
        };
        self.known.iter().filter_map(here).collect()
    }

    /// Whether the session's statement is here.
    pub(crate) fn has(&self, session: u32) -> bool {
        matches!(self.known.get(&session), Some(Known::Here { .. }))
    }

    /// Whether it is time to prepare again what was refused.
    pub(crate) fn is_due(&self, session: u32) -> bool {
        match self.known.get(&session) {
            Some(Known::Broken { retry, .. }) => retry.is_due(Instant::now()),
            _ => false,
        }
    }

    /// Puts the server's id into a command. Gives it back with the answer if the statement is not
    /// here.
    pub(crate) fn translate(&mut self, mut command: Command) -> Result<Command, Reply> {
        let Some(id) = statement_id(command.whole()) else { return Ok(command) };
        let closes = command.code() == CommandCode::STMT_CLOSE;
        let silent = closes || command.code() == CommandCode::STMT_SEND_LONG_DATA;
        let removed = if closes { self.known.remove(&id) } else { None };
        match removed.as_ref().or_else(|| self.known.get(&id)) {
            Some(Known::Here { server, .. }) => {
                let mut payload = BytesMut::from(command.payload());
                payload[..4].copy_from_slice(&server.to_le_bytes());
                command.rewrite(payload);
                Ok(command)
            }
            Some(Known::Broken { error, .. }) if !closes => {
                let error = ErrPacket::decode(error).ok();
                let lags = error.as_ref().is_some_and(|error| LAGGING.contains(&error.code));
                let reply = if silent { Reply::none() } else { refused(&command, id, error) };
                Err(if lags { reply.with(Unprepared { command }) } else { reply })
            }
            // No reply; it is no statement of this connection.
            _ if silent && self.is_foreign(id) => Err(Reply::none()),
            _ if silent || self.is_free(id) => Ok(command),
            // The server would take another statement for it.
            _ => Err(refused(&command, id, None)),
        }
    }

    /// Whether no statement of the server has this id.
    fn is_free(&self, id: u32) -> bool {
        !self
            .known
            .values()
            .any(|known| matches!(known, Known::Here { server, .. } if *server == id))
            && !self.spare.iter().any(|spare| spare.server == id)
            && !self.closing.contains(&id)
    }

    /// Whether the id is one of the session's, or would hit a statement of the server.
    fn is_foreign(&self, id: u32) -> bool {
        (id >= 1 << 31 && id != u32::MAX) || !self.is_free(id)
    }
}

fn refused(command: &Command, id: u32, error: Option<ErrPacket>) -> Reply {
    match error {
        Some(error) => Reply::err(command, &error),
        None => Reply::unknown_statement(command, id),
    }
}
