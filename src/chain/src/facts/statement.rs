//! What a statement is, found out when somebody asks.

use super::Fact;
use bytes::Bytes;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// What a statement is. Lexed at the first look, once, and not at all where nobody looks; clones
/// share what was found. Writer: `parse`. Whoever changes a statement's text puts what
/// [`Statement::rewritten`] gives in its place.
///
/// On a command that names a prepared statement it is the statement that was prepared.
#[derive(Clone)]
pub struct Statement(Arc<Inner>);

struct Inner {
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
        Self(Arc::new(Inner { sql, dialect, digest_limit, lexed, digest }))
    }

    /// This statement with another text: what it is follows from the new text, its digest stays
    /// that of the client's.
    #[must_use]
    pub fn rewritten(&self, sql: Bytes) -> Self {
        let Inner { dialect, digest_limit, .. } = *self.0;
        let digest = OnceLock::from(Arc::clone(self.shared_digest()));
        Self(Arc::new(Inner { sql, dialect, digest_limit, lexed: OnceLock::new(), digest }))
    }

    /// Its text: the client's, unless a filter has changed it.
    pub fn text(&self) -> &Bytes {
        &self.0.sql
    }

    /// How its text is read.
    pub fn dialect(&self) -> sql::Dialect {
        self.0.dialect
    }

    /// What it is.
    pub fn get(&self) -> &sql::Statement {
        self.0.lexed.get_or_init(|| sql::statement(&self.0.sql, self.0.dialect))
    }

    /// Its text without its values, and the hash of that.
    pub fn digest(&self) -> &sql::Digest {
        self.shared_digest()
    }

    /// Whether somebody has asked what it is.
    pub fn is_lexed(&self) -> bool {
        self.0.lexed.get().is_some()
    }

    /// Whether somebody has asked for its digest.
    pub fn is_digested(&self) -> bool {
        self.0.digest.get().is_some()
    }

    fn shared_digest(&self) -> &Arc<sql::Digest> {
        let Inner { sql, dialect, digest_limit, digest, .. } = &*self.0;
        digest.get_or_init(|| Arc::new(sql::digest(sql, *dialect, *digest_limit)))
    }
}

/// A statement may hold secrets, so its text is not shown.
impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statement({} bytes)", self.0.sql.len())
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
    fn clones_share_what_was_found() {
        let statement = Statement::new("SELECT 1".into(), Dialect::default());
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
