//! One client session, from its login to its end.

mod attend;
pub(crate) mod budget;
mod client;
mod counted;
mod deliver;
pub(crate) mod header;
mod leave;
pub(crate) mod login;
mod next;
mod place;
pub(crate) mod relay;
pub(crate) mod rest;
mod schema;
pub(crate) mod slow;
mod statements;
pub(crate) mod watch;

pub(crate) use client::Client;
use next::{next_command, packet_too_large, too_large};
pub(crate) use place::Place;

use crate::{
    backend::{
        connection::Closed,
        dispatch::{Dispatch, Shared},
        sessions::Killed,
    },
    config::Account,
    forward::{Parting, notes::Notes},
    metrics::Metrics,
    signal::Signal,
    telemetry::Tracing,
};
use attend::{Gone, Patience};
use bytes::BytesMut;
use chain::{Command, Error, Origin, Outcome, Reply, Session, Stack, Topology};
use counted::Counted;
use deliver::{Delivery, deliver};
use futures_util::FutureExt;
use leave::Leaving;
use login::Entrance;
use sql::{Dialect, Verb};
use statements::Statements;
use std::{
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tower::{Service, ServiceExt};
use tracing::{Instrument, Span};
use watch::Watchers;
use wire::{
    command::CommandCode,
    err::{ErrPacket, ErrorCode, codes},
    packet::Message,
};

/// What a session needs besides its client.
pub(crate) struct Context {
    /// How its clients come in.
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) metrics: Arc<Metrics>,
    /// Longest command, in bytes of payload.
    pub(crate) max_command: usize,
    /// Prepared statements of one session.
    pub(crate) max_statements: u32,
    /// How long a client may be logged in without a command.
    pub(crate) wait_timeout: Duration,
    /// Those who note what becomes of commands, if there are any.
    pub(crate) watchers: Option<Arc<Watchers>>,
    /// How commands are traced, if they are.
    pub(crate) tracing: Option<Arc<Tracing>>,
    /// Where commands of observed sessions are noted for both.
    pub(crate) notes: Notes,
    /// Given when the proxy is about to end: no new work begins.
    pub(crate) draining: Arc<Signal>,
}

/// Why a session ended.
pub(crate) enum Ended {
    /// The client said goodbye, or closed between two commands.
    Left,
    /// The client logs in anew, with this COM_CHANGE_USER.
    ChangesUser(Message),
    /// The proxy is about to end.
    Drained,
    /// The client closed in the middle of something, or broke the protocol.
    Client(Error),
    /// What the session had on a server, or in a filter, is gone.
    Backend(Error),
    /// It has left the chain.
    Forwarded(Box<Parting>),
}

/// Serves commands until the session ends. `stack` may have a connection already.
pub(crate) async fn serve(
    client: &mut Client,
    place: &mut Place,
    session: &mut Session,
    stack: &mut Stack,
) -> Ended {
    let draining = place.context.draining.clone();
    let mut drained = pin!(draining.given());
    let context = place.context.clone();
    client.describe(session, &context);
    let first = next_command(client, &context, session, stack, drained.as_mut());
    // Later on there is a server that waits, for as long as its own wait_timeout says.
    let Ok(mut next) = tokio::time::timeout(context.wait_timeout, first).await else {
        return Ended::Client(Error::client("no command within limits.wait_timeout"));
    };
    let mut before = Answered::Well;
    let mut statements = Statements::new(context.max_statements);
    drop(context);
    // Its stack has not seen a command yet.
    let mut bare = true;
    loop {
        let message = match next {
            Ok(Some(message)) => message,
            Ok(None) => return Ended::Left,
            Err(ended) => return ended,
        };
        let code = message.first_byte().map(CommandCode);
        let resets = code == Some(CommandCode::RESET_CONNECTION);
        bare |= resets;
        if place.is_behind(bare) && (resets || !session.in_transaction()) {
            place.follow(session, stack, bare);
            client.describe(session, &place.context);
            statements.limit(place.context.max_statements);
        }
        bare = false;
        let context = &place.context;
        match code {
            Some(CommandCode::QUIT) => return Ended::Left,
            Some(CommandCode::CHANGE_USER) => return Ended::ChangesUser(message),
            _ => {
                before =
                    match run(client, context, session, stack, &mut statements, message, before)
                        .await
                    {
                        Ok(answered) => answered,
                        Err(ended) => return ended,
                    };
                client.rests();
            }
        }
        next = next_command(client, context, session, stack, drained.as_mut()).await;
    }
}

/// How the reply to a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Well,
    /// So that the server may have closed the connection: by an ERR, or because it was asked to.
    PerhapsClosed,
}

impl Answered {
    fn of(perhaps_closed: bool) -> Self {
        if perhaps_closed { Self::PerhapsClosed } else { Self::Well }
    }

    /// Whether `error`, behind such a reply, is the end of the connection that the reply announced.
    ///
    /// A server that closes behind such a reply has closed because of it. Its client would see the
    /// end of the connection, also with a command that is on its way already.
    fn explains(self, error: &Error) -> bool {
        (self == Self::PerhapsClosed && error.cause::<Closed>().is_some())
            || error.cause::<Killed>().is_some()
    }
}

