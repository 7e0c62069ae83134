//! One part of a SET.

use super::{Cell, Class, Value, Variable};
use crate::Span;

/// One part of a SET: what stands between commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// All of it, with its scope word.
    pub span: Span,
    /// What it sets.
    pub target: Target,
    /// What it is set to. Of a [`Target`] that is no variable, what stands behind its keywords.
    pub value: Value,
    /// How a proxy may treat it.
    pub class: Class,
    /// Cells that its value depends on. All values of a SET are found before the first is set.
    pub reads: Vec<Cell>,
    /// Cells that it sets; empty for what is not the session's.
    pub writes: Vec<Cell>,
}

/// What a part of a SET sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A user variable.
    User {
        /// `@name`, with its quotes.
        name: Span,
    },
    /// A system variable.
    System {
        /// Whose value it is.
        scope: Scope,
        /// The name, with quotes and without the scope.
        name: Span,
        /// What the variable is to a session.
        variable: Variable,
    },
    /// `NAMES`.
    Names,
    /// `CHARACTER SET`.
    CharacterSet,
    /// `ROLE`.
    Role,
    /// `TRANSACTION`, without a scope, with `SESSION` or with `GLOBAL`.
    Transaction(Scope),
    /// `RESOURCE GROUP`.
    ResourceGroup,
    /// `PASSWORD`: what stands in it is secret.
    Password,
    /// `DEFAULT ROLE`: the account's.
    DefaultRole,
}

/// Whose value a SET changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The session's: `SESSION`, `LOCAL`, `@@session.`, or a name alone. A scope word counts for the
    /// names alone behind it too, up to the next one.
    Session,
    /// Without a scope where that means more than the session's value: `@@name`, and `TRANSACTION`
    /// alone. For the next transaction only, if the variable is one of a transaction.
    Bare,
    /// The server's: `GLOBAL`, `PERSIST`, `PERSIST_ONLY`.
    Server,
}

impl Assignment {
    /// As a SET of its own says it.
    pub(super) fn alone(&self, text: &[u8]) -> Vec<u8> {
        let of = |span: &Span| text.get(span.clone()).unwrap_or_default();
        let prefix = match &self.target {
            Target::System { scope: Scope::Bare, .. } => "@@",
            Target::System { .. } => "@@SESSION.",
            _ => "",
        };
        match &self.target {
            Target::System { name, .. } | Target::User { name } => {
                [prefix.as_bytes(), of(name), b" = ", of(&self.value.span)].concat()
            }
            _ => of(&self.span).to_vec(),
        }
    }
}
