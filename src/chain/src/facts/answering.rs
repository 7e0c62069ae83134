//! Whether a session gets answers from memory.

use super::Fact;

/// Whether the session commands that follow may be answered from memory. On a command only where
/// that has changed. Writer: `session-commands`, where it gives such answers; reader: whoever shows
/// sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromMemory {
    /// Why not, for people; `None`: they may.
    pub off: Option<&'static str>,
}

impl Fact for FromMemory {
    const NAME: &'static str = "from-memory";
}
