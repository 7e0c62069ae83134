//! What holds a session to one of its connections.

use super::{Fact, Target};

/// State that only one connection has: the command must run there. Beats every wish about the
/// hostgroup, but not an open transaction. Writer: `session-commands`; reader: `route`.
#[derive(Clone, Debug)]
pub struct Pin {
    /// Where that connection leads.
    pub target: Target,
    /// What holds it, for people: `temporary tables`, `a lock`, `the last insert id`.
    pub cause: &'static str,
    /// What it has may be known elsewhere too: the last insert id, the counts of the last statement.
    pub soft: bool,
    /// The session's log can give it to another connection, if that one is lost.
    pub again: bool,
}

impl Fact for Pin {
    const NAME: &'static str = "pin";
}
