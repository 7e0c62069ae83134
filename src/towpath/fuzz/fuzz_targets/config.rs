//! Any text as a configuration file: good, or mistakes with their places; never a panic.
#![no_main]

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// The file that is read, in memory where there is a file system of that kind.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("towpath-fuzz-{}.toml", std::process::id()))
});

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Names of other files: none that is not beside this one, however it is spelled.
    if text.contains(['/', '\\']) {
        return;
    }
    std::fs::write(&*FILE, text).expect("a folder to write to");
    let registry = towpath::builtin::registry();
    match proxy::config::Config::load_with(&FILE, &registry, &|_| None) {
        Ok(config) => assert!(!config.summary().is_empty()),
        Err(mistakes) => assert!(!mistakes.to_string().is_empty()),
    }
});
