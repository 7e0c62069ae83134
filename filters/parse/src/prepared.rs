//! The prepared statements of one session, as the replies that pass have named them.

use bytes::{Bytes, BytesMut};
use chain::{
    Frame, Reply,
    facts::{Kept, Statement},
    id_map::IdMap,
};
use std::sync::{Arc, OnceLock};
use wire::{
    command::{
        CommandCode,
        statement::{LAST_PREPARED, statement_id},
    },
    ok,
    packet::HEADER_LEN,
};

/// What has been prepared and not closed.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    known: IdMap<Kept>,
    /// What MariaDB's id -1 stands for.
    last: Option<Kept>,
    /// The statement whose reply may still be on its way, and its id once that has passed.
    pending: Option<(Kept, Arc<OnceLock<u32>>)>,
}

/// Fills in the id of a statement from its reply's first packet.
#[derive(Debug)]
pub(crate) struct Reader {
    id: Arc<OnceLock<u32>>,
    /// The first bytes of the reply, until there are enough.
    begun: BytesMut,
}

/// A packet's header, 0x00 and the id.
const ENOUGH: usize = HEADER_LEN + 5;

impl Prepared {
    /// Notes that `statement` is about to be prepared; the reader is for the reply.
    pub(crate) fn begin(&mut self, statement: Kept) -> Reader {
        self.settle();
        let id = Arc::default();
        self.pending = Some((statement, Arc::clone(&id)));
        Reader { id, begun: BytesMut::new() }
    }

    /// The statement that a command names, if it names one that is known. Closing it forgets it.
    pub(crate) fn named(&mut self, code: CommandCode, payload: &[u8]) -> Option<Statement> {
        self.settle();
        let kept = match code {
            CommandCode::STMT_EXECUTE
            | CommandCode::STMT_BULK_EXECUTE
            | CommandCode::STMT_FETCH
            | CommandCode::STMT_SEND_LONG_DATA
            | CommandCode::STMT_RESET => match statement_id(payload)? {
                LAST_PREPARED => self.last.clone(),
                id => self.known.get(&id).cloned(),
            },
            CommandCode::STMT_CLOSE => match statement_id(payload)? {
                LAST_PREPARED => self.last.take(),
                id => self.known.remove(&id),
            },
            CommandCode::RESET_CONNECTION => {
                *self = Self::default();
                None
            }
            _ => None,
        };
        kept.map(|kept| kept.statement())
    }

    /// One command is under way at a time: when the next one comes, the reply has passed.
    fn settle(&mut self) {
        let Some((statement, id)) = self.pending.take() else { return };
        self.last = None;
        if let Some(id) = id.get() {
            self.last = Some(statement.clone());
            self.known.insert(*id, statement);
        }
    }
}

impl Reader {
    /// Reads the reply as it passes.
    pub(crate) fn watch(mut self, reply: Reply) -> Reply {
        reply.map_body(|body| {
            body.map(move |frame| {
                match &frame {
                    Frame::Packets(run) => self.read(run),
                    Frame::End(end) => self.read(&end.packet),
                    Frame::Upload(_) => {}
                }
                frame
            })
        })
    }

    fn read(&mut self, run: &Bytes) {
        if self.begun.len() == ENOUGH {
            return;
        }
        let missing = ENOUGH - self.begun.len();
        self.begun.extend_from_slice(&run[..missing.min(run.len())]);
        if let [_, _, _, _, ok::HEADER, id @ ..] = &self.begun[..]
            && let Ok(id) = <[u8; 4]>::try_from(id)
        {
            // It is set at most once: what comes later is not read.
            let _ = self.id.set(u32::from_le_bytes(id));
        }
    }
}
