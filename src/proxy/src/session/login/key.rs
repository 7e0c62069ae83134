//! The key that clients without TLS encrypt their passwords with.

use std::sync::Arc;
use tokio::sync::OnceCell;
use wire::auth::RsaKeyPair;

/// The process's RSA key, made once.
#[derive(Default)]
pub(crate) struct ProcessKey(OnceCell<Arc<RsaKeyPair>>);

impl ProcessKey {
    /// The key; made by the first who asks, while others wait. `None` if it cannot be made: whoever
    /// needs it is refused then.
    pub(crate) async fn get(&self) -> Option<Arc<RsaKeyPair>> {
        let made = async {
            // A tenth of a second of work, so not on a thread that serves others.
            let key = tokio::task::spawn_blocking(RsaKeyPair::generate).await;
            key.map_err(drop)?.map(Arc::new).map_err(drop)
        };
        let key = self.0.get_or_try_init(|| made).await.ok();
        if key.is_none() {
            tracing::warn!("no RSA key can be made: logins without TLS that need one are refused");
        }
        key.cloned()
    }
}
