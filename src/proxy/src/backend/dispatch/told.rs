//! What the dispatcher says of a reply.

use chain::facts::{Fact, Statement};

/// The statement that a reply is the reply to, as far as `parse` knows it; on the reply, where
/// slow ones are logged. Writer: the dispatcher.
#[derive(Clone, Debug)]
pub(crate) struct Ran(pub(crate) Option<Statement>);

impl Fact for Ran {
    const NAME: &'static str = "ran";
}

/// Whether one of the session's connections had prepared statements when it left the chain; on the
/// reply, beside the handover. Writer: the dispatcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared(pub(crate) bool);

impl Fact for Prepared {
    const NAME: &'static str = "prepared";
}
