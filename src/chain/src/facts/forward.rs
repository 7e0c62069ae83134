//! Leaving the chain, as an order on its way down.

use super::Fact;

/// This command is to be the last that the chain sees: the connection that would run it is given
/// to the session for good, with nothing of the command sent. Writer: `fast-forward`; readers:
/// `route`, and the connection at the bottom, which answers with a [`Handover`](crate::Handover).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastForward {
    /// Whether it must be the connection that the session used last.
    pub stays: bool,
}

/// Statement ids of the session, and the server's id of each on the connection that is handed
/// over; on the reply, beside the handover. Writer: `catch-up`; reader: the forwarder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementIds(pub Vec<(u32, u32)>);

/// How the bytes of a session that leaves the chain are forwarded; on the reply, beside the handover.
/// Writer: `fast-forward`; reader: the forwarder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Commands and their replies are counted and told of, from copies of the bytes.
    pub observe: bool,
    /// Ids of statements that were prepared before pass as the client sends them.
    pub raw_ids: bool,
}

impl Fact for FastForward {
    const NAME: &'static str = "fast-forward";
}
impl Fact for Forwarding {
    const NAME: &'static str = "forwarding";
}
impl Fact for StatementIds {
    const NAME: &'static str = "statement-ids";
}
