//! Certificates that are read again while the proxy runs.

use super::{Acceptor, TlsError, Watched, acceptor};
use crate::{
    backend::Backends,
    config::{self, ListenerTlsMode},
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Has all certificates read again.
#[derive(Debug, Default)]
pub struct Renewal {
    asked: Notify,
    done: Notify,
}

impl Renewal {
    /// Returns when they have been read, well or not. For one caller at a time.
    pub async fn now(&self) {
        self.asked.notify_one();
        self.done.notified().await;
    }
}

/// How often the files of certificates are looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// What a listener secures connections with, if it does.
pub(crate) fn listener(
    listener: &config::Listener,
) -> Result<Option<Arc<Watched<Acceptor>>>, TlsError> {
    let settings = listener.tls.clone();
    if settings.mode == ListenerTlsMode::Disable {
        return Ok(None);
    }
    let files = [&listener.tls.certificate, &listener.tls.key, &listener.tls.client_ca];
    let files = files.into_iter().flatten().map(PathBuf::as_path);
    let watched = Watched::new(listener.address.to_string(), files, move || {
        let pair = settings.certificate.as_deref().zip(settings.key.as_deref());
        acceptor(pair, settings.client_ca.as_deref())
    })?;
    Ok(Some(Arc::new(watched)))
}

/// Reads certificates again when their files have changed, and all of them when
/// that is asked for, for ever.
pub(crate) async fn run(
    listeners: Vec<Arc<Watched<Acceptor>>>,
    backends: Arc<Backends>,
    renewal: Arc<Renewal>,
) {
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        let asked = tokio::select! {
            _ = interval.tick() => false,
            () = renewal.asked.notified() => true,
        };
        listeners.iter().for_each(|listener| listener.renew(asked));
        backends.iter().for_each(|backend| backend.renew(asked));
        if asked {
            renewal.done.notify_one();
        }
    }
}
