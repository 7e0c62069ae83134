//! What is answered from memory.

use super::Fact;

/// The reply is from memory: no server has executed the command yet. On the reply. Writer:
/// `session-commands`; reader: the session, for traces.
#[derive(Clone, Copy, Debug)]
pub struct Predicted;

impl Fact for Predicted {
    const NAME: &'static str = "predicted";
}
