//! The pieces that a session's state is made of.

use super::Unreadable;
use std::{borrow::Cow, fmt};

/// A piece of a session's state. Two cells are equal if writing one changes the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cell {
    /// The current schema.
    Schema,
    /// `character_set_client`.
    CharsetClient,
    /// `character_set_results`.
    CharsetResults,
    /// `collation_connection` and `character_set_connection`: each of the two sets the other.
    CollationConnection,
    /// The active roles.
    Role,
    /// The resource group of the connection's thread.
    ResourceGroup,
    /// What `SET TRANSACTION` says about the next transaction.
    NextTransaction,
    /// Any other system variable, by its name in lower case. Of several names for the same
    /// variable it is always the same one.
    System(Cow<'static, str>),
    /// A user variable, by its name in lower case.
    User(Box<str>),
    /// Some user variable: it cannot be said which. Among what is read alone.
    AnyUser,
    /// A statement prepared as text, by its name in lower case.
    Prepared(Box<str>),
    /// It cannot be said which.
    Anything,
}

impl Cell {
    /// `sql_mode`.
    pub const SQL_MODE: Self = Self::System(Cow::Borrowed("sql_mode"));
    /// `transaction_isolation`, also as `tx_isolation`.
    pub const ISOLATION: Self = Self::System(Cow::Borrowed("transaction_isolation"));
    /// `transaction_read_only`, also as `tx_read_only`.
    pub const ACCESS: Self = Self::System(Cow::Borrowed("transaction_read_only"));
    /// `autocommit`.
    pub const AUTOCOMMIT: Self = Self::System(Cow::Borrowed("autocommit"));
    /// `last_insert_id`, also as `identity`.
    pub const LAST_INSERT_ID: Self = Self::System(Cow::Borrowed("last_insert_id"));
    /// `collation_database` and `character_set_database`: `USE` sets them too.
    pub const COLLATION_DATABASE: Self = Self::System(Cow::Borrowed("collation_database"));

    /// The cell of a system variable, from its name without a scope, in any case.
    pub fn system(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let same = match name.as_str() {
            "character_set_client" => return Self::CharsetClient,
            "character_set_results" => return Self::CharsetResults,
            "character_set_connection" | "collation_connection" => {
                return Self::CollationConnection;
            }
            "character_set_database" => "collation_database",
            "character_set_server" => "collation_server",
            "identity" => "last_insert_id",
            "log_slow_min_examined_row_limit" => "min_examined_row_limit",
            "log_slow_query" => "slow_query_log",
            "log_slow_query_time" => "long_query_time",
            "max_insert_delayed_threads" => "max_delayed_threads",
            "pseudo_slave_mode" => "pseudo_replica_mode",
            "storage_engine" => "default_storage_engine",
            "tmp_memory_table_size" => "tmp_table_size",
            "tx_isolation" => "transaction_isolation",
            "tx_read_only" => "transaction_read_only",
            _ => return Self::System(name.into()),
        };
        Self::System(same.into())
    }

    /// The cell of a user variable, from its token: `@a`, `` @`a` ``, `@'a'`.
    pub(crate) fn user(token: &[u8]) -> Result<Self, Unreadable> {
        let name = token.strip_prefix(b"@").unwrap_or(token);
        Ok(Self::User(folded(name)?))
    }

    /// The cell of a statement that is prepared as text, from its name with quotes.
    pub(crate) fn prepared(name: &[u8]) -> Result<Self, Unreadable> {
        Ok(Self::Prepared(folded(name)?))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema => f.write_str("schema"),
            Self::CharsetClient => f.write_str("@@character_set_client"),
            Self::CharsetResults => f.write_str("@@character_set_results"),
            Self::CollationConnection => f.write_str("@@collation_connection"),
            Self::Role => f.write_str("role"),
            Self::ResourceGroup => f.write_str("resource group"),
            Self::NextTransaction => f.write_str("next transaction"),
            Self::System(name) => write!(f, "@@{name}"),
            Self::User(name) => write!(f, "@{name}"),
            Self::AnyUser => f.write_str("@?"),
            Self::Prepared(name) => write!(f, "prepared {name}"),
            Self::Anything => f.write_str("*"),
        }
    }
}

/// A name that servers compare without regard to case, in lower case and without its quotes.
///
/// MySQL takes `é` for `e` and `` `a ` `` for `a`, MariaDB does not; and how a quote or a backslash
/// in a quoted name is read depends on the quotes. Nobody needs such names.
pub(super) fn folded(name: &[u8]) -> Result<Box<str>, Unreadable> {
    let bare = bare(name);
    let odd = |byte: &u8| !byte.is_ascii() || matches!(byte, b'\\' | b'`' | b'\'' | b'"');
    if bare.is_empty() || bare.ends_with(b" ") || bare.iter().any(odd) {
        return Err(Unreadable::Name);
    }
    Ok(bare.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect())
}

/// A name without the quotes around it.
pub(super) fn bare(name: &[u8]) -> &[u8] {
    match name {
        [first @ (b'`' | b'\'' | b'"'), inner @ .., last] if first == last => inner,
        _ => name,
    }
}
