//! The signals that ask this process to end, as a [`CancellationToken`].

use crate::notify::Manager;
use proxy::Control;
use std::io;
use std::process;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code of a process that a signal interrupted, as shells count it (128 + SIGINT).
pub(crate) const INTERRUPTED: u8 = 130;

/// Has the configuration read again at each SIGHUP, which ends the process no more. To be called
/// inside a runtime.
pub(crate) fn on_hangup(control: Control, manager: Arc<Manager>) -> io::Result<()> {
    let mut signals = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            manager.reloading();
            // What is wrong with it is in the log.
            let _ = control.reload("SIGHUP").await;
            manager.ready();
        }
    });
    Ok(())
}

/// What a signal after the first one does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    /// Ends the process there and then.
    Exits,
    /// Nothing: what the first one began is short, and must be finished.
    Ignored,
}

/// A token that SIGINT or SIGTERM cancels, and SIGHUP where a second signal is ignored: who runs the
/// demo has closed the terminal. To be called inside a runtime.
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
                _ = hangup.recv(), if second == Second::Ignored => {}
            }
            if cancelled.is_cancelled() && second == Second::Exits {
                process::exit(i32::from(INTERRUPTED));
            }
            cancelled.cancel();
        }
    });
    Ok(token)
}
