//! What must be equal for one session's result to be another's.

use chain::{
    Command,
    facts::{Hints, RouteTo, RuleVerdict, SessionLog, Statement},
};
use wire::{capability::Capabilities, status::Status};

/// A result's key: everything that an answer depends on but the data, written one after the other,
/// each with its length.
pub(crate) type Key = Box<[u8]>;

/// Statements that are longer are not worth their keys, in bytes.
const LONGEST: usize = 64 << 10;

/// The key of a command that runs `statement`. `None` for one that is too long.
///
/// An account is a user's name: towards a server, all sessions of a user are the same account, from
/// the proxy's own address.
pub(crate) fn key(command: &Command, statement: &Statement) -> Option<Key> {
    let session = command.session();
    let text = statement.text();
    if text.len() > LONGEST {
        return None;
    }
    let mut key = Vec::with_capacity(text.len() + 96);
    let mut put = |part: &[u8]| {
        key.extend_from_slice(&(part.len() as u64).to_le_bytes());
        key.extend_from_slice(part);
    };
    put(text);
    put(session.user.as_bytes());
    match &session.current_schema {
        Some(schema) => put(schema),
        None => put(&[0xFF]),
    }
    let format = Capabilities::WIRE_FORMAT | Capabilities::BEHAVIOUR;
    put(&(session.capabilities & format).0.to_le_bytes());
    put(&session.collation.to_le_bytes());
    put(&lasting(session.status()).0.to_le_bytes());
    put(&session.hostgroup.0.to_le_bytes());
    let ruled = command.fact::<RuleVerdict>().and_then(|verdict| verdict.hostgroup);
    put(&ruled.map_or(u32::MAX, |hostgroup| hostgroup.0).to_le_bytes());
    if let Some(hints) = command.fact::<Hints>() {
        put(&hints.hostgroup.map_or(u32::MAX, |hostgroup| hostgroup.0).to_le_bytes());
        match &hints.route {
            None => put(b"-"),
            Some(RouteTo::Primary) => put(b"primary"),
            Some(RouteTo::Replica) => put(b"replica"),
            Some(RouteTo::Last) => put(b"last"),
            Some(RouteTo::Named(name)) => put(name.as_bytes()),
        }
    }
    if let Some(log) = command.fact::<SessionLog>() {
        put(&[u8::from(log.schemaless)]);
        for entry in log.entries.iter() {
            put(&[entry.code.0]);
            put(&entry.payload);
        }
    }
    Some(key.into())
}

/// What a status says of the session beyond its last statement.
pub(crate) fn lasting(status: Status) -> Status {
    status & (Status::AUTOCOMMIT | Status::NO_BACKSLASH_ESCAPES | Status::ANSI_QUOTES)
}
