//! A client's KILL, with the id that it knows, on the server that has the victim.

use super::{send, whole};
use crate::backend::{
    connect::ConnectError,
    dispatch::{Held, refused},
    kill,
    sessions::{Entry, FIRST, Lease, Registered},
};
use bytes::{Bytes, BytesMut};
use chain::{Answer, Command, Reply, Result, facts::SessionLog};
use sql::Span;
use std::sync::{Arc, atomic::Ordering::Relaxed};
use wire::{
    command::CommandCode,
    err::{ErrPacket, codes},
    packet::{HEADER_LEN, Message},
    proxy_protocol::Source,
};

/// What a client asks for.
struct Order {
    /// The id by which the client knows the victim.
    id: u32,
    /// Only the statement is to end.
    query: bool,
    /// The text and where the id stands in it; `None` for COM_PROCESS_KILL.
    text: Option<(Bytes, Span)>,
}

/// "You are not owner of thread".
const ER_KILL_DENIED: u16 = 1095;

/// How often a victim is looked for that gets a connection just then.
const ATTEMPTS: usize = 3;

/// COM_QUERY with the verb KILL.
pub(super) async fn statement(held: &mut Held, me: &Registered, command: Command) -> Result<Reply> {
    let text = command.sql().unwrap_or_default();
    let order = sql::kill(&text, held.ids.dialect(command.session())).and_then(|kill| {
        let id = u32::try_from(kill.id).ok()?;
        Some(Order { id, query: kill.query, text: Some((text, kill.span)) })
    });
    run(held, me, command, order).await
}

/// COM_PROCESS_KILL.
pub(super) async fn command(held: &mut Held, me: &Registered, command: Command) -> Result<Reply> {
    let id = command.payload().first_chunk().map(|id| u32::from_le_bytes(*id));
    let order = id.map(|id| Order { id, query: false, text: None });
    run(held, me, command, order).await
}

async fn run(
    held: &mut Held,
    me: &Registered,
    command: Command,
    order: Option<Order>,
) -> Result<Reply> {
    if let Some(order) = order.filter(|order| order.id >= FIRST) {
        for _ in 0..ATTEMPTS {
            let Some(victim) = me.find(order.id) else { break };
            if Arc::ptr_eq(&victim, &me.entry) {
                let own = order.command(&command, held.ids.lease.thread_id);
                return send(held, own).await;
            }
            let elsewhere = |lease: &Lease| !Arc::ptr_eq(&lease.backend, &held.ids.lease.backend);
            let reply = match victim.last_used() {
                Some(lease) if held.ids.alone && elsewhere(&lease) => break,
                Some(lease) => strike(held, me, &command, &order, &victim, &lease).await?,
                None => stand_in(held, &command, &order, &victim).await?,
            };
            if let Some(reply) = reply {
                return Ok(reply);
            }
        }
    }
    // Whose id it is, if anybody's, is the server's to say.
    send(held, command).await
}

/// Kills the server's thread that the victim has. `None` if it has it no longer.
async fn strike(
    held: &mut Held,
    me: &Registered,
    command: &Command,
    order: &Order,
    victim: &Entry,
    lease: &Lease,
) -> Result<Option<Reply>> {
    let Some(passage) = lease.gate.enter().await else { return Ok(None) };
    victim.killed.store(!order.query, Relaxed);
    if Arc::ptr_eq(&lease.backend, &held.ids.lease.backend) {
        let own = order.command(command, lease.thread_id);
        let answer = whole(send(held, own).await?).await?;
        passage.answered();
        victim.killed.store(!order.query && answer.end.error.is_none(), Relaxed);
        return Ok(Some(order.translated(answer, lease.thread_id).into()));
    }
    let (code, payload) = order.payload(lease.thread_id);
    let source = held.ids.lease.source;
    match kill::run(&lease.backend, &me.entry.account(), source, code, &payload).await {
        Ok(()) => {
            passage.answered();
            // That was another connection's reply. This one has one of its own.
            Ok(Some(send(held, nothing(command)).await?))
        }
        Err(ConnectError::Refused(err)) => {
            passage.answered();
            victim.killed.store(false, Relaxed);
            let gone = err.code == codes::ER_NO_SUCH_THREAD.code;
            Ok((!gone).then(|| Reply::err(command, &order.named(err, lease.thread_id))))
        }
        Err(error) => Err(refused(&lease.backend, error)),
    }
}

/// The victim has no connection that a server could judge about. One is opened as the victim's for
/// the server to say whether it may be killed; then the session is ended. `None` if it has got one
/// of its own by then.
async fn stand_in(
    held: &mut Held,
    command: &Command,
    order: &Order,
    victim: &Entry,
) -> Result<Option<Reply>> {
    let backend = held.ids.lease.backend.clone();
    let opened = kill::open(&backend, &victim.account(), Source::Own).await;
    let link = opened.map_err(|error| refused(&backend, error))?;
    let killed = send(held, order.command(command, link.thread_id)).await;
    let answer = whole(killed?).await?;
    let answer = order.translated(answer, link.thread_id);
    link.quit().await;
    let ends = !order.query && answer.end.error.is_none();
    Ok((!ends || victim.end()).then(|| answer.into()))
}

impl Order {
    /// The same order with a server's id, in place of `command`.
    fn command(&self, command: &Command, thread_id: u32) -> Command {
        let (code, payload) = self.payload(thread_id);
        let session = command.session().clone();
        let order = match code {
            CommandCode::QUERY => Command::query(session, payload),
            code => Command::new(session, code, payload),
        };
        in_place_of(command, order)
    }

    /// The order with a server's id, without query attributes.
    fn payload(&self, thread_id: u32) -> (CommandCode, Vec<u8>) {
        match &self.text {
            Some((text, span)) => {
                let id = thread_id.to_string();
                let text = [&text[..span.start], id.as_bytes(), &text[span.end..]].concat();
                (CommandCode::QUERY, text)
            }
            None => (CommandCode::PROCESS_KILL, thread_id.to_le_bytes().into()),
        }
    }

    /// A server's answer with the client's id in place of the server's.
    fn translated(&self, mut answer: Answer, thread_id: u32) -> Answer {
        let packet = &answer.end.packet;
        let payload = packet.get(HEADER_LEN..).unwrap_or_default();
        if answer.end.error.is_some()
            && let Ok(err) = ErrPacket::decode(payload)
        {
            let mut named = BytesMut::new();
            self.named(err, thread_id).encode(&mut named);
            let seq = packet.get(HEADER_LEN - 1).copied().unwrap_or_default();
            answer.end.packet = Message::new(seq, &named).framed;
        }
        answer
    }

    /// An error with the client's id in place of the server's.
    fn named(&self, err: ErrPacket, thread_id: u32) -> ErrPacket {
        if !matches!(err.code, ER_KILL_DENIED) && err.code != codes::ER_NO_SUCH_THREAD.code {
            return err;
        }
        let message = err.message_lossy().replace(&thread_id.to_string(), &self.id.to_string());
        ErrPacket { message: message.into(), ..err }
    }
}

/// A statement that does nothing, in place of `command`.
fn nothing(command: &Command) -> Command {
    in_place_of(command, Command::query(command.session().clone(), "DO 0"))
}

/// Another command, for a connection in the state that `command` needs.
fn in_place_of(command: &Command, mut other: Command) -> Command {
    if let Some(log) = command.fact::<SessionLog>() {
        other.note(SessionLog { this: None, ..log.clone() });
    }
    other.asked_by(command.asker())
}
