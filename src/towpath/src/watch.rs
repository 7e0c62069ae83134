//! `[reload] watch`: the configuration is read again when one of its files changes.
//!
//! Files are looked at, not listened to: that holds for editors that put another file in the place
//! of the old one, for links that are moved, and for network file systems alike.

use proxy::Control;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_millis(500);

/// A file as it is, without a look inside. `None` if there is none.
type Stamp = Option<(SystemTime, u64, u64)>;

/// What the configuration was read from, as it was then.
#[derive(Default)]
struct Seen {
    loaded: Vec<(PathBuf, Stamp)>,
    /// At the last look.
    last: Vec<Stamp>,
}

/// Reloads for ever when a file has changed and is written no more.
pub(crate) async fn run(control: Control, main: PathBuf) {
    let mut seen = Seen::default();
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let Some(files) = control.watched_files() else {
            seen = Seen::default();
            continue;
        };
        if !seen.is_due(&main, files) {
            continue;
        }
        // What is wrong with it is in the log.
        let _ = control.reload("a file that has changed").await;
        if let Some(files) = control.watched_files() {
            seen.know(files);
        }
    }
}

impl Seen {
    /// Whether a file is another than when it was read, and the same as at the last look.
    fn is_due(&mut self, main: &Path, files: Vec<PathBuf>) -> bool {
        if self.loaded.is_empty() {
            self.know(if files.is_empty() { vec![main.to_owned()] } else { files });
            return false;
        }
        let now: Vec<_> = self.loaded.iter().map(|(file, _)| stamp(file)).collect();
        let changed = self.loaded.iter().map(|(_, stamp)| stamp).ne(&now);
        let settled = self.last == now;
        if changed && settled {
            // A file that is bad is read once; the next change is another attempt.
            for ((_, loaded), now) in self.loaded.iter_mut().zip(&now) {
                *loaded = *now;
            }
        }
        self.last = now;
        changed && settled
    }

    /// These files are what is in use. One that was known keeps its stamp: it may have changed
    /// since it was read.
    fn know(&mut self, files: Vec<PathBuf>) {
        let known = std::mem::take(&mut self.loaded);
        let stamped = files.into_iter().map(|file| {
            let before = known.iter().find(|(known, _)| *known == file);
            let stamp = before.map_or_else(|| stamp(&file), |(_, stamp)| *stamp);
            (file, stamp)
        });
        self.loaded = stamped.collect();
        self.last = self.loaded.iter().map(|(_, stamp)| *stamp).collect();
    }
}

fn stamp(file: &Path) -> Stamp {
    let found = fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len(), found.ino()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::Seen;
    use std::fs;

    #[test]
    fn a_change_counts_once_it_has_settled_and_once_only() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("towpath.toml");
        let rules = folder.path().join("rules.toml");
        fs::write(&main, "a").unwrap();
        fs::write(&rules, "b").unwrap();
        let files = || vec![main.clone(), rules.clone()];
        let mut seen = Seen::default();
        let due = |seen: &mut Seen| seen.is_due(&main, files());
        assert!(!due(&mut seen) && !due(&mut seen));
        // Written, and written on.
        fs::write(&rules, "bc").unwrap();
        assert!(!due(&mut seen));
        fs::write(&rules, "bcd").unwrap();
        assert!(!due(&mut seen), "it is written yet");
        assert!(due(&mut seen));
        assert!(!due(&mut seen), "once");
        // An editor puts another file of the same length in its place.
        fs::write(folder.path().join("new"), "x").unwrap();
        fs::rename(folder.path().join("new"), &main).unwrap();
        assert!(!due(&mut seen));
        assert!(due(&mut seen) && !due(&mut seen));
        fs::remove_file(&rules).unwrap();
        assert!(!due(&mut seen));
        assert!(due(&mut seen), "one that is gone has changed too");
    }
}
