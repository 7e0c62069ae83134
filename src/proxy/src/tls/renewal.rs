//! Certificates that are read again while the proxy runs.

use super::{Acceptor, TlsError, Watched, acceptor};
use crate::config::{self, ListenerTlsMode};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How often the files of certificates are looked at.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

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
