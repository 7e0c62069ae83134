//! The reply to COM_STMT_PREPARE.

use crate::connection::Seen;
use bytes::{Bytes, BytesMut};
use chain::{Frame, Reply};
use std::sync::{Arc, OnceLock};
use wire::packet::HEADER_LEN;

/// Where the id stands in it, header included.
const ID: std::ops::Range<usize> = HEADER_LEN + 1..HEADER_LEN + 5;

/// Puts the session's id of a statement into the reply that names the server's, and notes how the
/// reply ends.
pub(crate) fn watch(reply: Reply, statement: Option<u32>, seen: Arc<OnceLock<Seen>>) -> Reply {
    let mut head = Head { statement, at: 0, first: None, server: [0; 4] };
    reply.map_body(|body| {
        body.map(move |frame| match frame {
            Frame::Packets(run) => Frame::Packets(head.pass(run)),
            Frame::End(mut end) => {
                // Without parameters and columns the first packet is the last.
                end.packet = head.pass(end.packet);
                // There is one end.
                let _ = seen.set(Seen { failed: end.error.is_some(), id: head.id() });
                Frame::End(end)
            }
            frame => frame,
        })
    })
}

/// The beginning of the reply.
struct Head {
    /// The session's id of what is prepared.
    statement: Option<u32>,
    /// Bytes that have passed; no more are counted than matter.
    at: usize,
    /// The payload's first byte: 0 if it is no error.
    first: Option<u8>,
    /// The server's id, as far as it has passed.
    server: [u8; 4],
}

impl Head {
    fn pass(&mut self, run: Bytes) -> Bytes {
        let Some(statement) = self.statement.filter(|_| self.at < ID.end) else { return run };
        let session = statement.to_le_bytes();
        let mut run = BytesMut::from(&run[..]);
        for byte in run.iter_mut() {
            if self.at == HEADER_LEN {
                self.first = Some(*byte);
            } else if ID.contains(&self.at) && self.first == Some(0) {
                let at = self.at - ID.start;
                self.server[at] = std::mem::replace(byte, session[at]);
            }
            self.at += 1;
        }
        run.freeze()
    }

    /// The server's id.
    fn id(&self) -> Option<u32> {
        (self.first == Some(0) && self.at >= ID.end).then(|| u32::from_le_bytes(self.server))
    }
}
