//! A file that is put aside when it has become large.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// A file to append to.
pub(super) struct Rotating {
    path: PathBuf,
    file: BufWriter<File>,
    size: u64,
    limit: u64,
    keep: u32,
}

impl Rotating {
    /// Opens the file, or makes it: its owner alone reads it.
    pub(super) fn open(path: &Path, limit: u64, keep: u32) -> io::Result<Self> {
        let (file, size) = open(path)?;
        Ok(Self { path: path.to_owned(), file, size, limit, keep })
    }

    /// Appends a line; before that, puts a file aside that it does not fit into.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.size > 0 && self.size + length > self.limit {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.size += length;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        if self.keep == 0 {
            std::fs::remove_file(&self.path)?;
        } else {
            for number in (1..self.keep).rev() {
                match std::fs::rename(self.aside(number), self.aside(number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            std::fs::rename(&self.path, self.aside(1))?;
        }
        (self.file, self.size) = open(&self.path)?;
        Ok(())
    }

    /// FILE.NUMBER
    fn aside(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn open(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let size = file.metadata()?.len();
    Ok((BufWriter::new(file), size))
}

#[cfg(test)]
mod tests {
    use super::Rotating;

    #[test]
    fn large_files_are_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
        let mut file = Rotating::open(&path, 10, 2).expect("it can be made");
        for line in ["first\n", "second\n", "third\n", "4th\n", "fifth\n"] {
            file.append(line.as_bytes()).expect("it can be written");
        }
        drop(file);
        assert_eq!(read("events.jsonl").as_deref(), Some("fifth\n"));
        assert_eq!(read("events.jsonl.1").as_deref(), Some("third\n4th\n"));
        assert_eq!(read("events.jsonl.2").as_deref(), Some("second\n"));
        assert_eq!(read("events.jsonl.3"), None);
        // what was there is counted
        let mut file = Rotating::open(&path, 10, 0).expect("it is there");
        file.append(b"sixth\n").and_then(|()| file.flush()).expect("it can be written");
        assert_eq!(read("events.jsonl").as_deref(), Some("sixth\n"));
        assert_eq!(read("events.jsonl.1").as_deref(), Some("third\n4th\n"));
    }
}
