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

impl Fact for FastForward {
    const NAME: &'static str = "fast-forward";
}
