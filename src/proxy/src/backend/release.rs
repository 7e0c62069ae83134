//! What becomes of a connection when its session has ended.

use super::{connect::ConnectError, kill, link::Link};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::runtime::Handle;

/// How long a reset may take: it rolls a transaction back.
const RESET_TIMEOUT: Duration = Duration::from_secs(30);

impl Link {
    /// Resets the connection and gives it back to its pool, in the background.
    pub(crate) fn release(mut self) {
        if let Some(home) = self.home.take() {
            return home.go(self);
        }
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
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
    }

    /// Makes the connection fit for another session. False if it never will be, or if a KILL that
    /// was meant for this one may strike yet.
    async fn give_back(&mut self) -> Result<bool, ConnectError> {
        if self.lasting.is_for_good() {
            return Ok(false);
        }
        if let Some(lease) = self.seat.vacate()
            && (lease.spoiled.load(Relaxed) || !lease.gate.shut().await)
        {
            return Ok(false);
        }
        self.pay_debt().await?;
        self.reset().await?;
        Ok(true)
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
