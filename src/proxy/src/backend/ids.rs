//! Clients see the proxy's ids, servers have their own: what a session says of either is
//! translated here, between the session's filters and its connections.
//!
//! ```text
//! CONNECTION_ID() ─▶ rewrite (spell) ─▶ server ─▶ restore ─▶ the client's words again
//! KILL id ─────────▶ kill ─▶ the connection that the session with that id has
//! ```

mod kill;
mod prepared;
mod restore;
mod rewrite;
pub(crate) mod spell;

use super::{
    connect::Vendor,
    dispatch::Held,
    link::Link,
    sessions::{Lease, Registered},
};
use chain::{Answer, Command, Error, Outcome, Reply, Result, Session, body::Ending};
use prepared::Prepared;
use restore::Restorer;
pub(super) use rewrite::Rewrite;
use sql::{Charset, Dialect, Server, Verb};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use tower::{Service, ServiceExt};
use wire::{
    command::{CommandCode, Execute, statement::statement_id},
    status::Status,
};

/// What is known of ids on one connection of a session.
pub(super) struct Ids {
    pub(super) lease: Arc<Lease>,
    pub(super) vendor: Vendor,
    version: Option<Server>,
    /// The session has no other connection, and the proxy knows no password for one.
    alone: bool,
    prepared: Prepared,
}

/// Longest reply that is read whole, in bytes: up to 65,535 definitions of parameters and as many
/// of columns.
const LIMIT: usize = 1 << 26;

impl Ids {
    pub(super) fn of(link: &Link, lease: Arc<Lease>) -> Self {
        let Link { vendor, version, .. } = *link;
        let alone = link.home.is_some();
        Self { lease, vendor, version, alone, prepared: Prepared::default() }
    }

    /// Whether a prepared statement has the session's id in it.
    pub(super) fn has_statements(&self) -> bool {
        !self.prepared.is_empty()
    }

    /// The connection is another session's.
    pub(super) fn forget_statements(&mut self) {
        self.prepared = Prepared::default();
    }

    fn dialect(&self, session: &Session) -> Dialect {
        let status = session.status();
        Dialect {
            ansi_quotes: status.contains(Status::ANSI_QUOTES),
            no_backslash_escapes: status.contains(Status::NO_BACKSLASH_ESCAPES),
            server: self.version,
            charset: Charset::of_collation(session.collation),
            unsure: false,
        }
    }
}

/// Sends a command down the stack of `held`, a connection of the session `me`.
pub(super) async fn exchange(held: &mut Held, me: &Registered, command: Command) -> Result<Reply> {
    match command.code() {
        // One of several packets is left alone: it would have to be joined to be looked at.
        CommandCode::QUERY | CommandCode::STMT_PREPARE if command.reply_seq() == 1 => {
            statement(held, me, command).await
        }
        CommandCode::PROCESS_KILL => Box::pin(kill::command(held, me, command)).await,
        CommandCode::STMT_EXECUTE | CommandCode::STMT_BULK_EXECUTE
            if !held.ids.prepared.is_empty() =>
        {
            execute(held, command).await
        }
        CommandCode::STMT_CLOSE if !held.ids.prepared.is_empty() => {
            if let Some(id) = statement_id(command.whole()) {
                held.ids.prepared.remove(id);
            }
            pass(held, command).await
        }
        CommandCode::RESET_CONNECTION => {
            held.ids.prepared = Prepared::default();
            me.entry.renamed.store(false, Relaxed);
            pass(held, command).await
        }
        _ => pass(held, command).await,
    }
}

/// Sends the first command of a call: the stack is ready for it since the dispatcher was.
async fn pass(held: &mut Held, mut command: Command) -> Result<Reply> {
    held.introduce(&mut command);
    held.stack.call(command).await
}

async fn send(held: &mut Held, mut command: Command) -> Result<Reply> {
    held.introduce(&mut command);
    held.stack.ready().await?.call(command).await
}

/// Sends a command of the proxy's own and reads the answer.
pub(super) async fn ask(held: &mut Held, command: Command) -> Result<Answer> {
    whole(send(held, command).await?).await
}

async fn whole(reply: Reply) -> Result<Answer> {
    match reply.into_outcome() {
        Outcome::Body(body) => body.collect(LIMIT).await,
        Outcome::Handover(_) => Err(Error::filter("handed over below the session's filters")),
    }
}

async fn statement(held: &mut Held, me: &Registered, command: Command) -> Result<Reply> {
    let Some(text) = command.text() else { return pass(held, command).await };
    let prepares = command.code() == CommandCode::STMT_PREPARE;
    if prepares {
        held.ids.prepared.last = None;
    } else if command.verb() == Verb::Kill {
        return Box::pin(kill::statement(held, me, command)).await;
    }
    if !sql::may_name_connection_id(text) {
        return pass(held, command).await;
    }
    let found = sql::connection_ids(text, held.ids.dialect(command.session()));
    if found.assigned && !prepares {
        let entry = me.entry.clone();
        let reply = pass(held, command).await?;
        return Ok(reply.map_body(|body| {
            body.on_end(move |ending| {
                if matches!(ending, Ending::Done(end) if end.error.is_none()) {
                    entry.renamed.store(true, Relaxed);
                }
            })
        }));
    }
    let has_room = !prepares || held.ids.prepared.has_room(text);
    if found.read.is_empty() || me.entry.renamed.load(Relaxed) || !has_room {
        return pass(held, command).await;
    }
    let text = command.sql().unwrap_or_default();
    let rewrite = Arc::new(Rewrite::new(text, &found.read, held.ids.vendor, me.id));
    Box::pin(rewritten(held, command, rewrite)).await
}

/// Puts the client's words back into the reply to a statement that was changed.
pub(super) fn restored(reply: Reply, rewrite: Rewrite, session: &Session) -> Reply {
    let (rewrite, code) = (Arc::new(rewrite), CommandCode::QUERY);
    let mut restorer = Restorer::new(rewrite, code, session.capabilities, false);
    reply.map_body(|body| body.map(move |frame| restorer.frame(frame)))
}

async fn rewritten(held: &mut Held, mut command: Command, rewrite: Arc<Rewrite>) -> Result<Reply> {
    let capabilities = command.session().capabilities;
    let mut restorer = Restorer::new(rewrite.clone(), command.code(), capabilities, false);
    command.rewrite_sql(&rewrite.ours);
    if command.code() != CommandCode::STMT_PREPARE {
        let reply = pass(held, command).await?;
        return Ok(reply.map_body(|body| body.map(move |frame| restorer.frame(frame))));
    }
    let Answer { packets, end } = whole(pass(held, command).await?).await?;
    let packets = restorer.packets(&packets);
    let end = restorer.end(end);
    if let Some(id) = restorer.statement_id() {
        held.ids.prepared.insert(id, rewrite);
    }
    Ok(Answer { packets, end }.into())
}

async fn execute(held: &mut Held, command: Command) -> Result<Reply> {
    let Some(rewrite) = held.ids.prepared.of(&command).cloned() else {
        return pass(held, command).await;
    };
    let capabilities = command.session().capabilities;
    let cursor = Execute::decode(command.whole()).is_ok_and(|execute| execute.wants_cursor());
    let mut restorer = Restorer::new(rewrite, command.code(), capabilities, cursor);
    let reply = pass(held, command).await?;
    Ok(reply.map_body(|body| body.map(move |frame| restorer.frame(frame))))
}
