//! What a statement is, found out when somebody asks.

mod shelf;

pub use shelf::{Kept, Shelf};

use super::Fact;
use bytes::Bytes;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// What a statement is. Lexed at the first look, once, and not at all where nobody looks. Writer:
/// `parse`. Whoever changes a statement's text puts what [`Statement::rewritten`] gives in its
/// place.
///
/// On a command that names a prepared statement it is the statement that was prepared.
#[derive(Clone)]
pub struct Statement(Held);

/// A statement that lives as long as its command costs no allocation of its own.
#[derive(Clone)]
enum Held {
    Alone(Found),
    Shared(Arc<Found>),
}

#[derive(Clone)]
struct Found {
    sql: Bytes,
    dialect: sql::Dialect,
    digest_limit: usize,
    lexed: OnceLock<sql::Statement>,
    digest: OnceLock<Arc<sql::Digest>>,
}

impl Statement {
    /// The statement with this text, not looked at yet.
    pub fn new(sql: Bytes, dialect: sql::Dialect) -> Self {
        Self::with_digest_limit(sql, dialect, sql::DIGEST_LIMIT)
    }

    /// The same, with a limit of its own for the length of its digest's text, in bytes.
    pub fn with_digest_limit(sql: Bytes, dialect: sql::Dialect, digest_limit: usize) -> Self {
        let (lexed, digest) = (OnceLock::new(), OnceLock::new());
        Self(Held::Alone(Found { sql, dialect, digest_limit, lexed, digest }))
    }

    /// The same statement, whose clones share what is found out about any of them: for one that is
    /// kept. Other clones know what was known when they were made.
    #[must_use]
    pub fn shared(self) -> Self {
        match self.0 {
            Held::Alone(found) => Self(Held::Shared(Arc::new(found))),
            shared @ Held::Shared(_) => Self(shared),
        }
    }

    /// This statement with another text: what it is follows from the new text, its digest stays
    /// that of the client's.
    #[must_use]
    pub fn rewritten(&self, sql: Bytes) -> Self {
        let Found { dialect, digest_limit, .. } = *self.found();
        let digest = OnceLock::from(Arc::clone(self.shared_digest()));
        Self(Held::Alone(Found { sql, dialect, digest_limit, lexed: OnceLock::new(), digest }))
    }

    /// Its text: the client's, unless a filter has changed it.
    pub fn text(&self) -> &Bytes {
        &self.found().sql
    }

    /// How its text is read.
    pub fn dialect(&self) -> sql::Dialect {
        self.found().dialect
    }

    /// What it is.
    pub fn get(&self) -> &sql::Statement {
        let found = self.found();
        found.lexed.get_or_init(|| sql::statement(&found.sql, found.dialect))
    }

    /// Its text without its values, and the hash of that.
    pub fn digest(&self) -> &sql::Digest {
        self.shared_digest()
    }

    /// Whether somebody has asked what it is.
    pub fn is_lexed(&self) -> bool {
        self.found().lexed.get().is_some()
    }

    /// Whether somebody has asked for its digest.
    pub fn is_digested(&self) -> bool {
        self.found().digest.get().is_some()
    }

    fn shared_digest(&self) -> &Arc<sql::Digest> {
        let Found { sql, dialect, digest_limit, digest, .. } = self.found();
        digest.get_or_init(|| Arc::new(sql::digest(sql, *dialect, *digest_limit)))
    }

    fn found(&self) -> &Found {
        match &self.0 {
            Held::Alone(found) => found,
            Held::Shared(found) => found,
        }
    }
}

/// A statement may hold secrets, so its text is not shown.
impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statement({} bytes)", self.text().len())
    }
}

impl Fact for Statement {
    const NAME: &'static str = "statement";
}

#[cfg(test)]
mod tests {
    use super::Statement;
    use sql::{Class, Dialect};

    #[test]
    fn clones_of_a_shared_one_share_what_is_found() {
        let statement = Statement::new("SELECT 1".into(), Dialect::default()).shared();
        let clone = statement.clone();
        assert!(!clone.is_lexed() && !clone.is_digested());
        statement.get();
        statement.digest();
        assert!(clone.is_lexed() && clone.is_digested());
    }

    #[test]
    fn another_text_is_another_statement_with_the_digest_of_the_first() {
        let first = Statement::new("SELECT 1".into(), Dialect::default());
        let second = first.rewritten("DELETE FROM t".into());
        assert_eq!(first.digest().hash, second.digest().hash);
        assert_eq!((first.get().class, second.get().class), (Class::Read, Class::Write));
    }
}
