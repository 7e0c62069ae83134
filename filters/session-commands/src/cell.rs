//! The pieces that a session's state is made of.

/// One piece of a session's state, by its name: a system variable (`@@sql_mode`), a user variable
/// (`@a`), a statement prepared as text (`ps p`), the schema, the roles.
pub(crate) type Cell = Box<str>;

pub(crate) const SCHEMA: &str = "schema";
pub(crate) const ROLE: &str = "role";
pub(crate) const RESOURCE_GROUP: &str = "resource group";
pub(crate) const MULTI_STATEMENTS: &str = "multi-statements";
pub(crate) const CLIENT: &str = "@@character_set_client";
pub(crate) const RESULTS: &str = "@@character_set_results";
/// Also of `character_set_connection`: each of the two sets the other.
pub(crate) const CONNECTION: &str = "@@collation_connection";
pub(crate) const SQL_MODE: &str = "@@sql_mode";
pub(crate) const ISOLATION: &str = "@@transaction_isolation";
pub(crate) const ACCESS: &str = "@@transaction_read_only";

/// What the text itself says is not known: whatever it reads or writes, it may be anything.
pub(crate) const ANYTHING: &str = "*";

/// The cell of a system variable, without its scope.
pub(crate) fn system(name: &str) -> Cell {
    match name {
        "tx_isolation" => ISOLATION.into(),
        "tx_read_only" => ACCESS.into(),
        "character_set_connection" => CONNECTION.into(),
        _ => format!("@@{name}").into(),
    }
}

/// The cell of a user variable, from its token (`@a`, `` @`a` ``, `@'a'`): names are the same in
/// any case.
pub(crate) fn user(token: &[u8]) -> Cell {
    let name = token.strip_prefix(b"@").unwrap_or(token);
    format!("@{}", plain(name).to_lowercase()).into()
}

/// The cell of a statement that is prepared as text.
pub(crate) fn prepared(name: &[u8]) -> Cell {
    format!("ps {}", plain(name).to_lowercase()).into()
}

/// A name without its quotes.
pub(crate) fn plain(name: &[u8]) -> std::borrow::Cow<'_, str> {
    let bare = match name {
        [first @ (b'`' | b'\'' | b'"'), inner @ .., last] if first == last => inner,
        _ => name,
    };
    String::from_utf8_lossy(bare)
}
