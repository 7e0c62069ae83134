//! How many prepared statements a session has, and may have.

use chain::{Body, Command, End, Frame, id_map::IdSet};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use wire::{
    command::CommandCode,
    err::{ErrPacket, codes},
    packet::HEADER_LEN,
};

/// The statements of one session that COM_STMT_PREPARE has made and nothing has closed.
pub(super) struct Statements {
    open: IdSet,
    limit: u32,
}

/// What a command is about to do to them.
pub(super) enum Change {
    None,
    /// A statement comes; its reply says its id.
    Opens(Arc<AtomicU64>),
    Closes(u32),
    ClosesAll,
}

/// No id: they have 32 bits.
const UNKNOWN: u64 = u64::MAX;

/// Bytes of a COM_STMT_PREPARE_OK packet up to the end of its id: header, status, id.
const ID_END: usize = HEADER_LEN + 1 + 4;

impl Statements {
    pub(super) fn new(limit: u32) -> Self {
        Self { open: IdSet::default(), limit }
    }

    /// So many from now on.
    pub(super) fn limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// What `command` is about to do, or the error for one statement too many.
    pub(super) fn admit(&self, command: &Command) -> Result<Change, ErrPacket> {
        Ok(match command.code() {
            CommandCode::STMT_PREPARE if self.open.len() >= self.limit as usize => {
                let limit = self.limit;
                let text = format!(
                    "Can't create more than max_prepared_stmt_count statements (current value: {limit})"
                );
                return Err(ErrPacket::new(codes::ER_MAX_PREPARED_STMT_COUNT_REACHED, text));
            }
            CommandCode::STMT_PREPARE => Change::Opens(Arc::new(AtomicU64::new(UNKNOWN))),
            CommandCode::STMT_CLOSE => match command.payload().first_chunk() {
                Some(id) => Change::Closes(u32::from_le_bytes(*id)),
                None => Change::None,
            },
            CommandCode::RESET_CONNECTION => Change::ClosesAll,
            _ => Change::None,
        })
    }

    /// Notes the change, once the reply has ended.
    pub(super) fn changed(&mut self, change: Change, end: &End) {
        match change {
            Change::Opens(id) => self.open.extend(u32::try_from(id.load(Relaxed))),
            Change::Closes(id) => {
                self.open.remove(&id);
            }
            Change::ClosesAll if end.error.is_none() => self.open.clear(),
            Change::None | Change::ClosesAll => {}
        }
    }
}

impl Change {
    /// Looks for the id of a new statement in its reply.
    pub(super) fn watch(&self, body: Body) -> Body {
        let Self::Opens(found) = self else { return body };
        let (found, mut head) = (found.clone(), Vec::new());
        body.map(move |frame| {
            if let Frame::Packets(packets) = &frame
                && head.len() < ID_END
            {
                head.extend(packets.iter().copied().take(ID_END - head.len()));
                if let (Some(0), Some(id)) =
                    (head.get(HEADER_LEN), head.get(HEADER_LEN + 1..ID_END))
                {
                    let id = id
                        .first_chunk()
                        .copied()
                        .map_or(UNKNOWN, |id| u32::from_le_bytes(id).into());
                    found.store(id, Relaxed);
                }
            }
            frame
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::testing::session;

    fn run(
        statements: &mut Statements,
        code: CommandCode,
        payload: &[u8],
        reply: &[&[u8]],
    ) -> bool {
        let command = Command::new(session(), code, payload);
        let Ok(change) = statements.admit(&command) else { return false };
        let frames = reply.iter().map(|part| Ok(Frame::Packets(part.to_vec().into())));
        let frames: Vec<_> = frames.chain([Ok(Frame::End(End::default()))]).collect();
        let mut body = change.watch(Body::stream(futures_util::stream::iter(frames)));
        while let Some(frame) = futures_util::FutureExt::now_or_never(body.frame()).flatten() {
            if let Ok(Frame::End(end)) = frame {
                statements.changed(change, &end);
                return true;
            }
        }
        unreachable!("a reply has an end")
    }

    #[test]
    fn closing_what_there_is_not_makes_no_room() {
        let mut statements = Statements::new(2);
        let prepare = |statements: &mut Statements, id: u8| {
            let ok = [12, 0, 0, 1, 0, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            run(statements, CommandCode::STMT_PREPARE, b"DO 1", &[&ok[..6], &ok[6..]])
        };
        assert!(prepare(&mut statements, 1));
        assert!(prepare(&mut statements, 2));
        assert!(!prepare(&mut statements, 3));
        assert!(run(&mut statements, CommandCode::STMT_CLOSE, &[9, 0, 0, 0], &[]));
        assert!(!prepare(&mut statements, 3), "9 was not there");
        assert!(run(&mut statements, CommandCode::STMT_CLOSE, &[1, 0, 0, 0], &[]));
        assert!(prepare(&mut statements, 3));
        assert!(!prepare(&mut statements, 4));
        assert!(run(&mut statements, CommandCode::RESET_CONNECTION, b"", &[]));
        assert!(prepare(&mut statements, 4));
        let error = [3, 0, 0, 1, 0xFF, 1, 4];
        assert!(run(&mut statements, CommandCode::STMT_PREPARE, b"SELEC", &[&error]));
        assert_eq!(statements.open.len(), 1);
    }
}
