//! What becomes of a connection when its session has ended.

use super::link::Link;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long a reset may take: it rolls a transaction back.
const RESET_TIMEOUT: Duration = Duration::from_secs(30);

impl Link {
    /// Resets the connection and gives it back to its pool, in the background.
    pub(crate) fn release(mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            match tokio::time::timeout(RESET_TIMEOUT, self.reset()).await {
                Ok(Ok(())) => {
                    let backend = self.backend.clone();
                    if let Some(superfluous) = backend.put_idle(self) {
                        superfluous.quit().await;
                    }
                }
                // In doubt about its state: closed, never pooled.
                Ok(Err(error)) => {
                    tracing::debug!(server = %self.backend.server.name, %error, "reset failed");
                }
                Err(_) => tracing::debug!(server = %self.backend.server.name, "reset timed out"),
            }
        });
    }
}
