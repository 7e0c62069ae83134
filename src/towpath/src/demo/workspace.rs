//! The one directory that holds all that a demo makes, and the end of everything in it.

use super::processes::{self, Before};
use anyhow::{Context, Result, bail};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};
use std::{env, io, process};

/// Longest directory whose servers' sockets still fit into a socket's address (108 bytes,
/// unix(7)): the cluster script refuses longer ones.
const LONGEST: usize = 90;

/// A directory that only its owner may read. However the demo ends (error, panic, an abandoned
/// future), dropping this ends every process started meanwhile and removes the directory.
#[derive(Debug)]
pub(crate) struct Workspace {
    dir: PathBuf,
    before: Before,
    keep: bool,
    open: bool,
}

impl Workspace {
    /// Makes the directory: `dir`, which must not exist, or one among the temporary files.
    pub(crate) fn create(dir: Option<&Path>, keep: bool) -> Result<Self> {
        let before =
            processes::adopt_orphans().context("cannot become the parent of the servers")?;
        let dir = match dir {
            Some(dir) => given(dir)?,
            None => temporary()?,
        };
        Ok(Self { dir, before, keep, open: true })
    }

    /// The directory; absolute.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a file that only its owner may read, and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Ends every process, then removes the directory unless it is to be kept.
    pub(crate) fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.open = false;
        // Data that stays is left as a server leaves it, not as a crash does.
        processes::end_all(&self.before, self.keep).context("cannot end the servers")?;
        if !self.keep {
            fs::remove_dir_all(&self.dir)
                .with_context(|| format!("cannot remove {}", self.dir.display()))?;
        }
        Ok(())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.open
            && let Err(error) = self.end()
        {
            anstream::eprintln!("towpath: {error:#}");
        }
    }
}

/// Makes `dir`. One that exists is somebody's, and never taken over.
fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)
}

/// The absolute name of a directory that sockets, scripts and the servers' configuration can bear.
fn bearable(dir: &Path) -> Result<PathBuf> {
    let dir = path::absolute(dir).context("the current directory is not readable")?;
    if dir.as_os_str().len() > LONGEST {
        bail!("{} is too long a name for sockets; at most {LONGEST} bytes", dir.display());
    }
    match dir.to_str() {
        Some(name) if !name.contains(|c: char| c.is_whitespace() || "'\"\\#$`".contains(c)) => {
            Ok(dir)
        }
        _ => bail!("{} has blanks or quotes in its name; name another", dir.display()),
    }
}

fn given(dir: &Path) -> Result<PathBuf> {
    let dir = bearable(dir)?;
    match make(&dir) {
        Ok(()) => Ok(dir),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists; name a directory that does not", dir.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot make {}", dir.display())),
    }
}

fn temporary() -> Result<PathBuf> {
    let name = format!("towpath-demo-{}", process::id());
    let parent = bearable(&env::temp_dir().join(&name))
        .ok()
        .and_then(|dir| dir.parent().map(Path::to_owned))
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    // A process may have had this number before, and have kept its directory.
    for attempt in 0..100 {
        let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let dir = parent.join(format!("{name}{suffix}"));
        match make(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make {}", dir.display()));
            }
        }
    }
    bail!("{}/{name}, and 99 names like it, exist", parent.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// As `create`, without changing whose children orphans of this test process are.
    fn workspace(dir: &Path) -> Result<Workspace> {
        let before = Before::default();
        Ok(Workspace { dir: given(dir)?, before, keep: true, open: false })
    }

    #[test]
    fn directory_and_files_are_private() {
        let parent = tempfile::tempdir().unwrap();
        let workspace = workspace(&parent.path().join("new")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(workspace.dir()), 0o700);
        let file = workspace.write("secret", "x").unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(workspace.write("secret", "y").unwrap(), file);
        assert_eq!(fs::read_to_string(file).unwrap(), "y");
    }

    #[test]
    fn directory_that_exists_is_refused_and_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let error = workspace(parent.path()).unwrap_err().to_string();
        assert!(error.contains("exists"), "{error}");
        assert!(parent.path().exists());
    }

    #[test]
    fn temporary_directories_are_new_each_time() {
        let (one, two) = (temporary().unwrap(), temporary().unwrap());
        assert_ne!(one, two);
        fs::remove_dir(one).unwrap();
        fs::remove_dir(two).unwrap();
    }

    #[test]
    fn names_that_sockets_or_scripts_cannot_bear_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let long = parent.path().join("x".repeat(100));
        assert!(workspace(&long).unwrap_err().to_string().contains("too long"));
        let blank = parent.path().join("a b");
        assert!(workspace(&blank).unwrap_err().to_string().contains("blanks"));
        assert!(!long.exists() && !blank.exists());
    }
}
