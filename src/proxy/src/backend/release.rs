//! What becomes of a connection when its session has ended.

use super::{connect::ConnectError, kill, link::Link};
use std::{cell::RefCell, sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::{runtime::Handle, task::JoinHandle};

/// How long a reset may take: it rolls a transaction back.
const RESET_TIMEOUT: Duration = Duration::from_secs(30);

thread_local! {
    /// What [`released`] waits for, while it drops something on this thread.
    static UNDER_WAY: RefCell<Option<Vec<JoinHandle<()>>>> = const { RefCell::new(None) };
}

/// Drops `holder`, and waits until what the session has left on the connections in it is gone from
/// their servers: locks, transactions, temporary tables. At most as long as a reset may take.
pub(crate) async fn released(holder: impl Sized) {
    UNDER_WAY.set(Some(Vec::new()));
    drop(holder);
    for task in UNDER_WAY.take().unwrap_or_default() {
        // One that has panicked has lost its connection, which closes it.
        let _ = task.await;
    }
}

impl Link {
    /// Resets the connection and gives it back to its pool, in the background.
    pub(crate) fn release(mut self) {
        if let Some(home) = self.home.take() {
            return home.go(self);
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let task = runtime.spawn(async move {
            match tokio::time::timeout(RESET_TIMEOUT, self.give_back()).await {
                Ok(Ok(true)) => {
                    let backend = self.backend.clone();
                    if let Some(superfluous) = backend.put_idle(self) {
                        superfluous.quit().await;
                    }
                }
                // In doubt about its state: closed, never pooled.
                Ok(Ok(false)) => self.quit().await,
                Ok(Err(error)) => {
                    tracing::debug!(server = %self.backend.server.name, %error, "reset failed");
                }
                Err(_) => tracing::debug!(server = %self.backend.server.name, "reset timed out"),
            }
        });
        UNDER_WAY.with_borrow_mut(|tasks| tasks.as_mut().map(|tasks| tasks.push(task)));
    }

    /// Makes the connection fit for another session. False if it never will be, or if a KILL that
    /// was meant for this one may strike yet. What a reset leaves something on is reset all the same:
    /// a server lets go of locks only some time after it was told to close.
    async fn give_back(&mut self) -> Result<bool, ConnectError> {
        if let Some(lease) = self.seat.vacate()
            && (lease.spoiled.load(Relaxed) || !lease.gate.shut().await)
        {
            return Ok(false);
        }
        self.pay_debt().await?;
        self.reset().await?;
        Ok(!self.lasting.is_for_good())
    }

    /// Closes a connection in the middle of a reply that nobody waits for, and ends its statement
    /// on the server, in the background: a server notices by itself only when it next writes.
    pub(crate) fn abandon(self) {
        let Ok(runtime) = Handle::try_current() else { return };
        // A session with one connection of its own has no others, and the proxy no account.
        if self.home.is_some() || !self.backend.kills_abandoned() {
            return;
        }
        runtime.spawn(async move {
            let Self { backend, account, source, thread_id, .. } = &self;
            // The connection is open until then, so that the id is nobody else's.
            let killed = kill::kill(backend, account, *source, *thread_id).await;
            if let Err(error) = killed {
                tracing::debug!(server = %backend.server.name, %error, "abandoned statement not killed");
            }
        });
    }
}