/// Takes one command through the chain and its reply to the client.
async fn run(
    client: &mut Client,
    context: &Context,
    session: &mut Session,
    stack: &mut Stack,
    statements: &mut Statements,
    message: Message,
    before: Answered,
) -> Result<Answered, Ended> {
    let started = Instant::now();
    client.begins(started);
    let (sequence, size) = (message.next_seq, message.framed.len());
    let Some(command) = Command::read(session.clone(), message) else {
        let refusal = ErrPacket::new(codes::ER_UNKNOWN_COM_ERROR, "Unknown command");
        return decline(client, sequence, &refusal).await;
    };
    context.metrics.command(command.code());
    let mut counted = Counted::new(context, &command, size);
    let traced = context.tracing.as_ref().and_then(|tracing| tracing.begin(&command, started));
    let has_reply = command.code().has_reply();
    let change = match statements.admit(&command) {
        Ok(change) => change,
        Err(refusal) => return decline(client, sequence, &refusal).await,
    };
    let (schema, closes) = (schema::Asked::by(&command), asks_to_close(&command));
    let mut watch = context.watchers.as_ref().map(|watchers| watchers.watch(&command, started));
    let patience = Patience::of(&context.shared.settings.load());
    let (command, span) = match &traced {
        Some(traced) => (traced.follow(command), traced.span()),
        None => (command, Span::none()),
    };
    let called = call(stack, command).instrument(span);
    let Some(reply) = client.attended(patience, called).await else {
        return Err(Ended::Client(Error::client(Gone)));
    };
    let reply = match reply {
        Ok(reply) if reply.is_handover() => {
            let leaving = Leaving { session, statements, traced, watch: watch.as_mut(), has_reply };
            return Err(leaving.with(reply, context));
        }
        reply => reply,
    };
    if let Ok(reply) = &reply {
        counted.served(reply);
        watch.iter_mut().for_each(|watch| watch.served(reply));
        traced.iter().for_each(|traced| traced.answered(reply));
    }
    let error = match reply.map(Reply::into_outcome) {
        Ok(Outcome::Body(body)) => match deliver(client, change.watch(body), patience).await {
            Delivery::Ended(end) => {
                statements.changed(change, &end);
                if schema.done(&end, session) {
                    client.describe(session, context);
                }
                if let Some(status) = end.status {
                    session.set_status(status);
                }
                counted.took(started.elapsed(), end.error.is_some(), client.sent);
                watch.iter_mut().for_each(|watch| watch.ended(end.error, client.sent));
                traced.iter().for_each(|traced| traced.ended(end.error, client.sent));
                return Ok(Answered::of(closes || end.error.is_some()));
            }
            Delivery::Begun(error) => {
                context.metrics.error(error.origin());
                traced.iter().for_each(|traced| traced.failed(&error));
                return Err(Ended::Backend(error));
            }
            Delivery::NotBegun(error) => error,
            Delivery::ClientGone(error) => return Err(Ended::Client(error)),
        },
        Ok(Outcome::Handover(_)) => Error::filter("it has been taken above"),
        Err(error) => error,
    };
    watch.iter_mut().for_each(|watch| watch.ended(Some(error.code()), 0));
    traced.iter().for_each(|traced| traced.failed(&error));
    context.metrics.error(error.origin());
    if has_reply && !before.explains(&error) {
        tell(client, sequence, &error).await?;
    }
    survive(stack, error).await
}

/// Answers a command that the chain does not see.
async fn decline(
    client: &mut Client,
    sequence: u8,
    refusal: &ErrPacket,
) -> Result<Answered, Ended> {
    refuse(client, sequence, refusal).await.map_err(Ended::Client)?;
    Ok(Answered::Well)
}

/// The one place where errors become ERR packets.
async fn tell(client: &mut Client, sequence: u8, error: &Error) -> Result<(), Ended> {
    let code = ErrorCode { code: error.code(), sqlstate: error.sqlstate() };
    let refusal = ErrPacket::new(code, error.message());
    refuse(client, sequence, &refusal).await.map_err(Ended::Client)
}

/// Whether the session goes on behind a command that got no reply.
async fn survive(stack: &mut Stack, error: Error) -> Result<Answered, Ended> {
    if error.cause::<Panicked>().is_some() {
        return Err(Ended::Backend(error));
    }
    match stack.ready().await {
        Ok(_) if error.origin() != Origin::Client => Ok(Answered::Well),
        Ok(_) => Err(Ended::Client(error)),
        // The session's connection is gone, and what it had set there with it. Going on as if
        // nothing were lost would give wrong answers.
        Err(_) => Err(Ended::Backend(error)),
    }
}

/// Whether a command asks the server to close a connection, this one perhaps.
fn asks_to_close(command: &Command) -> bool {
    match command.verb() {
        Verb::Kill => true,
        Verb::Commit | Verb::Rollback => {
            let text = command.sql().unwrap_or_default();
            sql::statement(&text, Dialect::default()).releases()
        }
        _ => command.code() == CommandCode::PROCESS_KILL,
    }
}

/// A panic in a filter is an error that ends its session, not the process.
pub(crate) async fn call(stack: &mut Stack, command: Command) -> chain::Result<Reply> {
    let call = async { stack.ready().await?.call(command).await };
    let reply = AssertUnwindSafe(call).catch_unwind().await;
    reply.unwrap_or_else(|_| Err(Error::filter(Panicked)))
}

/// A filter has panicked: what it knows of the session is in doubt.
#[derive(Debug, thiserror::Error)]
#[error("a filter of this proxy has failed, the session ends")]
struct Panicked;

/// Sends an ERR packet as the whole reply.
pub(crate) async fn refuse(
    client: &mut Client,
    sequence: u8,
    refusal: &ErrPacket,
) -> Result<(), Error> {
    let mut payload = BytesMut::new();
    refusal.encode(&mut payload);
    client.send(sequence, &payload).await.map(drop)
}

/// The bottom of a new session's stack with the chain on top.
pub(crate) fn stack(context: &Context, account: &Account, multiplex: bool, id: u32) -> Stack {
    let dispatch = Dispatch::stack(context.shared.clone(), account.clone(), id, multiplex);
    context.shared.chain.session(dispatch)
}
