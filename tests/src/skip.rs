//! Tests that cannot run here.
//!
//! Neither cargo nor nextest lets a running test say "skipped", so it passes with a line on
//! standard error and one in the file that `TOWPATH_SKIPS` names; `./tests/run` counts those.

use std::{fs::OpenOptions, io::Write};

/// Reports the current test as left out.
#[allow(clippy::print_stderr)]
pub fn report(reason: &str) {
    let line = format!("{}: {reason}", test_name());
    eprintln!("SKIPPED  {line}");
    if let Some(path) = std::env::var_os("TOWPATH_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        // one write for one line: other tests append to the same file at the same time
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        assert!(written.is_ok(), "cannot write {}: {written:?}", path.display());
    }
}

/// The name of the test that runs on this thread: the test harness names the thread after it.
pub fn test_name() -> String {
    std::thread::current().name().unwrap_or("unnamed").to_owned()
}
