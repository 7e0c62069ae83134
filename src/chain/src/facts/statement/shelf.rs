//! Statements that are kept, each once however many sessions keep it.

use super::{Found, Held, Statement};
use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Where the statements are that sessions have prepared. Two that are the same text, read in the
/// same way, are one there: its text is in memory once, and so is what is found out about it. Nothing
/// stays that no session keeps.
#[derive(Default)]
pub struct Shelf {
    hasher: RandomState,
    parts: [Mutex<Part>; PARTS],
}

/// A statement that is kept.
#[derive(Clone, Debug)]
pub struct Kept(Arc<Found>);

#[derive(Default)]
struct Part {
    places: HashMap<u64, Weak<Found>>,
    /// With so many, those are looked for that nobody keeps any more.
    full: usize,
}

/// Sessions of a large machine hardly ever meet.
const PARTS: usize = 16;
/// Fewer are not looked through.
const FEW: usize = 64;

impl Shelf {
    /// The statement, to be kept. Locked for one look.
    pub fn keep(&self, statement: Statement) -> Kept {
        let found = match statement.0 {
            Held::Alone(found) => found,
            Held::Shared(found) => return Kept(found),
        };
        let hash = self.hasher.hash_one(&found.sql);
        // A panic while it is locked leaves a map of whole places.
        let part = &self.parts[hash as usize % PARTS];
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        let known = part.places.get(&hash).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.is_read_as(&found)) {
            return Kept(known);
        }
        let found = Arc::new(found);
        part.places.insert(hash, Arc::downgrade(&found));
        part.tidy();
        Kept(found)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().expect("no panic").places.len()).sum()
    }
}

impl Part {
    fn tidy(&mut self) {
        if self.places.len() > self.full.max(FEW) {
            self.places.retain(|_, found| found.strong_count() > 0);
            self.places.shrink_to(2 * self.places.len());
            self.full = 2 * self.places.len();
        }
    }
}

impl Kept {
    /// The statement, for a command that names it.
    pub fn statement(&self) -> Statement {
        Statement(Held::Shared(self.0.clone()))
    }
}

impl Found {
    fn is_read_as(&self, other: &Self) -> bool {
        let read = |found: &Self| (found.dialect, found.digest_limit);
        self.sql == other.sql && read(self) == read(other)
    }
}

/// Texts may hold secrets.
impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shelf")
    }
}

/// As above.
impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statement({} bytes)", self.sql.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{FEW, PARTS, Shelf, Statement};
    use bytes::Bytes;
    use sql::Dialect;

    fn statement(text: &str, ansi_quotes: bool) -> Statement {
        let dialect = Dialect { ansi_quotes, ..Dialect::default() };
        Statement::new(Bytes::copy_from_slice(text.as_bytes()), dialect)
    }

    #[test]
    fn what_is_read_alike_is_one() {
        let shelf = Shelf::default();
        let first = shelf.keep(statement("SELECT \"a\"", false));
        let [same, other, read_otherwise] =
            [("SELECT \"a\"", false), ("SELECT a", false), ("SELECT \"a\"", true)]
                .map(|(text, quotes)| shelf.keep(statement(text, quotes)));
        first.statement().get();
        assert!(same.statement().is_lexed());
        assert!(!other.statement().is_lexed() && !read_otherwise.statement().is_lexed());
        assert_eq!(same.statement().text().as_ptr(), first.statement().text().as_ptr());
        assert_eq!(read_otherwise.statement().text(), first.statement().text());
    }

    #[test]
    fn what_nobody_keeps_is_forgotten() {
        let shelf = Shelf::default();
        let kept: Vec<_> =
            (0..4).map(|n| shelf.keep(statement(&format!("SELECT {n}"), false))).collect();
        for n in 0..100_000 {
            shelf.keep(statement(&format!("SELECT 'gone', {n}"), false));
        }
        assert!(shelf.len() <= PARTS * (FEW + 1), "{}", shelf.len());
        for (n, kept) in kept.iter().enumerate() {
            let again = shelf.keep(statement(&format!("SELECT {n}"), false));
            assert_eq!(again.statement().text().as_ptr(), kept.statement().text().as_ptr());
        }
    }
}
