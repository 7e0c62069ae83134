//! A session's way into its schema, where the login names one.

use super::LOGIN;
use crate::session::{Client, call, refuse};
use bytes::{Bytes, BytesMut};
use chain::{Command, Error, Outcome, Reply, Session, Stack};
use wire::{
    command::CommandCode,
    err::{ErrPacket, ErrorCode},
    ok::OkPacket,
    packet::HEADER_LEN,
    status::Status,
};

/// Longest reply of a server to a change of schema, in bytes of payload.
const LIMIT: usize = 128 * 1024;

/// Takes the session into its schema, on a server: only that one knows whether the schema is there
/// and may be used. The server's reply is the reply to the login.
pub(super) async fn enter(
    client: &mut Client,
    session: &mut Session,
    stack: &mut Stack,
    schema: Vec<u8>,
    info: Vec<u8>,
    seq: u8,
) -> Result<(), Error> {
    let schema = Bytes::from(schema);
    session.update(|view| {
        view.schema = Some(schema.clone());
        view.current_schema = Some(schema.clone());
    });
    let command = Command::new(session.clone(), CommandCode::INIT_DB, &schema);
    let command = command.asked_by(LOGIN);
    let answer = match call(stack, command).await.map(Reply::into_outcome) {
        Ok(Outcome::Body(body)) => body.collect(LIMIT).await,
        Ok(Outcome::Handover(_)) => Err(Error::filter("handed over before the login was complete")),
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) => {
            let payload = answer.end.packet.get(HEADER_LEN..).unwrap_or_default();
            match OkPacket::decode(payload, session.capabilities) {
                Ok(ok) if !info.is_empty() => {
                    let mut payload = BytesMut::new();
                    OkPacket { info, ..ok }.encode(&mut payload, session.capabilities);
                    client.send(seq, &payload).await?;
                }
                _ => {
                    client.send(seq, payload).await?;
                }
            }
            if let Some(code) = answer.end.error {
                return Err(Error::client(format!("the server refuses the schema: error {code}")));
            }
            session.set_status(answer.end.status.unwrap_or(Status::AUTOCOMMIT));
            Ok(())
        }
        Err(error) => {
            let code = ErrorCode { code: error.code(), sqlstate: error.sqlstate() };
            refuse(client, seq, &ErrPacket::new(code, error.message())).await?;
            Err(error)
        }
    }
}
