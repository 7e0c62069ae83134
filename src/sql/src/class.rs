//! What a statement does, as far as a proxy must know.

/// What a statement does.
///
/// The class is about effect, not about place: a [`Read`](Class::Read) that asks for a connection's
/// own state says so in [`Needs`]. To route, ask
/// [`Statement::any_server`](crate::Statement::any_server).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Surely changes nothing and locks nothing: `SELECT`, `TABLE`, `VALUES`.
    Read,
    /// Changes data or takes locks, or may: also every read that cannot be shown to be one.
    Write,
    /// Changes the schema, accounts or grants.
    Ddl,
    /// `BEGIN`, `START TRANSACTION`.
    Begin {
        /// `READ ONLY` or `READ WRITE`, when the statement says so; else the session's default.
        read_only: Option<bool>,
        /// `WITH CONSISTENT SNAPSHOT`.
        consistent_snapshot: bool,
    },
    /// `COMMIT`.
    Commit {
        /// `AND [NO] CHAIN`; `None` leaves it to `completion_type`.
        chain: Option<bool>,
        /// `[NO] RELEASE`; `None` leaves it to `completion_type`.
        release: Option<bool>,
    },
    /// `ROLLBACK` of the whole transaction.
    Rollback {
        /// `AND [NO] CHAIN`; `None` leaves it to `completion_type`.
        chain: Option<bool>,
        /// `[NO] RELEASE`; `None` leaves it to `completion_type`.
        release: Option<bool>,
    },
    /// `SAVEPOINT`, `RELEASE SAVEPOINT`, `ROLLBACK TO`: the transaction goes on.
    Savepoint,
    /// `SET` of the session's own: variables, names, role, transaction characteristics.
    SetSession,
    /// `USE`.
    Use,
    /// `PREPARE name FROM ...` as text.
    Prepare,
    /// `EXECUTE name` as text: has the class of what was prepared.
    Execute,
    /// `DEALLOCATE PREPARE`, `DROP PREPARE`.
    Deallocate,
    /// `LOCK TABLES`, `LOCK INSTANCE`, `FLUSH TABLES ... WITH READ LOCK` or `FOR EXPORT`.
    Lock,
    /// `UNLOCK TABLES`, `UNLOCK INSTANCE`.
    Unlock,
    /// `SHOW`, `HELP`.
    Show,
    /// `EXPLAIN`, `DESCRIBE`; `ANALYZE` and `EXPLAIN ANALYZE` of a read.
    Explain,
    /// `CALL`.
    Call,
    /// Runs or maintains a server: `FLUSH`, `OPTIMIZE`, `SET GLOBAL`, `CHANGE MASTER`, ...
    Admin,
    /// `KILL`.
    Kill,
    /// Not understood. Treat as a write that may change the session too.
    #[default]
    Unknown,
}

/// State that only one connection, or only the primary, can answer for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// Names `LAST_INSERT_ID()`, `@@identity`, `@@last_gtid` and the like: the connection of the
    /// last write.
    pub last_write: bool,
    /// Names `ROW_COUNT()`, `FOUND_ROWS()`, `SHOW WARNINGS`, `@@warning_count`, `GET DIAGNOSTICS`
    /// and the like: the connection used last.
    pub last_used: bool,
    /// Names a user variable (`@name`), to read or to set it.
    pub user_variables: bool,
    /// Must be answered by the primary although it changes nothing (`SHOW MASTER STATUS`,
    /// `EXPLAIN UPDATE`).
    pub primary: bool,
}

impl Needs {
    /// Whether nothing is asked of a particular connection.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}
