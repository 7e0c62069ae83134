//! Collation ids of the handshake.
//!
//! Source: `information_schema.COLLATIONS` of MySQL.

use mysql_common::collations::{Collation, CollationId};
use std::sync::LazyLock;

/// The character set and the collation that a handshake's collation id stands for; `None` for one
/// that MySQL does not know.
#[must_use]
pub fn names(id: u16) -> Option<(&'static str, &'static str)> {
    let collation = ALL.get(usize::from(id))?;
    let known = collation.id() != CollationId::UNKNOWN_COLLATION_ID;
    known.then(|| (collation.charset(), collation.collation()))
}

/// MySQL's highest collation id.
const MAX_ID: u16 = 323;

/// Every collation of MySQL, by id. The table lends its names only to borrowers.
static ALL: LazyLock<Vec<Collation<'static>>> =
    LazyLock::new(|| (0..=MAX_ID).map(|id: u16| Collation::resolve(id.into())).collect());

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn ids_have_names() {
        assert_eq!(names(45), Some(("utf8mb4", "utf8mb4_general_ci")));
        assert_eq!(names(255), Some(("utf8mb4", "utf8mb4_0900_ai_ci")));
        assert_eq!(names(8), Some(("latin1", "latin1_swedish_ci")));
        assert_eq!(names(309), Some(("utf8mb4", "utf8mb4_0900_bin")));
        assert_eq!(names(0), None);
    }
}
