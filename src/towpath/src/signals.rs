//! The signals that ask this process to end, as a [`CancellationToken`].

use std::io;
use std::process;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code of a process that a signal interrupted, as shells count it (128 + SIGINT).
pub(crate) const INTERRUPTED: u8 = 130;

/// What a signal after the first one does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    /// Ends the process there and then.
    Exits,
    /// Nothing: what the first one began is short, and must be finished.
    Ignored,
}

/// A token that SIGINT, SIGTERM or SIGHUP cancels. To be called inside a runtime.
///
/// From this call on these signals no longer end the process by themselves.
pub(crate) fn stop(second: Second) -> io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if cancelled.is_cancelled() && second == Second::Exits {
                process::exit(i32::from(INTERRUPTED));
            }
            cancelled.cancel();
        }
    });
    Ok(token)
}
