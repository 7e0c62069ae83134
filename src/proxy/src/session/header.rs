//! What a load balancer says of its client before the client says anything.

use super::Client;
use bytes::Buf;
use chain::Error;
use wire::proxy_protocol::{HeaderError, Source, decode};

impl Client {
    /// Reads the PROXY protocol's header; what the client has sent behind it waits. An error with
    /// the cause [`HeaderError`] is one of what was sent.
    pub(crate) async fn header(&mut self) -> Result<Source, Error> {
        loop {
            if let Some((source, length)) = decode(&self.read).map_err(Error::client)? {
                self.read.advance(length);
                return Ok(source);
            }
            if self.fill().await? == 0 {
                return Err(match self.read.is_empty() {
                    true => Error::client("the client closed before its PROXY protocol header"),
                    false => Error::client("the client closed within its PROXY protocol header"),
                });
            }
        }
    }
}

/// Whether what was sent is no header.
pub(crate) fn is_bad(error: &Error) -> bool {
    error.cause::<HeaderError>().is_some()
}
