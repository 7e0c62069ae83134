//! Several commands in one write.
//!
//! ```text
//! preamble ─┬─▶ server   commands are written while replies are read: a server whose replies
//! command ──┘      │     nobody takes stops reading commands
//!                  ▼
//! answers ◀── replies ──▶ the command's own reply, which streams
//! ```
//!
//! Each command has sequence id 0. On a compressed link each of them begins a frame of its own,
//! also with 0: servers answer several commands in one frame with wrong ids, or not at all.

use super::{State, Wire, stream::ReplyStream};
use bytes::BytesMut;
use chain::{
    Answer, Command, Error, Frame, Reply, Result,
    error::PreambleLost,
    facts::{Answers, Preamble},
    lend::Loan,
};
use std::future::poll_fn;

/// Bytes of all replies to a preamble, at most.
const LIMIT: usize = 1 << 26;

/// Sends a command behind its preamble. Resolves with the first packets of its reply, with which
/// come the [`Answers`] to the preamble.
pub(super) async fn exchange(mut wire: Loan<Wire>, mut command: Command) -> Result<Reply> {
    wire.state = State::Busy;
    let before = command.take().map(|Preamble(before)| before).unwrap_or_default();
    let link = wire.link()?;
    let mut packets = BytesMut::new();
    for one in before.iter().chain([&command]) {
        packets.extend_from_slice(&one.packets());
        link.sends(one);
        link.backend.metrics.sends(one);
    }
    let mut stream = ReplyStream::new(wire, &command)?;
    stream.unsent = Some(packets.freeze());
    let (mut answers, mut room) = (Vec::with_capacity(before.len()), LIMIT);
    for one in &before {
        let answer = match stream.begin(one, true)? {
            true => answer(&mut stream, &mut room).await.map_err(lost)?,
            false => Answer::default(),
        };
        answers.push(answer);
    }
    let reply = match stream.begin(&command, false)? {
        true => {
            let first = stream.first().await?;
            stream.reply(first)
        }
        false => {
            poll_fn(|cx| stream.poll_sent(cx)).await?;
            Reply::none()
        }
    };
    Ok(reply.with(Answers(answers)))
}

/// One reply, read to its end. What it has is taken off `room`.
async fn answer(stream: &mut ReplyStream, room: &mut usize) -> Result<Answer> {
    let mut packets = BytesMut::new();
    loop {
        match poll_fn(|cx| stream.poll_frame(cx)).await? {
            Frame::Packets(run) => {
                let left = room.checked_sub(run.len());
                *room = left.ok_or_else(|| Error::backend("too long replies to a preamble"))?;
                packets.extend_from_slice(&run);
            }
            Frame::Upload(_) => {
                return Err(Error::backend("a command of the proxy's own asks for a file"));
            }
            Frame::End(end) => return Ok(Answer { packets: packets.freeze(), end }),
        }
    }
}

/// The command's own reply has not begun.
fn lost(error: Error) -> Error {
    let (code, sqlstate) = (error.code(), error.sqlstate());
    Error::backend(PreambleLost(error.message())).with_code(code, sqlstate)
}
