//! What is made of PEM files, and made anew when they change.

use super::TlsError;
use arc_swap::ArcSwap;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// Something made of files. What was made last stays in use until something else could be made.
pub(crate) struct Watched<T> {
    /// What it is for, in the log.
    what: String,
    files: Vec<PathBuf>,
    make: Box<dyn Fn() -> Result<T, TlsError> + Send + Sync>,
    current: ArcSwap<T>,
    /// How the files were when something was last made of them, or could not be.
    seen: Mutex<Vec<Option<Stamp>>>,
}

/// A file as it is, without a look inside: when it was changed, and how long it is.
type Stamp = (SystemTime, u64);

impl<T> Watched<T> {
    /// Made of `files` by `make`.
    pub(crate) fn new<'a>(
        what: String,
        files: impl IntoIterator<Item = &'a Path>,
        make: impl Fn() -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let files: Vec<PathBuf> = files.into_iter().map(Path::to_owned).collect();
        // Before the files are read: what changes meanwhile is read again.
        let seen = Mutex::new(stamps(&files));
        let current = ArcSwap::from_pointee(make()?);
        Ok(Self { what, files, make: Box::new(make), current, seen })
    }

    /// What is to be used from now on.
    pub(crate) fn get(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Reads the files if they have changed since the last time, or in any event if that is `asked`
    /// for. Connections that are there keep what they have.
    pub(crate) fn renew(&self, asked: bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamps(&self.files);
        if self.files.is_empty() || (*seen == now && !asked) {
            return;
        }
        *seen = now;
        match (self.make)() {
            Ok(made) => {
                self.current.store(Arc::new(made));
                tracing::info!(of = self.what, "certificates read again");
            }
            Err(error) => {
                tracing::error!(of = self.what, %error, "new certificates cannot be used, the old ones stay");
            }
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |file: &PathBuf| {
        let found = fs::metadata(file).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    files.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_anew_when_a_file_changes_and_kept_when_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("number");
        fs::write(&file, "1").unwrap();
        let read = file.clone();
        let made = Watched::new("a test".into(), [file.as_path()], move || {
            let text = fs::read_to_string(&read).unwrap_or_default();
            let bad = |_| TlsError::File(read.clone(), "not a number".into());
            text.parse::<u32>().map_err(bad)
        });
        let watched = made.unwrap();
        assert_eq!(*watched.get(), 1);
        fs::write(&file, "23").unwrap();
        watched.renew(false);
        assert_eq!(*watched.get(), 23);
        fs::write(&file, "broken").unwrap();
        watched.renew(false);
        assert_eq!(*watched.get(), 23);
        fs::remove_file(&file).unwrap();
        watched.renew(true);
        assert_eq!(*watched.get(), 23);
        fs::write(&file, "4567").unwrap();
        watched.renew(false);
        assert_eq!(*watched.get(), 4567);
    }
}
