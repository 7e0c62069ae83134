//! The reply to COM_STMT_PREPARE.

use crate::connection::Seen;
use bytes::BytesMut;
use chain::{Frame, Reply};
use std::sync::{Arc, OnceLock};
use wire::packet::HEADER_LEN;

/// Where the id stands in it, header included.
const ID: std::ops::Range<usize> = HEADER_LEN + 1..HEADER_LEN + 5;

/// Puts the session's id of a statement into the reply that names the server's, and notes how the
/// reply ends.
pub(crate) fn watch(reply: Reply, statement: Option<u32>, seen: Arc<OnceLock<Seen>>) -> Reply {
    let (mut at, mut header, mut server) = (0_usize, None, [0; 4]);
    reply.map_body(|body| {
        body.map(move |frame| match frame {
            Frame::Packets(run) if statement.is_some() && at < ID.end => {
                let mut run = BytesMut::from(&run[..]);
                let session = statement.unwrap_or_default().to_le_bytes();
                for byte in run.iter_mut() {
                    if at == HEADER_LEN {
                        header = Some(*byte);
                    } else if ID.contains(&at) && header == Some(0) {
                        server[at - ID.start] = std::mem::replace(byte, session[at - ID.start]);
                    }
                    at += 1;
                }
                Frame::Packets(run.freeze())
            }
            Frame::End(end) => {
                let id = (header == Some(0) && at >= ID.end).then(|| u32::from_le_bytes(server));
                // There is one end.
                let _ = seen.set(Seen { failed: end.error.is_some(), id });
                Frame::End(end)
            }
            frame => frame,
        })
    })
}
