//! KILL over a connection of its own.

use super::{Backend, Key, connect, connect::ConnectError};
use crate::config::Account;
use std::{fmt, sync::Arc};
use wire::capability::Capabilities;

/// What a KILL ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "a client's KILL QUERY comes next")]
pub(crate) enum Scope {
    /// The statement at work. The connection goes on.
    Query,
    /// The connection, and the statement with it.
    Connection,
}

/// How many connections a server gives to KILLs at once, beyond its `max_connections`.
pub(super) const SPARE: usize = 2;

/// utf8mb4_general_ci: every server knows it.
const COLLATION: u16 = 45;

/// Ends the server's thread `thread_id`, or what it runs, over a connection that is opened for it
/// and closed again. Whether `account` may do that is the server's to say, as is whether there is
/// such a thread ([`ConnectError::Refused`]: 1095, 1094). Takes no longer than one attempt to
/// connect.
pub(crate) async fn kill(
    backend: &Arc<Backend>,
    account: &Account,
    scope: Scope,
    thread_id: u32,
) -> Result<(), ConnectError> {
    run(backend, account, &format!("KILL {scope} {thread_id}")).await
}

/// Runs one statement that gives no rows.
async fn run(backend: &Arc<Backend>, account: &Account, sql: &str) -> Result<(), ConnectError> {
    let timeout = backend.connect_timeout();
    let work = async {
        let permit = backend.spare.clone().acquire_owned().await?;
        let key = Key {
            user: account.user.clone(),
            capabilities: Capabilities::LONG_PASSWORD,
            collation: COLLATION,
        };
        let mut link = connect::open(backend, key, account, permit).await?;
        let done = link.run(sql).await;
        link.quit().await;
        done
    };
    tokio::time::timeout(timeout, work).await.unwrap_or(Err(ConnectError::Timeout(timeout)))
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Query => "QUERY",
            Self::Connection => "CONNECTION",
        })
    }
}
