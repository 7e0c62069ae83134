//! How a proxy may treat a session command.

/// How a proxy may treat a session command. Later classes bind more than earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Begins, ends or resets a session: a command of the protocol, never a text.
    Lifecycle,
    /// Not the session's, or more than that: `SET GLOBAL`, `SET PASSWORD`, locks, temporary tables,
    /// and all that works on data.
    #[default]
    NotSession,
    /// Sets a value that stands in the text: the same on every connection, its reply too.
    Const,
    /// Depends on the session's environment and on nothing else: `USE`, `PREPARE`, `SET ROLE`,
    /// `DEFAULT`, expressions over what the session has set.
    Environment,
    /// Not known well enough, but to be executed on each connection: variables that are not known,
    /// `EXECUTE`.
    Unknown,
    /// The value has to be found once, by one server: subqueries, `NOW()`, stored functions, values
    /// that are bound later.
    EvaluatedOnce,
    /// For the next statement or transaction, or for this connection only.
    OneShot,
}

impl Class {
    /// Its name in lower case, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::NotSession => "not_session",
            Self::Const => "const",
            Self::Environment => "environment",
            Self::Unknown => "unknown",
            Self::EvaluatedOnce => "evaluated_once",
            Self::OneShot => "one_shot",
        }
    }

    /// Whether every connection of the session has to execute it, now or before it is used.
    pub fn is_replayed(self) -> bool {
        matches!(self, Self::Const | Self::Environment | Self::Unknown)
    }
}
