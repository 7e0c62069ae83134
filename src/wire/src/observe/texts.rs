//! Texts of commands, as far as they are kept: until the command is answered, and those of statements
//! that are prepared until they are closed.

use super::heads::{Head, Heads};
use crate::{CommandCode, command::statement::LAST_PREPARED};
use bytes::Bytes;
use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

/// Bytes that are kept at most of all commands that wait for their replies. One beyond that has no
/// text.
pub const KEPT_WAITING: usize = 64 << 10;

/// Bytes that are kept at most of all statements that are prepared. One beyond that has no text.
pub const KEPT_PREPARED: usize = 256 << 10;

/// What a small allocation costs besides its bytes, so that many small texts have their bound too.
const EACH: usize = 64;

/// The beginning of a command's payload, its command byte included: COM_QUERY, COM_STMT_PREPARE,
/// COM_INIT_DB, COM_CHANGE_USER. For a command that names a prepared statement it is that of the
/// COM_STMT_PREPARE.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(Bytes);

impl Text {
    /// The bytes.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.0
    }
}

/// Its size only: it may hold secrets.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.0.len())
    }
}

/// All that are kept.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Bytes of one; 0: none is kept.
    limit: usize,
    /// One for each command with a text that waits for its reply, oldest first.
    waiting: VecDeque<Begun>,
    /// What those take.
    held: usize,
    /// Bytes that come next in the packet under way and belong to the newest of them.
    missing: usize,
    prepared: HashMap<u32, Text>,
    /// What those take.
    held_prepared: usize,
    /// What MariaDB's id -1 stands for.
    last: Option<u32>,
}

/// A text, as far as it has come.
#[derive(Default)]
struct Begun {
    bytes: Vec<u8>,
    /// What it takes of what may be held; 0 for one that found no room.
    room: usize,
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Begun({} bytes)", self.bytes.len())
    }
}

impl Texts {
    pub(super) fn up_to(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// A command begins that is going to wait.
    pub(super) fn begin(&mut self, command: CommandCode, head: &Head) {
        if self.limit == 0 || !brings_text(command) {
            return;
        }
        let wanted = head.header.len.min(self.limit);
        let room = wanted + EACH;
        let mut begun = Begun::default();
        if self.held + room <= KEPT_WAITING {
            let first = head.payload();
            let first = &first[..first.len().min(wanted)];
            begun.bytes.reserve_exact(wanted);
            begun.bytes.extend_from_slice(first);
            begun.room = room;
            self.held += room;
            self.missing = wanted - first.len();
        }
        self.waiting.push_back(begun);
    }

    /// Takes what `bytes` have of the text under way.
    pub(super) fn collect(&mut self, packets: &mut Heads, bytes: &mut &[u8]) {
        if self.missing == 0 {
            return;
        }
        let taken = packets.take(bytes, self.missing);
        self.missing -= taken.len();
        if let Some(newest) = self.waiting.back_mut() {
            newest.bytes.extend_from_slice(taken);
        }
    }

    /// The text of the oldest command, which waits no longer: its own; or `known`, or that of the
    /// statement that it names.
    pub(super) fn answered(
        &mut self,
        command: CommandCode,
        known: Option<Text>,
        names: Option<u32>,
    ) -> Option<Text> {
        if !brings_text(command) {
            let last = || names.filter(|&id| id == LAST_PREPARED).and(self.last);
            let named = || self.prepared.get(&last().or(names)?).cloned();
            return known.or_else(named);
        }
        let Begun { bytes, room } = self.waiting.pop_front()?;
        self.held -= room;
        if self.waiting.is_empty() {
            self.missing = 0;
        }
        (room > 0).then(|| Text(bytes.into()))
    }

    /// The text of a statement that is known by now.
    pub(super) fn named(&self, id: Option<u32>) -> Option<Text> {
        self.prepared.get(&id.filter(|&id| id != LAST_PREPARED)?).cloned()
    }

    /// A statement has been prepared, or has not been.
    pub(super) fn prepared(&mut self, id: Option<u32>, text: Option<&Text>) {
        self.last = id;
        let (Some(id), Some(text)) = (id, text) else { return };
        self.forget(id);
        let room = text.0.len() + EACH;
        if self.held_prepared + room <= KEPT_PREPARED {
            self.held_prepared += room;
            self.prepared.insert(id, text.clone());
        }
    }

    /// A statement is closed.
    pub(super) fn close(&mut self, id: Option<u32>) {
        let id = if id == Some(LAST_PREPARED) { self.last.take() } else { id };
        if let Some(id) = id {
            self.forget(id);
        }
    }

    /// All of them are.
    pub(super) fn close_all(&mut self) {
        (self.prepared, self.held_prepared, self.last) = (HashMap::new(), 0, None);
    }

    fn forget(&mut self, id: u32) {
        if let Some(text) = self.prepared.remove(&id) {
            self.held_prepared -= text.0.len() + EACH;
        }
    }
}

/// Whether a command has a text of its own.
fn brings_text(command: CommandCode) -> bool {
    matches!(
        command,
        CommandCode::QUERY
            | CommandCode::STMT_PREPARE
            | CommandCode::INIT_DB
            | CommandCode::CHANGE_USER
    )
}
