//! Waiting for a condition, never for a time.

use anyhow::{Result, bail};
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

/// How long anything that must come may take before the test fails.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Asks until `check` gives a value; an error that names `what` after [`LIMIT`].
pub fn until<T>(what: &str, mut check: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(value) = check()? {
            return Ok(value);
        }
        if Instant::now() > end {
            bail!("waited {LIMIT:?} for {what}");
        }
        pause();
    }
}

/// A short pause between two questions, so that asking does not take the processor from the answer.
pub fn pause() {
    let (_open, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(Duration::from_millis(10));
}
