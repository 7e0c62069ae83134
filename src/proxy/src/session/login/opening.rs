//! How a login begins: the greeting, the request, and what both sides agree on.

use super::{Entrance, SECURE_TRANSPORT_REQUIRED, bad_handshake, denied};
use crate::{
    session::{Client, refuse},
    tls::Acceptor,
};
use bytes::BytesMut;
use chain::Error;
use std::sync::Arc;
use wire::{
    auth::random_nonce,
    capability::Capabilities,
    compress::Method,
    err::{ErrPacket, ErrorCode, codes},
    greeting::Greeting,
    login::{LoginRequest, SslRequest},
};

/// MySQL's error for a level of zstd that there is not.
const WRONG_COMPRESSION_LEVEL: ErrorCode = ErrorCode { code: 3923, sqlstate: *b"HY000" };

impl Entrance {
    /// The login has taken too long. MySQL says so; MariaDB closes without a word.
    pub(crate) async fn timed_out(&self, client: &mut Client) {
        if self.greeter.is_mariadb() {
            return;
        }
        let seq = if client.read.is_empty() { 1 } else { 2 };
        let text = "Got timeout reading communication packets";
        let _ = refuse(client, seq, &ErrPacket::new(codes::ER_NET_READ_INTERRUPTED, text)).await;
    }

    /// Sends the greeting.
    pub(super) async fn greet(&self, client: &mut Client, id: u32) -> Result<Greeting, Error> {
        let secure = client.io.is_secure();
        let greeting =
            match self.greeter.greeting(random_nonce(), id, self.tls.is_some() && !secure).await {
                Ok(greeting) => greeting,
                Err(refusal) => {
                    let mut payload = BytesMut::new();
                    refusal.encode_before_login(&mut payload);
                    client.send(0, &payload).await?;
                    return Err(Error::backend(refusal.message_lossy().into_owned()));
                }
            };
        let mut payload = BytesMut::new();
        greeting.encode(&mut payload);
        client.send(0, &payload).await?;
        Ok(greeting)
    }

    /// Reads the login, under TLS where the client asks for it; also gives what that was secured
    /// with, and the sequence id that comes next.
    pub(in crate::session) async fn request(
        &self,
        client: &mut Client,
        offered: Capabilities,
    ) -> Result<(LoginRequest, Option<Arc<Acceptor>>, u8), Error> {
        let mut secured = None;
        let mut message = client.said(1, self.max_packet).await?;
        let Ok(ssl) = SslRequest::decode(&message.payload()) else {
            return Err(bad_handshake(client, message.next_seq).await);
        };
        if ssl.is_some() {
            let Some(tls) = self.tls.as_ref().filter(|_| offered.contains(Capabilities::SSL))
            else {
                return Err(bad_handshake(client, message.next_seq).await);
            };
            let acceptor = tls.get();
            client.upgrade(&acceptor.tls).await?;
            secured = Some(acceptor);
            message = client.said(message.next_seq, self.max_packet).await?;
        } else if self.tls_required && !client.io.is_secure() {
            let text = "Connections using insecure transport are prohibited by this proxy";
            let refusal = ErrPacket::new(SECURE_TRANSPORT_REQUIRED, text);
            return Err(denied(client, message.next_seq, &refusal).await);
        }
        match LoginRequest::decode(&message.payload()) {
            Ok(request) => Ok((request, secured, message.next_seq)),
            Err(_) => Err(bad_handshake(client, message.next_seq).await),
        }
    }
}

/// How both sides compress, if they do. A level that there is not is refused.
pub(in crate::session) async fn compression(
    client: &mut Client,
    request: &LoginRequest,
    greeting: &Greeting,
    seq: u8,
) -> Result<Option<Method>, Error> {
    let agreed = request.capabilities.intersection(greeting.capabilities);
    match Method::agreed(agreed, request.zstd_level) {
        Ok(method) => Ok(method),
        Err(_) => {
            let text = "Invalid zstd compression level for algorithm 'zstd'.";
            let refusal = ErrPacket::new(WRONG_COMPRESSION_LEVEL, text);
            Err(denied(client, seq, &refusal).await)
        }
    }
}
