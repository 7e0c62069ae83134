//! KILL over a connection of its own.

use super::{Backend, Key, connect, connect::ConnectError, link::Link, tells_attributes};
use crate::config::Account;
use std::sync::Arc;
use wire::{
    attributes::Attributes, capability::Capabilities, command::CommandCode, proxy_protocol::Source,
};

/// How many connections a server gives to KILLs at once, beyond its `max_connections`.
pub(super) const SPARE: usize = 2;

/// utf8mb4_general_ci: every server knows it.
const COLLATION: u16 = 45;

/// Ends the server's thread `thread_id` over a connection that is opened for it and closed again;
/// `source` as for the connection to be killed, for an account may be one of its host alone.
/// Whether `account` may do that is the server's to say, as is whether there is such a thread
/// ([`ConnectError::Refused`]: 1095, 1094). Takes no longer than one attempt to connect.
pub(crate) async fn kill(
    backend: &Arc<Backend>,
    account: &Account,
    source: Source,
    thread_id: u32,
) -> Result<(), ConnectError> {
    let text = format!("KILL CONNECTION {thread_id}");
    run(backend, account, source, CommandCode::QUERY, text.as_bytes()).await
}

/// As [`kill`], but ends only the statement that the thread runs.
pub(crate) async fn query(
    backend: &Arc<Backend>,
    account: &Account,
    source: Source,
    thread_id: u32,
) -> Result<(), ConnectError> {
    let text = format!("KILL QUERY {thread_id}");
    run(backend, account, source, CommandCode::QUERY, text.as_bytes()).await
}

/// Sends one command whose reply is an OK or an ERR.
pub(super) async fn run(
    backend: &Arc<Backend>,
    account: &Account,
    source: Source,
    code: CommandCode,
    payload: &[u8],
) -> Result<(), ConnectError> {
    let timeout = backend.connect_timeout();
    let work = async {
        let mut link = open(backend, account, source).await?;
        let done = link.ask(code, payload).await;
        link.quit().await;
        done
    };
    tokio::time::timeout(timeout, work).await.unwrap_or(Err(ConnectError::Timeout(timeout)))
}

/// A connection for one KILL, or to be killed.
pub(super) async fn open(
    backend: &Arc<Backend>,
    account: &Account,
    source: Source,
) -> Result<Link, ConnectError> {
    let key = Key {
        user: account.user.clone(),
        capabilities: Capabilities::LONG_PASSWORD | tells_attributes(true),
        collation: COLLATION,
        client: None,
    };
    let timeout = backend.connect_timeout();
    let opened = async {
        let permit = backend.spare.clone().acquire_owned().await?;
        connect::open(backend, key, account, source, Attributes::default(), permit).await
    };
    tokio::time::timeout(timeout, opened).await.unwrap_or(Err(ConnectError::Timeout(timeout)))
}
