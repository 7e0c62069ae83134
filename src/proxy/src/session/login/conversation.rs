//! A login's conversation: what the client says, and what it is told when it is not let in.

use crate::{
    session::{Client, packet_too_large, refuse, too_large},
    stream::Stream,
};
use chain::{Error, Origin};
use tokio_rustls::{TlsAcceptor, TlsStream};
use wire::{
    Capabilities,
    compress::{End, Method},
    err::{ErrPacket, codes},
    packet::{HEADER_LEN, Header, Message},
};

/// A client that asks for more gets this: the highest levels take tens of milliseconds for a frame,
/// for which other sessions would have to wait.
const MAX_ZSTD_LEVEL: u8 = 9;

impl Client {
    /// The next message of a login, which has the sequence id `seq`. Like a server, it does not
    /// wait for the rest of a packet whose header is wrong.
    pub(in crate::session) async fn said(
        &mut self,
        seq: u8,
        limit: usize,
    ) -> Result<Message, Error> {
        while self.read.len() < HEADER_LEN {
            if self.fill().await? == 0 {
                return Err(Error::client("the client closed during the login"));
            }
        }
        if Header::parse(&self.read).is_none_or(|header| header.seq != seq) {
            let text = "Got packets out of order";
            let refusal = ErrPacket::new(codes::ER_NET_PACKETS_OUT_OF_ORDER, text);
            return Err(denied(self, seq, &refusal).await);
        }
        match self.message(limit).await {
            Ok(message) => message.ok_or_else(|| Error::client("the client has closed")),
            Err(error) if too_large(&error) => {
                Err(denied(self, seq.wrapping_add(1), &packet_too_large()).await)
            }
            Err(error) => Err(error),
        }
    }

    /// Goes on with compression, behind the OK, on a connection with these capabilities.
    pub(in crate::session) fn compress(&mut self, method: Method, caps: Capabilities) {
        let method = match method {
            Method::Zstd { level } => Method::Zstd { level: level.min(MAX_ZSTD_LEVEL) },
            zlib => zlib,
        };
        let share = self.share.another();
        self.io.compress_within(method, End::Server(caps), self.read.split(), Some(share));
    }

    /// Goes on under TLS. Whatever came behind the request is part of the TLS handshake: nothing of
    /// it is taken for the client's words.
    pub(in crate::session) async fn upgrade(&mut self, tls: &TlsAcceptor) -> Result<(), Error> {
        let ahead = self.read.split().freeze();
        let plain = std::mem::replace(&mut self.io, Stream::Closed).put_back(ahead);
        let secured = tls.accept(plain).await;
        let secured = secured.map_err(|e| Error::client(format!("TLS: {e}")))?;
        self.io = TlsStream::from(secured).into();
        Ok(())
    }
}

pub(in crate::session) async fn bad_handshake(client: &mut Client, seq: u8) -> Error {
    denied(client, seq, &ErrPacket::new(codes::ER_HANDSHAKE_ERROR, "Bad handshake")).await
}

/// Tells the client why it is not let in. That it may not hear it changes nothing.
pub(in crate::session) async fn denied(client: &mut Client, seq: u8, refusal: &ErrPacket) -> Error {
    let _ = refuse(client, seq, refusal).await;
    Error::client(Denied(refusal.code))
}

/// A client was told why it is not let in.
#[derive(Debug, thiserror::Error)]
#[error("login refused: error {0}")]
struct Denied(u16);

/// Whether a login that failed like this has broken off or made no sense, in contrast to one that
/// was understood and refused.
pub(crate) fn broke_off(error: &Error) -> bool {
    error.origin() == Origin::Client
        && error.cause().is_none_or(|Denied(code)| HANDSHAKE_ERRORS.contains(code))
}

/// Refusals of what is no login.
const HANDSHAKE_ERRORS: [u16; 3] = [
    codes::ER_HANDSHAKE_ERROR.code,
    codes::ER_NET_PACKETS_OUT_OF_ORDER.code,
    codes::ER_NET_PACKET_TOO_LARGE.code,
];
