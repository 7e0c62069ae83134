//! What EXECUTE runs.

use super::Fact;

/// What the statement is that a text `EXECUTE name` runs; on it if that is known. Writer:
/// `session-commands`; reader: `route`.
#[derive(Clone, Debug)]
pub struct Executed(pub sql::Statement);

impl Fact for Executed {
    const NAME: &'static str = "executed";
}
