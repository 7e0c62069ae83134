//! What a client and the proxy know of each other before the client says who it is.

use crate::tls::Acceptor;
use std::sync::Arc;
use wire::{
    auth::{ServerAuth, certificate_proof},
    greeting::Greeting,
};

/// What holds from the greeting on, for a change of user too.
#[derive(Clone)]
pub(in crate::session) struct Greeted {
    pub(in crate::session) greeting: Greeting,
    /// What the connection was secured with.
    pub(in crate::session) tls: Option<Arc<Acceptor>>,
}

impl Greeted {
    /// What the OK of a login says about the certificate. Servers of MariaDB 11.4 and later say it
    /// always; for a certificate that was made here it is said in front of others too, for without
    /// it their clients would not connect.
    pub(super) fn proof(&self, accepted: &ServerAuth) -> Option<Vec<u8>> {
        let Self { greeting, tls } = self;
        let tls = tls.as_ref()?;
        let version = greeting.version();
        let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let proves = (numbers.next(), numbers.next()) >= (Some(11), Some(4));
        let wanted = greeting.is_mariadb() && (proves || tls.self_made);
        let stored = wanted.then(|| accepted.stored()).flatten()?;
        Some(certificate_proof(&stored, &greeting.nonce, &tls.certificate))
    }
}
